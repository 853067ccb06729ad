"""The request of a command that measures cases, from its options.

In the order of a run: the devices, the libraries, the islands that bridge connects, the settings,
the sweep, and the request for its cases.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cclmark.base.errors import MissingError, UsageError
from cclmark.journal.journal_file import JournalReader
from cclmark.journal.kind import Kind
from cclmark.journal.schema import Settings
from cclmark.journal.setting_values import read_configuration_files
from cclmark.journal.summaries import usual_clock
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.debugging import debugged
from cclmark.launch.devices import choose_devices, indicated_vendor
from cclmark.launch.placement import SRUN, Placement, find_placement, is_primary, launching_program
from cclmark.launch.request import Request
from cclmark.options import groups
from cclmark.options.command import given_of
from cclmark.options.groups import AUTO_PLACEMENT, CaseOptions
from cclmark.rank import locate
from cclmark.recording.caller import notice
from cclmark.recording.joining import WantedDevices, devices_here
from cclmark.work.binding import Binding
from cclmark.work.cases import Case, Sweep, UnevenPattern, rows_pattern
from cclmark.work.inject import Injection
from cclmark.work.islands import Island, parse_islands
from cclmark.work.libraries import (
    AUTO_MEMORY,
    BRIDGE,
    added_libraries,
    all_libraries,
    assumption_of,
    engine_libraries,
    meant_by,
    names_for,
    native_library,
    owners_of,
    runtimes_of,
    torch_backend_of,
)
from cclmark.work.library_settings import (
    check_combination,
    configuration_files_of,
    invalid_values,
    unknown_option,
    variable_of_option,
)
from cclmark.work.operations import ALL_ROOTS, OPERATIONS
from cclmark.work.runtimes import ACCELERATOR_RUNTIMES, NamedDevices, parse_devices
from cclmark.work.sizes import sweep
from cclmark.work.torch_devices import TORCH_DEVICES, supports, torch_runtimes
from cclmark.work.variants import OPTION

PLAIN_SRUN = (
    "this srun started its tasks without an MPI plug-in: use srun --mpi=pmix for Open MPI or "
    "--mpi=pmi2 for MPICH"
)
_OTHER_LIBRARY = "use --ccl torch:gloo, or the library of the devices"
_DEFAULT_END_BYTES = {"host": 16 << 20}
_DEFAULT_END_BYTES_OF_ACCELERATORS = 128 << 20
_REGISTRATIONS = ("none", "local", "symmetric")
_WITHOUT_GRAPHS = ("host", "acl")  # runtimes whose operations are never replayed from graphs
# Libraries besides the CCLs that ranks may open: for kernels and for matrix products.
_BESIDE_CCLS = ("nvrtc", "cublaslt")
_UNKNOWN_VERSION = ""


def devices_for(flags: CaseOptions) -> NamedDevices:
    """Returns ``--devices``, by default and for bare numbers of what the named libraries require.

    Accelerators come before the host. Reads ``--ccl-file`` first, which may describe one of those
    libraries. Raises UsageError.
    """
    flags.add_ccl_files()
    numbers = flags.devices.numbers or {"": ()}
    if "" not in numbers or not flags.ccl:
        return flags.devices
    needed = [runtimes_of(name) for name in flags.ccl]
    for runtimes in needed:
        if len(runtimes) == 1 and runtimes != ["host"]:
            of_runtime = {one or runtimes[0]: own for one, own in numbers.items()}
            return NamedDevices(flags.devices.text, of_runtime)
    only_host = not flags.devices and all(runtimes == ["host"] for runtimes in needed)
    return parse_devices("host") if only_host else flags.devices


def wanted_of(flags: CaseOptions, *, mixed: bool = False) -> WantedDevices:
    """Returns the devices that a command for cases requests. Raises UsageError, MissingError."""
    back = True if flags.count is None and flags.npus == 1 else None
    count = device_count(flags)
    return WantedDevices(lambda: devices_for(flags), count, flags.timeout_s, mixed, back)


def device_count(flags: CaseOptions) -> int | None:
    """Returns the device count of ``-g``, or of hccl_test's ``-p``, which counts per host.

    ``-p 1`` of nccl-tests starts ranks in parallel, with one device for each process of a launcher.
    """
    npus, count = flags.npus, flags.count
    if npus is None:
        return count
    if npus > 1 and count not in (None, npus):
        raise UsageError("-g and -p request different numbers of devices")
    launched = find_placement(os.environ, alone=True)
    if count is None and (npus > 1 or (npus == 1 and _takes_one_device(flags, launched))):
        return max(1, npus // ((launched and launched.local_size) or 1))
    if npus < 2 and is_primary(os.environ):
        notice(
            f"-p {npus} is ignored: ranks always start in parallel and outputs are checked. "
            "For one device write -g 1."
        )
    return count


def _takes_one_device(flags: CaseOptions, launched: Placement | None) -> bool:
    """Whether ``-p 1`` means one device: below a launcher, and of hccl_test's NPUs."""
    is_below = launched is not None and (launched.processes > 1 or launched.by_mpi)
    return is_below or choose_devices(devices_for(flags), None, devices_here).runtime == "acl"


