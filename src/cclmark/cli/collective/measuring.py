"""Runs a measuring command: flags to a plan, the plan to ranks, results to journal and screen."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cclmark.analysis.summary import usual_clock
from cclmark.cli import like
from cclmark.cli.communicator_options import check_config, parse_config
from cclmark.cli.options import AUTO_PLACEMENT, Flags
from cclmark.cli.usual_references import usual_references
from cclmark.errors import MissingError, UsageError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.placement import SRUN, find_placement, is_primary, launching_program
from cclmark.launch.request import Request
from cclmark.plan.binding import Binding
from cclmark.plan.cases import Case, Sweep, UnevenPattern, rows_pattern
from cclmark.plan.durations import parse_duration
from cclmark.plan.inject import Injection
from cclmark.plan.islands import Island, parse_islands
from cclmark.plan.items import COLLECTIVE
from cclmark.plan.libraries import (
    BRIDGE,
    added_libraries,
    all_libraries,
    assumption_of,
    engine_libraries,
    meant_by,
    names_for,
    native_library,
    owners_of,
    require_torch_devices,
    runtimes_of,
    torch_backend_of,
    usual_runtime,
)
from cclmark.plan.operations import (
    DTYPE_BYTES,
    OPERATIONS,
    moves_data,
    parse_dtypes,
    parse_reductions,
)
from cclmark.plan.sizes import format_size, parse_size, sweep
from cclmark.recording.joining import joined
from cclmark.recording.output import Output
from cclmark.recording.recorder import record
from cclmark.report.formats.exporter import Exporter
from cclmark.report.journal_text import exporter_of
from cclmark.report.kinds.case_table import TableExporter
from cclmark.report.wording.paint import ansi, unpainted
from cclmark.report.wording.reference_notes import ReferenceNotes
from cclmark.results.journal import read_journal
from cclmark.results.kinds import CaseResult
from cclmark.results.schema import Settings
from cclmark.run import locate

_DEFAULT_END = {"host": "16M"}
_DEFAULT_END_OF_ACCELERATORS = "128M"
_LONGEST_S = 1e6
_USUAL_ROOT = "0"
_PLAIN_SRUN = (
    "this srun started its tasks without an MPI plug-in: use srun --mpi=pmix for Open MPI or "
    "--mpi=pmi2 for MPICH"
)
_OTHER_LIBRARY = "use --ccl torch:gloo, or the library of the devices"
# Libraries besides the CCLs that ranks may open: for kernels and for matrix products.
_BESIDE_CCLS = ("nvrtc", "cublaslt")
_REGISTRATIONS = ("none", "local", "symmetric")


def measure(operations: list[str], flags: Flags, pieces: str = "") -> int:
    """Measures ``operations`` with ``flags`` and returns the exit code.

    ``pieces``: the numbers of pieces to divide each message into, empty for one call each.

    Raises CclmarkError before anything is started or written if the flags are invalid.
    """
    began_s = time.monotonic()
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    with joined(
        lambda: devices_text(flags), device_count(flags), flags.timeout_s, mixed=True
    ) as coordinator:
        coordinator.exit_code = _measure(operations, flags, pieces, coordinator, began_s)
        return coordinator.exit_code


def devices_text(flags: Flags) -> str:
    """Returns ``--devices``, or by default the devices that the named libraries require.

    Accelerators come before the host. Reads ``--ccl-file`` first, which may describe one of those
    libraries. Raises UsageError.
    """
    flags.add_ccl_files()
    if flags.devices or not flags.ccl:
        return flags.devices
    needed = [runtimes_of(name.strip()) for name in flags.ccl.split(",")]
    for runtimes in needed:
        if len(runtimes) == 1 and runtimes != ["host"]:
            return runtimes[0]
    return "host" if all(runtimes == ["host"] for runtimes in needed) else ""


def _measure(
    operations: list[str], flags: Flags, pieces: str, coordinator: Coordinator, began_s: float
) -> int:
    every_s = _duration("--summary-every", flags.summary_every)
    references = _reference_notes(flags)
    request, plan = request_of(operations, flags, coordinator)
    name = operations[0] if len(operations) == 1 else "collectives"
    if pieces:
        from cclmark.cli.collective.piece_measuring import piece_exporter, pieces_request

        return record(
            pieces_request(request, flags, pieces),
            lambda output: piece_exporter(flags, output),
            began_s,
            output=flags.output,
            journal=flags.journal,
            resume=flags.resume,
            stem=stem_of(f"{name}-pieces", plan),
        )
    return record(
        request,
        lambda output: _exporter(flags, plan, output, every_s, references),
        began_s,
        output=flags.output,
        journal=flags.journal,
        resume=flags.resume,
        explain=flags.explain,
        stem=stem_of(name, plan),
    )


def stem_of(name: str, plan: Sweep) -> str:
    """Returns a part of the name of a journal: the command, the libraries, the number of ranks."""
    return f"{name}-{'-'.join(plan.ccls).replace(':', '-')}-{plan.ranks}"


def request_of(
    operations: list[str], flags: Flags, coordinator: Coordinator
) -> tuple[Request, Sweep]:
    """Returns the request for the cases of ``flags``, and the sweep that contains them.

    Raises CclmarkError if the flags are invalid.
    """
    devices = coordinator.devices
    settings = settings_of(flags, devices.runtime)
    ranks = len(devices.indices)
    roots = _roots(flags.root or _USUAL_ROOT, ranks)
    without_effect = _root_without_effect(operations, flags.root)
    plan = sweep_of(operations, flags, libraries_of(flags, coordinator), settings, ranks, roots)
    settings.weights = [list(row) for row in plan.uneven.weights]
    settings.islands = _islands(flags, plan.ccls, coordinator)
    settings.through_host = flags.through_host
    settings.bind = str(Binding.parse(flags.bind, ranks))
    loaded = [*plan.ccls, *_inner_libraries(settings.islands)]
    require_added_to_be_used(loaded)
    check_config(settings.config, plan.ccls)
    cases = list(plan.cases())
    if not cases:
        raise UsageError(
            f"no size of the sweep has an element of {flags.dtype} for each of {plan.ranks} ranks: "
            f"raise {'-b' if 'end' in flags.without else '-e'}"
        )
    check_faults({text: Injection.parse(text, ranks) for text in flags.inject}, settings, cases)
    mpirun = None
    absent: dict[str, str] = {}
    if "mpi" in plan.ccls:
        try:
            mpirun = _mpirun(coordinator, "--ccl mpi")
        except MissingError as error:
            if len(plan.ccls) == 1:
                raise
            absent["mpi"] = str(error)
    elif BRIDGE in plan.ccls and len(coordinator.hosts) > 1:
        mpirun = _mpirun(coordinator, "--ccl bridge between hosts")
    request = Request(
        devices=devices,
        planned=cases,
        settings=settings,
        ccl_path=flags.ccl_path,
        ccl_wheels={name: locate.wheel_files(name) for name in (*loaded, *_BESIDE_CCLS)}
        | ({"mpi": mpirun.libraries} if mpirun is not None else {}),
        modules=flags.modules,
        warnings=[*warnings_of(loaded), *rounding_of(plan), *without_effect],
        mpirun=mpirun.path if mpirun is not None and coordinator.placement is None else "",
        absent=absent,
        coordinator=coordinator,
    )
    return request, plan


def with_mpirun(
    request: Request, coordinator: Coordinator, user: str, instead: str = _OTHER_LIBRARY
) -> Request:
    """The request, whose ranks that measure MPI are started by an mpirun.

    ``user``: the option that requires it; ``instead``: what else the user can do. Raises
    MissingError, UsageError.
    """
    found = _mpirun(coordinator, user, instead)
    return replace(
        request,
        mpirun=found.path if coordinator.placement is None else "",
        ccl_wheels={**request.ccl_wheels, "mpi": found.libraries},
    )


def _mpirun(coordinator: Coordinator, user: str, instead: str = _OTHER_LIBRARY) -> locate.Mpirun:
    """Returns the mpirun that starts the ranks, or that has started this process.

    Raises MissingError, UsageError.
    """
    placement = coordinator.placement
    if placement is None:
        return locate.find_mpirun()
    if placement.launcher == SRUN and not placement.by_mpi:
        raise UsageError(f"{user} requires MPI ranks, but {_PLAIN_SRUN}, or {instead}")
    if not placement.by_mpi:
        raise UsageError(
            f"{user} requires ranks that an mpirun or srun started, but {placement.launcher} "
            f"started these: {instead}"
        )
    if not _is_one_device_each(coordinator):
        raise UsageError(
            f"{user} requires one process for each device: start as many, or use -g 1 for one "
            "device of each process"
        )
    program = launching_program(os.getpid())
    return locate.mpirun_at(program.path) if program is not None else locate.mpi_of_srun()


def device_count(flags: Flags) -> int | None:
    """Returns the device count of ``-g``, or of hccl_test's ``-p``, which counts per host."""
    if flags.npus is None or flags.npus > 1:
        if flags.count is not None and flags.npus is not None and flags.count != flags.npus:
            raise UsageError("-g and -p request different numbers of devices")
        if flags.count is not None or flags.npus is None:
            return flags.count
        placement = find_placement(os.environ)
        beside = placement.local_size if placement is not None else None
        return max(1, flags.npus // (beside or 1))
    if is_primary(os.environ):
        print(
            f"cclmark: -p {flags.npus} is ignored: ranks always start in parallel and outputs are "
            "checked. For one device write -g 1.",
            file=sys.stderr,
        )
    return flags.count


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


def sweep_of(
    operations: list[str],
    flags: Flags,
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
        dtypes=parse_dtypes(flags.dtype),
        reductions=parse_reductions(flags.reduction),
        roots=roots,
        placements=placements[flags.placement],
        uneven=uneven,
    )


def _pattern_text(flags: Flags) -> str:
    """Returns ``--pattern``; with ``--resume``, the journal's weights for the same file."""
    if flags.resume is None or not flags.pattern.startswith("matrix:"):
        return flags.pattern
    then = read_journal(flags.resume, as_written=True).header.settings
    return (
        rows_pattern(then.weights)
        if then.pattern == flags.pattern and then.weights
        else flags.pattern
    )


def libraries_of(flags: Flags, coordinator: Coordinator) -> list[str]:
    """Returns the libraries of ``--ccl``, else the default. Raises UsageError, MissingError."""
    names = _named_ccls(flags, coordinator)
    if "shm" in names and len(coordinator.hosts) > 1:
        raise UsageError(
            f"shm works within one host, but these ranks are on {len(coordinator.hosts)} hosts: "
            "use --ccl mpi or bridge (under an mpirun or srun), or torch:gloo"
        )
    return names


def _named_ccls(flags: Flags, coordinator: Coordinator) -> list[str]:
    runtime = coordinator.devices.runtime
    if not flags.ccl and runtime == "host" and len(coordinator.hosts) > 1:
        return [_ccl_between_hosts(coordinator)]
    if not flags.ccl:
        if flags.ccl_path and runtime == "host":
            raise UsageError("--ccl-path is not supported: the library of the host is built in")
        return [_native_ccl(flags, runtime)]
    from cclmark.run.probe import count_devices

    typed = [name.strip() for name in flags.ccl.split(",")]
    if not all(typed):
        raise UsageError(f"--ccl {flags.ccl!r}: a name is empty; write nccl,torch:nccl")
    names = list(dict.fromkeys(meant_by(name, runtime) for name in typed))
    for name in names:
        if name == BRIDGE:
            continue
        backend = torch_backend_of(name)
        needed = runtimes_of(name) if backend is None else [usual_runtime(backend) or runtime]
        if not needed or backend == "":
            raise unknown_library(name, runtime)
        if backend is not None:
            require_torch_devices(runtime)
        if runtime not in needed and (backend, runtime) != ("gloo", "cuda"):
            if not flags.devices:
                count_devices(needed[0])  # with the default, the missing device is the reason
            raise UsageError(
                f"{name} supports {' and '.join(needed)} devices, not {runtime} devices: see "
                "--devices"
            )
        _require_allowed(name, flags)
    _check_files(flags, names)
    if all(torch_backend_of(name) is not None for name in names):
        locate.require_torch()
    return names


def _check_files(flags: Flags, names: Sequence[str]) -> None:
    """Raises UsageError for files and modules that none of these libraries loads."""
    built_in = ("shm", BRIDGE)
    loaded = [name for name in names if name not in built_in and torch_backend_of(name) is None]
    if flags.ccl_path and not loaded and BRIDGE not in names:
        raise UsageError(
            "--ccl-path is not supported: shm is built in, and torch has its own libraries"
        )
    _require_one_file(flags, loaded)
    if flags.modules and not any(torch_backend_of(name) is not None for name in names):
        raise UsageError("--import requires a backend of torch: use --ccl torch:BACKEND")


def _require_one_file(flags: Flags, ccls: Sequence[str]) -> None:
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
    if placement.by_mpi and _is_one_device_each(coordinator):
        return "mpi"
    if not locate.has_torch():
        hint = f"; {_PLAIN_SRUN}" if placement.launcher == SRUN and not placement.by_mpi else ""
        raise MissingError(
            "several hosts require --ccl torch:gloo, but torch is not installed (pip install "
            "torch), or --ccl mpi, which requires one process for each device, started by an "
            f"mpirun or srun{hint}"
        )
    return "torch:gloo"


def _is_one_device_each(coordinator: Coordinator) -> bool:
    return all(len(join.indices) == 1 for join in coordinator.joins)


def _native_ccl(flags: Flags, runtime: str) -> str:
    """Returns the default library of the devices. Raises UsageError, MissingError."""
    native = native_library(runtime)
    if native is None:
        fitting = ", ".join(names_for(runtime)) or "none known"
        raise UsageError(f"{runtime} devices have no default library: use --ccl ({fitting})")
    _require_allowed(native, flags)
    return native


def _require_allowed(name: str, flags: Flags) -> None:
    """Raises MissingError for a library that requires a flag which is not set.

    Prints the assumptions about it at once: the header contains them too, but not every format
    shows it.
    """
    assumed = assumption_of(name)
    if assumed and not flags.allow_unverified:
        raise MissingError(
            f"{name}: its public interface is incomplete, and cclmark would assume {assumed}. "
            "--allow-unverified measures it nevertheless; it may crash or return wrong data"
        )
    for text in warnings_of([name]):
        print(f"cclmark: {text}", file=sys.stderr)


def warnings_of(ccls: Sequence[str]) -> list[str]:
    """Returns the warnings about these libraries."""
    added = {library.name for library in added_libraries()}
    said = [
        f"{name} is unverified: cclmark assumes {assumption_of(name)}"
        for name in ccls
        if assumption_of(name)
    ]
    return said + [f"{name} is known from a --ccl-file only" for name in ccls if name in added]


def require_added_to_be_used(ccls: Sequence[str]) -> None:
    """Raises UsageError for a library of ``--ccl-file`` that is not measured."""
    for library in added_libraries():
        if library.name not in ccls:
            raise UsageError(
                f"--ccl-file describes {library.name}, which is not measured: add --ccl "
                f"{library.name}"
            )


def rounding_of(plan: Sweep) -> list[str]:
    """Returns one notice, with an example, if sizes are not a whole number of elements."""
    if not any(moves_data(name) for name in plan.operations):
        return []
    for dtype in plan.dtypes:
        width = DTYPE_BYTES[dtype]
        for size in plan.sizes:
            if size % width:
                return [
                    "sizes are rounded down to whole elements, as in nccl-tests: "
                    f"{format_size(size)} is {format_size(size - size % width)} of {dtype}"
                ]
    return []


def _islands(flags: Flags, ccls: Sequence[str], coordinator: Coordinator) -> list[Island]:
    """Returns the islands that bridge connects, none without bridge. Raises UsageError."""
    devices = coordinator.devices
    if BRIDGE not in ccls:
        for given, name in ((flags.islands, "--islands"), (flags.through_host, "--through-host")):
            if given:
                raise UsageError(f"{name} requires --ccl bridge")
        if devices.mixed:
            raise UsageError(
                f"{' and '.join(dict.fromkeys(devices.mixed))} devices together require --ccl "
                "bridge"
            )
        return []
    if devices.mixed and len(ccls) > 1:
        raise UsageError("devices of several runtimes support only --ccl bridge")
    libraries = {runtime: _libraries_of(runtime) for runtime in dict.fromkeys(devices.runtimes)}
    natural = {runtime: native_library(runtime) is not None for runtime in libraries}
    islands = parse_islands(
        flags.islands, devices.runtimes, libraries, natural, coordinator.host_of_rank
    )
    inner = _inner_libraries(islands)
    for name in inner:
        _require_allowed(name, flags)
    loaded = (name for name in (*ccls, *inner) if name not in ("shm", BRIDGE))
    files = dict.fromkeys(name for name in loaded if torch_backend_of(name) is None)
    _require_one_file(flags, list(files))
    if flags.ccl_path and not files:
        raise UsageError(
            "--ccl-path is not supported: shm is built in, and no other library is used"
        )
    return islands


def _inner_libraries(islands: Sequence[Island]) -> list[str]:
    """Returns the libraries that islands load; a rank alone in its island requires none."""
    return list(dict.fromkeys(island.ccl for island in islands if island.ccl))


def _libraries_of(runtime: str) -> list[str]:
    """Returns the libraries that an island of such devices may use, the native one first."""
    native = native_library(runtime)
    return sorted(
        (name for name in names_for(runtime) if name != "mpi"), key=lambda name: name != native
    )


def _root_without_effect(operations: Sequence[str], root: str | None) -> list[str]:
    """Returns a notice if ``-r`` has no effect because none of the operations has a root.

    Every program of nccl-tests accepts ``-r``, so scripts pass its default to all of them. Raises
    UsageError for another root, which cannot be measured.
    """
    if root is None or any(OPERATIONS[name].rooted for name in operations):
        return []
    text = (
        f"-r {root}: {' and '.join(operations)} {'has' if len(operations) == 1 else 'have'} no root"
    )
    if root != _USUAL_ROOT:
        raise UsageError(text)
    return [f"{text}, so the option has no effect"]


def _roots(text: str, ranks: int) -> list[int]:
    if text in ("all", "-1"):
        return list(range(ranks))
    if not (text.isascii() and text.isdecimal()) or int(text) >= ranks:
        raise UsageError(f"unknown root {text!r}: choose from 0 to {ranks - 1}, or all")
    return [int(text)]


def check_limits(precision_percent: float, max_time_s: float, timeout_s: float) -> None:
    """Raises UsageError for an invalid precision or time."""
    for name, value in (
        ("--precision", precision_percent),
        ("--max-time", max_time_s),
        ("--timeout", timeout_s),
    ):
        if not 0 < value < _LONGEST_S:
            raise UsageError(f"{name} must be above 0 and less than {_LONGEST_S:g}, not {value:g}")


def settings_of(
    flags: Flags, runtime: str, usual_factor: float = 2.0, usual_timing: str = "auto"
) -> Settings:
    """Creates the settings that the flags request. Raises UsageError."""
    check_limits(flags.precision_percent, flags.max_time_s, flags.timeout_s)
    registration = flags.register or _REGISTRATIONS[0]
    if flags.register_number is not None:
        if flags.register and registration != _REGISTRATIONS[flags.register_number]:
            raise UsageError("-R and --register contradict each other")
        registration = _REGISTRATIONS[flags.register_number]
    if registration != "none" and runtime == "host":
        raise UsageError("buffers of the host require no registration: remove -R and --register")
    duration_s = _duration("--duration", flags.duration)
    if duration_s and flags.cycles != 1:
        raise UsageError("--duration and -N exclude each other")
    if flags.summary_every and not duration_s:
        raise UsageError("--summary-every requires --duration")
    timing = _timing(flags, usual_timing, runtime)
    if flags.group > 1 and timing in ("blocking", "per-op"):
        raise UsageError(f"-m groups operations, but --timing {timing} times each operation alone")
    begin_bytes = size_of("-b", flags.begin)
    usual_end = like.largest_size(flags.like, runtime) or _DEFAULT_END.get(
        runtime, _DEFAULT_END_OF_ACCELERATORS
    )
    end_bytes = size_of("-e", flags.end or usual_end)
    if flags.step and flags.factor is not None:
        raise UsageError("-i (step) and -f (factor) exclude each other")
    factor = usual_factor if flags.factor is None else flags.factor
    return Settings(
        begin_bytes=begin_bytes,
        end_bytes=end_bytes if flags.end else max(begin_bytes, end_bytes),
        step_bytes=size_of("-i", flags.step) if flags.step else 0,
        factor=0.0 if flags.step else factor,
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
        cycles=0 if duration_s else flags.cycles,
        duration_s=duration_s,
        registration=registration,
        cache=flags.cache,
        barrier=flags.barrier,
        # The host has one clock.
        clock="auto" if runtime == "host" or flags.clock == usual_clock(timing) else flags.clock,
        seed=flags.seed,
        inject=list(flags.inject),
        pattern=flags.pattern,
        config=parse_config(flags.config),
    )


def _duration(flag: str, text: str) -> float:
    """Parses a duration in seconds, 0 if empty. Raises UsageError, which names the flag."""
    try:
        return parse_duration(text) if text else 0.0
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None


def size_of(flag: str, text: str) -> int:
    """Parses the size given with ``flag``. Raises UsageError, which names the flag."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise UsageError(f"{flag}: {error}") from None


def _timing(flags: Flags, usual: str, runtime: str) -> str:
    """Returns the timing that ``--timing``, ``-z`` and ``-G`` select together.

    ``auto`` is ``throughput`` on the host, which has no graphs.
    """
    asked = {
        flags.timing,
        "blocking" if flags.blocking else None,
        "graph" if flags.graph else None,
    } - {None}
    if len(asked) > 1:
        named = " and ".join(sorted(map(str, asked)))
        raise UsageError(f"--timing, -z and -G request different timings: {named}")
    timing = next(iter(asked), None) or usual
    return "throughput" if timing == "auto" and runtime == "host" else timing


def _reference_notes(flags: Flags) -> ReferenceNotes:
    """Returns the references that figures are compared with. Raises UsageError."""
    if not flags.references:
        return ReferenceNotes(usual_references)
    if flags.format not in ("table", "markdown"):
        raise UsageError(
            f"--references requires --format table or markdown, not {flags.format}: for csv and "
            "json use cclmark references check JOURNAL"
        )
    from cclmark.references.reference_store import load_references

    references = load_references()
    return ReferenceNotes(lambda kinds: references)


def _exporter(
    flags: Flags, plan: Sweep, output: Output, every_s: float, references: ReferenceNotes
) -> Exporter[CaseResult]:
    if flags.format == "markdown":
        from cclmark.report.kinds.case_markdown import CaseMarkdown

        return CaseMarkdown(references, shares=flags.references)
    if flags.format != "table":
        return exporter_of(COLLECTIVE, flags.format)
    paint = ansi if output.takes_colours else unpainted

    def table() -> TableExporter:
        return TableExporter(
            paint=paint,
            out_of_place=False in plan.placements,
            in_place=True in plan.placements,
            terminal_columns=output.terminal_columns,
            references=references,
            shares=flags.references,
            why=flags.why,
            gbps=like.shows_gbps(flags.like),
        )

    if not flags.duration:
        return table()
    from cclmark.report.kinds.soak_table import SoakTable

    return SoakTable(table, paint, every_s)
