"""The request of a command that measures cases, from its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.summary import usual_clock
from cclmark.base.errors import MissingError, UsageError
from cclmark.journal.journal_file import JournalReader
from cclmark.journal.kind import Kind
from cclmark.journal.schema import Settings
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Request
from cclmark.options import groups, like
from cclmark.options.chosen_libraries import (
    libraries_of,
    mpirun_of,
    require_added_to_be_used,
    require_allowed,
    require_one_file,
    warnings_of,
)
from cclmark.options.groups import AUTO_PLACEMENT
from cclmark.options.varied import check_config
from cclmark.rank import locate
from cclmark.work.binding import Binding
from cclmark.work.cases import Case, Sweep, UnevenPattern, rows_pattern
from cclmark.work.inject import Injection
from cclmark.work.islands import Island, parse_islands
from cclmark.work.libraries import (
    AUTO_MEMORY,
    BRIDGE,
    names_for,
    native_library,
    require_torch_devices,
    torch_backend_of,
)
from cclmark.work.operations import ALL_ROOTS, DTYPE_BYTES, OPERATIONS, moves_data
from cclmark.work.sizes import format_size, sweep


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
    flags: groups.CaseOptions,
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


def _pattern_text(flags: groups.CaseOptions) -> str:
    """Returns ``--pattern``; with ``--resume``, the journal's weights for the same file."""
    if flags.resume is None or not flags.pattern.startswith("matrix:"):
        return flags.pattern
    then = JournalReader([]).read(flags.resume, as_written=True).header.settings
    return (
        rows_pattern(then.weights)
        if then.pattern == flags.pattern and then.weights
        else flags.pattern
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


def islands_of(
    flags: groups.CaseOptions, ccls: Sequence[str], coordinator: Coordinator
) -> list[Island]:
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


_DEFAULT_END_BYTES = {"host": 16 << 20}
_DEFAULT_END_BYTES_OF_ACCELERATORS = 128 << 20
_REGISTRATIONS = ("none", "local", "symmetric")


def settings_of(
    flags: groups.CaseOptions, runtime: str, usual_factor: float = 2.0, usual_timing: str = "auto"
) -> Settings:
    """Creates the settings that the flags request. Raises UsageError."""
    if flags.memory not in (None, "plain") and runtime == "host":
        raise UsageError(f"--memory {flags.memory}: buffers of the host are plain memory")
    if flags.memory == "torch":
        require_torch_devices(runtime)
    timing = _timing(flags, usual_timing, runtime)
    begin_bytes, end_bytes, step_bytes, factor = sizes_of(flags, runtime, usual_factor, flags.like)
    return Settings(
        begin_bytes=begin_bytes,
        end_bytes=end_bytes,
        step_bytes=step_bytes,
        factor=factor,
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
        inject=list(flags.inject),
        pattern=flags.pattern,
        config=dict(flags.config),
    )


def sizes_of(
    sizes: groups.SizeOptions, runtime: str, usual_factor: float, program: str | None = None
) -> tuple[int, int, int, float]:
    """Returns the first and the last size, and the step or the factor; the other one is 0.

    ``program``: that of ``--like``, whose largest size is the default.
    """
    usual = like.largest_size(program, runtime) or _DEFAULT_END_BYTES.get(
        runtime, _DEFAULT_END_BYTES_OF_ACCELERATORS
    )
    end_bytes = max(sizes.begin, usual) if sizes.end is None else sizes.end
    factor = usual_factor if sizes.factor is None else sizes.factor
    return sizes.begin, end_bytes, sizes.step, 0.0 if sizes.step else factor


def _registration(communicator: groups.CommunicatorOptions, runtime: str) -> str:
    """Returns what ``--register`` and ``-R`` select together. Raises UsageError."""
    named, number = communicator.register, communicator.register_number
    if named and number is not None and named != _REGISTRATIONS[number]:
        raise UsageError("-R and --register contradict each other")
    registration = named or _REGISTRATIONS[number or 0]
    if registration != "none" and runtime == "host":
        raise UsageError("buffers of the host require no registration: remove -R and --register")
    return registration


def _timing(method: groups.TimingOptions, usual: str, runtime: str) -> str:
    """Returns the timing that ``--timing``, ``-z`` and ``-G`` select together.

    ``auto`` is ``throughput`` on the host, which has no graphs. Raises UsageError.
    """
    asked = {
        method.timing,
        "blocking" if method.blocking else None,
        "graph" if method.graph else None,
    } - {None}
    if len(asked) > 1:
        named = " and ".join(sorted(map(str, asked)))
        raise UsageError(f"--timing, -z and -G request different timings: {named}")
    timing = next(iter(asked), None) or usual
    if method.group > 1 and timing in ("blocking", "per-op"):
        raise UsageError(f"-m groups operations, but --timing {timing} times each operation alone")
    return "throughput" if timing == "auto" and runtime == "host" else timing


# Libraries besides the CCLs that ranks may open: for kernels and for matrix products.
_BESIDE_CCLS = ("nvrtc", "cublaslt")


def request_of(
    kind: Kind,
    operations: list[str],
    flags: groups.CaseOptions,
    coordinator: Coordinator,
    command: Sequence[str] | None = None,
) -> tuple[Request, Sweep]:
    """Returns the request for the cases of ``flags``, and the sweep that contains them.

    ``command``: see Request.

    Raises CclmarkError if the flags are invalid.
    """
    devices = coordinator.devices
    settings = settings_of(flags, devices.runtime)
    ranks = len(devices.indices)
    roots = roots_of(flags.root, ranks)
    without_effect = root_without_effect(operations, flags.root)
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
        raise UsageError(
            f"no size of the sweep has an element of {' or '.join(flags.dtype)} for each of "
            f"{plan.ranks} ranks: raise {'-b' if groups.SizeOptions in flags.without else '-e'}"
        )
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
        warnings=[*warnings_of(loaded), *rounding_of(plan), *without_effect],
        mpirun=mpirun.path if mpirun is not None and coordinator.placement is None else "",
        absent=absent,
        coordinator=coordinator,
        command=command,
    )
    return request, plan


def stem_of(name: str, plan: Sweep) -> str:
    """Returns a part of the name of a journal: the command, the libraries, the number of ranks."""
    return f"{name}-{'-'.join(plan.ccls).replace(':', '-')}-{plan.ranks}"