def with_mpirun(
    request: Request, coordinator: Coordinator, user: str, instead: str = _OTHER_LIBRARY
) -> Request:
    """The request, whose ranks that measure MPI are started by an mpirun.

    ``user``: the option that requires it; ``instead``: what else the user can do. Raises
    MissingError, UsageError.
    """
    found = mpirun_of(coordinator, user, instead)
    return replace(
        request,
        mpirun=found.path if coordinator.placement is None else "",
        ccl_wheels={**request.ccl_wheels, "mpi": found.libraries},
    )


def mpirun_of(coordinator: Coordinator, user: str, instead: str = _OTHER_LIBRARY) -> locate.Mpirun:
    """The mpirun that starts ranks, or started this process. Raises MissingError, UsageError."""
    placement = coordinator.placement
    if placement is None:
        return locate.find_mpirun()
    if placement.launcher == SRUN and not placement.by_mpi:
        raise UsageError(f"{user} requires MPI ranks, but {PLAIN_SRUN}, or {instead}")
    if not placement.by_mpi:
        raise UsageError(
            f"{user} requires ranks that an mpirun or srun started, but {placement.launcher} "
            f"started these: {instead}"
        )
    if not is_one_device_each(coordinator):
        raise UsageError(
            f"{user} requires one process for each device: start as many, or use -g 1 for one "
            "device of each process"
        )
    program = launching_program(os.getpid())
    return locate.mpirun_at(program.path) if program is not None else locate.mpi_of_srun()


def with_new_ranks(command: str, request: Request) -> Request:
    """The request, in which new ranks can follow the first ones, as ``command`` requires.

    MPI supports no second process for a rank of a launcher: an mpirun of the first process starts
    them on all hosts. Raises MissingError, and UsageError if that is not possible.
    """
    coordinator = request.coordinator
    if not request.starts_ranks_once or coordinator is None:
        return request
    named = locate.MPIRUN in os.environ
    mpirun = Path(locate.find_mpirun().path if named else mpirun_of(coordinator, command).path)
    if mpirun.name and (beside := mpirun.with_name("mpirun")).is_file():
        mpirun = beside  # what runs is a part of it: prterun, mpiexec.hydra
    hosts = coordinator.host_of_rank
    if not mpirun.is_file():
        why = "none is installed (CCLMARK_MPIRUN=FILE names it)"
    elif hosts != sorted(hosts):
        why = (
            "the ranks of a host do not follow one another: start them host after host (mpirun "
            "--map-by slot, -ppn; srun -m block)"
        )
    elif any("#" in one.machine.hostname for one in coordinator.hosts):
        why = "hosts have equal names, by which it cannot reach them"
    elif debugged().ranks:
        why = "no debugger can be named for them: use cclmark all_reduce --debug-rank"
    else:
        return replace(request, mpirun=str(mpirun))
    raise UsageError(f"{command} starts new ranks of MPI for each variant by an mpirun, but {why}")


def is_one_device_each(coordinator: Coordinator) -> bool:
    """Whether every process of the run has one device."""
    return all(len(join.indices) == 1 for join in coordinator.joins)


def libraries_of(flags: CaseOptions, coordinator: Coordinator) -> list[str]:
    """Returns the libraries of ``--ccl``, else the default. Raises UsageError, MissingError."""
    names = _named_ccls(flags, coordinator)
    if "shm" in names and len(coordinator.hosts) > 1:
        raise UsageError(
            f"shm works within one host, but these ranks are on {len(coordinator.hosts)} hosts: "
            "use --ccl mpi or bridge (under an mpirun or srun), or torch:gloo"
        )
    return names


def _named_ccls(flags: CaseOptions, coordinator: Coordinator) -> list[str]:
    runtime = coordinator.devices.runtime
    if not flags.ccl and runtime == "host" and len(coordinator.hosts) > 1:
        return [_ccl_between_hosts(coordinator)]
    if not flags.ccl:
        if flags.ccl_path and runtime == "host":
            raise UsageError("--ccl-path is not supported: the library of the host is built in")
        return [_native_ccl(flags, runtime)]
    from cclmark.rank.probe import count_devices

    names = list(dict.fromkeys(meant_by(name, runtime) for name in flags.ccl))
    for name in names:
        if name == BRIDGE:
            continue
        backend = torch_backend_of(name)
        needed = runtimes_of(name) if backend is None else torch_runtimes(backend)
        if backend == "" or (backend is None and not needed):
            raise unknown_library(name, runtime)
        if runtime not in needed if backend is None else not supports(backend, runtime):
            if not flags.devices:
                count_devices(needed[0])  # with the default, the missing device is the reason
            raise UsageError(
                f"{name} supports {' and '.join(needed)} devices, not {runtime} devices: see "
                "--devices"
            )
        require_allowed(name, flags)
    _check_files(flags, names)
    if all(torch_backend_of(name) is not None for name in names):
        locate.require_torch()
    return names


def _check_files(flags: CaseOptions, names: Sequence[str]) -> None:
    """Raises UsageError for files and modules that none of these libraries loads."""
    built_in = ("shm", BRIDGE)
    loaded = [name for name in names if name not in built_in and torch_backend_of(name) is None]
    if flags.ccl_path and not loaded and BRIDGE not in names:
        raise UsageError(
            "--ccl-path is not supported: shm is built in, and torch has its own libraries"
        )
    require_one_file(flags, loaded)
    if flags.modules and not any(torch_backend_of(name) is not None for name in names):
        raise UsageError("--import requires a backend of torch: use --ccl torch:BACKEND")


def require_one_file(flags: CaseOptions, ccls: Sequence[str]) -> None:
    """Raises UsageError if ``--ccl-path`` would apply to several libraries."""
    if flags.ccl_path and len(ccls) > 1:
        variables = [all_libraries()[ccl].variable for ccl in ccls]
        raise UsageError(
            f"--ccl-path sets one file, but {' and '.join(ccls)} are different libraries: set "
            f"their files with {' and '.join(variables)}"
        )


def unknown_library(name: str, runtime: str) -> UsageError:
    """Returns the error for a name that is not a library of such devices."""
    if owners := owners_of(name):
        meant = " and ".join(f"{one} on {kind}" for kind, one in owners.items())
        return UsageError(f"{name} is {meant} devices, not on {runtime}: see --devices")
    known = ", ".join(
        [
            *(one.name for one in engine_libraries()),
            BRIDGE,
            "torch:BACKEND (torch:gloo, torch:nccl, ...)",
        ]
    )
    return UsageError(f"unknown library {name!r}: choose from {known}")


def _ccl_between_hosts(coordinator: Coordinator) -> str:
    """Returns the library for host devices of several hosts. Raises MissingError."""
    placement = coordinator.placement
    assert placement is not None
    if placement.by_mpi and is_one_device_each(coordinator):
        return "mpi"
    if not locate.has_torch():
        hint = f"; {PLAIN_SRUN}" if placement.launcher == SRUN and not placement.by_mpi else ""
        raise MissingError(
            "several hosts require --ccl torch:gloo, but torch is not installed (pip install "
            "torch), or --ccl mpi, which requires one process for each device, started by an "
            f"mpirun or srun{hint}"
        )
    return "torch:gloo"


def default_library(runtime: str) -> str | None:
    """The default library of devices of ``runtime``, None if there is none or several.

    Where several vendors' devices have one runtime: that of the vendor whose device nodes exist,
    or whose file a variable names.
    """
    if native := native_library(runtime):
        return native
    vendor = indicated_vendor(ACCELERATOR_RUNTIMES[runtime])
    own = [one for name, one in all_libraries().items() if name in names_for(runtime)]
    fitting = [
        one.name
        for one in own
        if one.vendor and (vendor == one.vendor or os.environ.get(one.variable))
    ]
    return fitting[0] if len(fitting) == 1 else None


def _native_ccl(flags: CaseOptions, runtime: str) -> str:
    """Returns the default library of the devices. Raises UsageError, MissingError."""
    native = default_library(runtime)
    if native is None:
        fitting = names_for(runtime)
        vendors = {name: all_libraries()[name].vendor for name in fitting}
        names = ", ".join(
            f"{name} ({vendor})" if vendor else name for name, vendor in vendors.items()
        )
        reason = (
            f"{runtime} devices have no default library: use --ccl with one of "
            f"{names or 'none known'}"
        )
        if flags.devices:
            raise UsageError(reason)
        raise MissingError(f"{reason}. To measure the host instead, use --devices host")
    require_allowed(native, flags)
    return native


def require_allowed(name: str, flags: CaseOptions) -> None:
    """Raises MissingError for a library that requires a flag which is not set."""
    assumed = assumption_of(name)
    if assumed and not flags.allow_unverified:
        raise MissingError(
            f"{name}: its public interface is incomplete, and cclmark would assume {assumed}. "
            "--allow-unverified measures it nevertheless; it may crash or return wrong data"
        )


def warnings_of(ccls: Sequence[str]) -> list[str]:
    """Returns the warnings about these libraries, and about values of their variables."""
    added = {library.name for library in added_libraries()}
    said = [
        f"{name} is unverified: cclmark assumes {assumption_of(name)}"
        for name in ccls
        if assumption_of(name)
    ]
    said += [f"{name} is known from a --ccl-file only" for name in ccls if name in added]
    wrong = dict.fromkeys(text for name in ccls for text in invalid_values(name, os.environ))
    return said + [f"in the environment, {text}" for text in wrong]


def require_added_to_be_used(ccls: Sequence[str]) -> None:
    """Raises UsageError for a library of ``--ccl-file`` that is not measured."""
    for library in added_libraries():
        if library.name not in ccls:
            raise UsageError(
                f"--ccl-file describes {library.name}, which is not measured: add --ccl "
                f"{library.name}"
            )


_FLAGCX = "flagcx"  # joins devices of several vendors itself


def islands_of(flags: CaseOptions, ccls: Sequence[str], coordinator: Coordinator) -> list[Island]:
    """Returns the islands that bridge connects, none without bridge. Raises UsageError."""
    devices = coordinator.devices
    if BRIDGE not in ccls:
        for given, name in ((flags.islands, "--islands"), (flags.through_host, "--through-host")):
            if given:
                raise UsageError(f"{name} requires --ccl bridge")
        if devices.mixed and [*ccls] != [_FLAGCX]:
            raise UsageError(
                f"{' and '.join(dict.fromkeys(devices.mixed))} devices together require --ccl "
                f"{BRIDGE}, or {_FLAGCX} alone"
            )
        return []
    if devices.mixed and len(ccls) > 1:
        raise UsageError("devices of several runtimes support only --ccl bridge")
    libraries = {runtime: _libraries_of(runtime) for runtime in dict.fromkeys(devices.runtimes)}
    natural = {runtime: native_library(runtime) is not None for runtime in libraries}
    islands = parse_islands(
        flags.islands, devices.runtimes, libraries, natural, coordinator.host_of_rank
    )
    inner = inner_libraries(islands)
    for name in inner:
        require_allowed(name, flags)
    loaded = (name for name in (*ccls, *inner) if name not in ("shm", BRIDGE))
    files = dict.fromkeys(name for name in loaded if torch_backend_of(name) is None)
    require_one_file(flags, list(files))
    if flags.ccl_path and not files:
        raise UsageError(
            "--ccl-path is not supported: shm is built in, and no other library is used"
        )
    return islands


def inner_libraries(islands: Sequence[Island]) -> list[str]:
    """Returns the libraries that islands load; a rank alone in its island requires none."""
    return list(dict.fromkeys(island.ccl for island in islands if island.ccl))


def _libraries_of(runtime: str) -> list[str]:
    """Returns the libraries that an island of such devices may use, the native one first."""
    native = native_library(runtime)
    return sorted(
        (name for name in names_for(runtime) if name != "mpi"), key=lambda name: name != native
    )


def settings_of(flags: CaseOptions, runtime: str) -> Settings:
    """Creates the settings that the flags request. Raises UsageError."""
    if flags.memory not in (None, "plain") and runtime == "host":
        raise UsageError(f"--memory {flags.memory}: buffers of the host are plain memory")
    own = any(torch_backend_of(name) is not None for name in flags.ccl or ())
    if own and flags.memory not in (None, "torch") and not TORCH_DEVICES[runtime].shares_memory:
        raise UsageError(
            f"--memory {flags.memory}: on {runtime} devices torch.distributed supports only "
            "buffers of torch: use --memory torch or leave it out"
        )
    timing = _timing(flags, runtime)
    usual_end = _DEFAULT_END_BYTES.get(runtime, _DEFAULT_END_BYTES_OF_ACCELERATORS)
    if flags.like is not None and runtime != "host":
        usual_end = flags.like.end_bytes
    return Settings(
        begin_bytes=flags.begin,
        end_bytes=max(flags.begin, usual_end) if flags.end is None else flags.end,
        step_bytes=flags.step,
        factor=0.0 if flags.step else flags.factor or flags.usual_factor,
        timing=timing,
        across_ranks=flags.across,
        precision=flags.precision_percent / 100,
        max_time_s=flags.max_time_s,
        timeout_s=flags.timeout_s,
        iterations=flags.iterations,
        warmup=flags.warmup,
        group=flags.group,
        graph_launches=flags.graph or 1,
        check=flags.check,
        cycles=0 if flags.duration else flags.cycles,
        duration_s=flags.duration,
        registration=_registration(flags, runtime),
        memory="" if runtime == "host" else flags.memory or AUTO_MEMORY,
        cache=flags.cache,
        barrier=flags.barrier,
        # The host has one clock.
        clock="auto" if runtime == "host" or flags.clock == usual_clock(timing) else flags.clock,
        seed=flags.seed,
        check_on="" if flags.check_on == "device" else flags.check_on,
        inject=list(flags.inject),
        pattern=flags.pattern,
        config=dict(flags.config),
        conditions=flags.conditions,
    )


def _registration(communicator: groups.CommunicatorOptions, runtime: str) -> str:
    """Returns what ``--register`` and ``-R`` select together. Raises UsageError."""
    named, number = communicator.register, communicator.register_number
    if named and number is not None and named != _REGISTRATIONS[number]:
        raise UsageError("-R and --register contradict each other")
    registration = named or _REGISTRATIONS[number or 0]
    if registration != "none" and runtime == "host":
        raise UsageError("buffers of the host require no registration: remove -R and --register")
    return registration


def _timing(method: groups.TimingOptions, runtime: str) -> str:
    """The timing of ``--timing``, ``-z`` and ``-G``. Raises UsageError."""
    asked = {
        method.timing,
        "blocking" if method.blocking else None,
        "graph" if method.graph else None,
    } - {None}
    if len(asked) > 1:
        named = " and ".join(sorted(map(str, asked)))
        raise UsageError(f"--timing, -z and -G request different timings: {named}")
    timing = next(iter(asked), None) or "auto"
    if method.group > 1 and timing in ("blocking", "per-op"):
        raise UsageError(f"-m groups operations, but --timing {timing} times each operation alone")
    return "throughput" if timing == "auto" and runtime in _WITHOUT_GRAPHS else timing


def check_config(options: Mapping[str, str], ccls: Sequence[str]) -> None:
    """Checks the options of ``--config`` for every measured library. Raises UsageError."""
    for ccl in ccls:
        for name in options:
            require_option("--config", ccl, OPTION + name)
        check_options_together("--config", ccl, options)


def require_option(flag: str, ccl: str, name: str) -> None:
    """Raises UsageError unless the library can be given the option, and it decides.

    ``name``: with its prefix, for example ``config.minCTAs``.
    """
    if reason := unknown_option(ccl, name):
        raise UsageError(_as_typed(flag, reason))
    variable = variable_of_option(ccl, name)
    if not variable:
        return
    files, _ = read_configuration_files(configuration_files_of(ccl), os.environ)
    for source, variables in (("the environment", os.environ), *files):
        if variable in variables:
            raise UsageError(
                _as_typed(flag, f"{name}: {variable}={variables[variable]} is set in {source} ")
                + "and overrides the option: unset it"
            )


def check_options_together(flag: str, ccl: str, options: Mapping[str, str]) -> None:
    """Checks the options of one communicator, which ``flag`` gives. Raises UsageError."""
    values = {OPTION + name: value for name, value in options.items()}
    try:
        check_combination(ccl, values, _UNKNOWN_VERSION, {})
    except UsageError as error:
        raise UsageError(_as_typed(flag, str(error))) from None


def _as_typed(flag: str, text: str) -> str:
    """The text after the flag; names of ``--config`` have no prefix."""
    return f"{flag} {text.replace(OPTION, '') if flag == '--config' else text}"


def sweep_of(
    operations: list[str],
    flags: CaseOptions,
    ccls: list[str],
    settings: Settings,
    ranks: int,
    roots: list[int],
) -> Sweep:
    """Creates the sweep that the flags request, with the libraries ``ccls``. Raises UsageError."""
    uneven = UnevenPattern.parse(_pattern_text(flags))
    if any(OPERATIONS[name].uneven for name in operations):
        uneven.check(ranks)
    elif flags.pattern != "uniform":
        raise UsageError("--pattern is supported for alltoallv only")
    placements = {
        "both": (False, True),
        "out-of-place": (False,),
        "in-place": (True,),
        AUTO_PLACEMENT: (),
    }
    return Sweep(
        operations=operations,
        ccls=ccls,
        ranks=ranks,
        sizes=sweep(settings.begin_bytes, settings.end_bytes, settings.step_bytes, settings.factor),
        dtypes=flags.dtype,
        reductions=flags.reduction,
        roots=roots,
        placements=placements[flags.placement],
        uneven=uneven,
    )


def _pattern_text(flags: CaseOptions) -> str:
    """Returns ``--pattern``; with ``--resume``, the journal's weights for the same file."""
    if flags.resume is None or not flags.pattern.startswith("matrix:"):
        return flags.pattern
    then = JournalReader([]).read(flags.resume, as_written=True).header.settings
    return (
        rows_pattern(then.weights)
        if then.pattern == flags.pattern and then.weights
        else flags.pattern
    )


def root_without_effect(operations: Sequence[str], root: int | None) -> list[str]:
    """Returns a notice if ``-r`` has no effect because none of the operations has a root.

    Every program of nccl-tests accepts ``-r``, so scripts pass its default to all of them. Raises
    UsageError for another root, which cannot be measured.
    """
    if root is None or any(OPERATIONS[name].rooted for name in operations):
        return []
    text = (
        f"-r {'all' if root == ALL_ROOTS else root}: {' and '.join(operations)} "
        f"{'has' if len(operations) == 1 else 'have'} no root"
    )
    if root:
        raise UsageError(text)
    return [f"{text}, so the option has no effect"]


def roots_of(root: int | None, ranks: int) -> list[int]:
    """Returns the ranks that ``--root`` names. Raises UsageError for one that does not exist."""
    if root == ALL_ROOTS:
        return list(range(ranks))
    if (root or 0) >= ranks:
        raise UsageError(f"unknown root '{root}': choose from 0 to {ranks - 1}, or all")
    return [root or 0]


def no_cases(flags: CaseOptions, plan: Sweep) -> UsageError:
    """Returns the error for a sweep without cases."""
    flag = "-b" if groups.SizeOptions in flags.without else "-e"
    return UsageError(f"{'; '.join(plan.left_out())}: raise {flag}")


def check_faults(
    faults: Mapping[str, Injection], settings: Settings, cases: Sequence[Case]
) -> None:
    """Raises UsageError for a fault that cannot be observed. ``faults``: by the typed text."""
    for text, fault in faults.items():
        rank = fault.rank if fault.pair is None else sorted(fault.pair).index(fault.pair[1])
        most = max(case.output_elements(rank) for case in cases)
        if fault.kind == "corrupt" and fault.value >= most:
            whose = f"rank {rank}" if fault.pair is None else f"device {fault.pair[1]}"
            largest = f"has {most} elements" if most else "is empty"
            raise UsageError(f"{text!r}: {whose}'s largest output {largest}")
        if fault.kind == "hang" and fault.value >= len(cases):
            raise UsageError(f"{text!r}: this run has cases 0 to {len(cases) - 1}")
        if fault.kind == "corrupt" and not settings.check:
            raise UsageError(
                f"{text!r}: with -c 0 no output is checked, so the fault would not be detected"
            )


def request_of(
    kind: Kind,
    operations: list[str],
    flags: CaseOptions,
    coordinator: Coordinator,
) -> tuple[Request, Sweep]:
    """The request for the cases of ``flags``, and their sweep. Raises CclmarkError if invalid."""
    devices = coordinator.devices
    settings = settings_of(flags, devices.runtime)
    ranks = len(devices.indices)
    roots = roots_of(flags.root, ranks)
    without_effect = root_without_effect(operations, flags.root)
    others = [name for name in getattr(flags, "unlisted", ()) if name != "root"]
    if given := given_of(flags, others):
        without_effect.append(f"{', '.join(given)}: without effect on {' and '.join(operations)}")
    plan = sweep_of(operations, flags, libraries_of(flags, coordinator), settings, ranks, roots)
    settings.weights = [list(row) for row in plan.uneven.weights]
    settings.islands = islands_of(flags, plan.ccls, coordinator)
    settings.through_host = flags.through_host
    settings.bind = str(Binding.parse(flags.bind, ranks))
    loaded = [*plan.ccls, *inner_libraries(settings.islands)]
    require_added_to_be_used(loaded)
    check_config(settings.config, plan.ccls)
    cases = list(plan.cases())
    if not cases:
        raise no_cases(flags, plan)
    check_faults({text: Injection.parse(text, ranks) for text in settings.inject}, settings, cases)
    mpirun = None
    absent: dict[str, str] = {}
    if "mpi" in plan.ccls:
        try:
            mpirun = mpirun_of(coordinator, "--ccl mpi")
        except MissingError as error:
            if len(plan.ccls) == 1:
                raise
            absent["mpi"] = str(error)
    elif BRIDGE in plan.ccls and len(coordinator.hosts) > 1:
        mpirun = mpirun_of(coordinator, "--ccl bridge between hosts")
    request = Request(
        devices=devices,
        kind=kind,
        planned=cases,
        settings=settings,
        ccl_path=flags.ccl_path,
        ccl_wheels={name: locate.wheel_files(name) for name in (*loaded, *_BESIDE_CCLS)}
        | ({"mpi": mpirun.libraries} if mpirun is not None else {}),
        modules=flags.modules,
        warnings=[*warnings_of(loaded), *plan.rounding(), *without_effect],
        mpirun=mpirun.path if mpirun is not None and coordinator.placement is None else "",
        absent=absent,
        coordinator=coordinator,
    )
    return request, plan


def stem_of(plan: Sweep, before: str = "", behind: str = "") -> str:
    """Returns a part of the name of a journal: the operation, the libraries, the number of ranks.

    ``before``, ``behind``: words around the operation.
    """
    name = plan.operations[0] if len(plan.operations) == 1 else "collectives"
    ccls = "-".join(plan.ccls).replace(":", "-")
    return f"{before}{name}{behind}-{ccls}-{plan.ranks}"
