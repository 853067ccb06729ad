"""The groups of options that commands have, spelt as the peers' users type them.

A command lists its groups as the bases of a dataclass, see ``cclmark.options.command``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click

from cclmark.options.command import (
    INPUT,
    METHOD,
    OPERATION,
    OUTPUT,
    SIZES,
    WHERE,
    Ascending,
    Distinct,
    Excludes,
    OptionRules,
    Requires,
    argument,
    changed,
    flag,
    option,
)
from cclmark.options.types import (
    DURATION,
    FACTOR,
    LIMIT,
    OTHER_PROGRAMS,
    PATH,
    Names,
    OneName,
    OtherProgram,
    Pair,
    Parsed,
    Size,
    WholeNumber,
    apply_method,
)
from cclmark.work.operations import COLLECTIVES, parse_dtypes, parse_reductions, parse_root
from cclmark.work.runtimes import NamedDevices, parse_devices
from cclmark.work.work_beside import MATMUL, TRIAD

#: One or several operations, which are not all by a word.
OPERATION_NAMES = Names(COLLECTIVES, "operation", every=False, exact=True)


@dataclass
class SizeOptions:
    """The sizes of a sweep. ``usual_factor``: the default of ``-f``."""

    title: ClassVar[str] = SIZES
    usual_factor: ClassVar[float] = 2.0
    rules: ClassVar[OptionRules] = (Excludes("step", "factor"), Ascending("begin", "end"))

    begin: int = option(
        "-b", "--begin", "--minbytes", default=8, type=Size(), help="Smallest size [8]."
    )
    end: int | None = option(
        "-e",
        "--end",
        "--maxbytes",
        type=Size(),
        help="Largest size: 8, 128K, 4G, 1GiB [128M on accelerators, 16M on the host, or -b].",
    )
    step: int = option("-i", "--step", "--stepbytes", default=0, type=Size(), help="Grow by SIZE.")
    factor: float | None = option(
        "-f", "--factor", "--stepfactor", type=FACTOR, help="Grow by this factor [2]."
    )


@dataclass
class ElementOptions:
    """What the elements of messages are, and where outputs are placed."""

    title: ClassVar[str] = OPERATION

    dtype: list[str] = option(
        "-d",
        "--dtype",
        "--datatype",
        default=["float32"],
        type=Parsed(parse_dtypes),
        metavar="TYPES",
        help="Element types, with commas, or all: float32 bfloat16 float16 fp8e4m3 int8 … "
        "[float32].",
    )
    reduction: list[str] = option(
        "-o",
        "--op",
        default=["sum"],
        type=Parsed(parse_reductions),
        metavar="OPS",
        help="sum, prod, min, max, avg, with commas, or all [sum].",
    )
    placement: str = option(
        "--placement",
        default="both",
        type=click.Choice(["both", "out-of-place", "in-place"]),
        help="Placement of the outputs [both].",
    )
    pattern: str = option(
        "--pattern",
        default="uniform",
        metavar="PATTERN",
        help="alltoallv: uniform, skew:4 (the largest part 4 times the smallest), matrix:FILE "
        "or rows:1,2;3,4 [uniform].",
    )


@dataclass
class RootOptions:
    """The root of operations that have one."""

    title: ClassVar[str] = OPERATION

    root: int | None = option(
        "-r",
        "--root",
        type=Parsed(parse_root),
        metavar="RANK",
        help="Root, or all (or -1) [0].",
    )


def _varied(text: str) -> tuple[str, list[str]]:
    from cclmark.work.variants import parse_vary

    return parse_vary(text)


@dataclass
class VariedOptions:
    """Settings that are compared with the default."""

    title: ClassVar[str] = OPERATION

    vary: list[tuple[str, list[str]]] = option(
        "--vary",
        multiple=True,
        type=Parsed(_varied),
        metavar="NAME=A,B",
        help="A variable of the environment and its values, for example NCCL_P2P_DISABLE=1; each "
        "is compared with the default in new processes; may be repeated. Values that contain "
        "commas are separated by |.",
    )
    one_at_a_time: bool = flag(
        "--one-at-a-time", help="Each value alone instead of all combinations."
    )
    allow_unknown_settings: bool = flag(
        "--allow-unknown-settings", help="Vary variables too that the file of no library lists."
    )


@dataclass
class ComputeOptions:
    """The work beside collectives."""

    title: ClassVar[str] = OPERATION
    rules: ClassVar[OptionRules] = (
        Requires("matrix", "compute", (MATMUL,), "the size of arrays is --array"),
        Requires("array", "compute", (TRIAD,), "the size of matrices is --matrix"),
    )

    compute: str = option(
        "--compute",
        default=MATMUL,
        type=click.Choice([MATMUL, TRIAD]),
        help="The work beside the collective; matmul: a matrix product (cuBLASLt on CUDA devices, "
        "a loop on the host; overlap: torch on others); memory: a triad bound by the memory "
        "[matmul].",
    )
    matrix: int | None = option(
        "--matrix",
        type=WholeNumber(least=16, most=65536),
        help="matmul: rows and columns of the matrices [8192, bfloat16; host: 256, float32].",
    )
    array: int | None = option(
        "--array",
        type=Size(least=4096),
        help="memory: size of each of the three arrays [1G; host: 16M].",
    )


@dataclass
class LibraryFileOptions:
    """The file of a library."""

    title: ClassVar[str] = WHERE

    ccl_path: str = option("--ccl-path", default="", metavar="FILE", help="Library file.")


@dataclass
class LibraryDescriptionOptions:
    """Libraries that the user describes."""

    title: ClassVar[str] = WHERE

    ccl_files: list[str] = option(
        "--ccl-file",
        multiple=True,
        metavar="TOML",
        help="Description of your own library for --ccl; may be repeated.",
    )

    def add_ccl_files(self) -> None:
        """Registers the libraries of ``--ccl-file`` in this process. Raises UsageError."""
        from cclmark.work.libraries import add_library_files

        add_library_files([Path(file) for file in self.ccl_files])


@dataclass
class LibraryOptions:
    """The libraries to measure."""

    title: ClassVar[str] = WHERE

    ccl: list[str] = option(
        "--ccl",
        default=[],
        type=Names(what="library", example="nccl,torch:nccl"),
        metavar="NAMES",
        help="Collective library, or several with commas: nccl, shm, mpi, torch:gloo, bridge, … "
        "[the devices' own].",
    )
    allow_unverified: bool = flag(
        "--allow-unverified", help="Allow a library whose interface is not fully known."
    )


@dataclass
class IslandOptions:
    """What the library bridge connects."""

    title: ClassVar[str] = WHERE

    islands: str = option(
        "--islands",
        default="",
        metavar="LIST",
        help="For bridge: the ranks of each island and their library: 0-1=nccl,2-3=nccl, or host "
        "for one island per host [all ranks of a host on devices of one kind].",
    )
    through_host: bool = flag(
        "--through-host",
        help="For bridge: through host memory, even if devices can access each other.",
    )


@dataclass
class ModuleOptions:
    """Modules with backends of torch."""

    title: ClassVar[str] = WHERE

    modules: list[str] = option(
        "--import",
        multiple=True,
        metavar="MODULE",
        help=("A Python module that provides a backend of torch [known for flagcx and ccl]."),
    )


@dataclass
class DeviceOptions:
    """The devices, one rank each, and the processors of the ranks."""

    title: ClassVar[str] = WHERE

    devices: NamedDevices = option(
        "--devices",
        default=NamedDevices(),
        type=Parsed(parse_devices),
        metavar="LIST",
        help="0,2,3 or cuda:0-3 or host or host:4; for bridge cuda:0-1+host:2 "
        "[all accelerators, else the host].",
    )
    count: int | None = option(
        "-g",
        "--ngpus",
        "--npus",
        type=WholeNumber(least=1),
        help="Number of devices, one rank each; host devices only with --devices host [all].",
    )
    bind: str = option(
        "--bind",
        default="",
        metavar="none|numa|FILE",
        help="Processors of the ranks: the inherited ones; the ones of the NUMA node of the "
        "device; or a file with a line RANK: PROCESSORS for each rank [one processor for each "
        "host rank, the processors near the device for others].",
    )


@dataclass
class HcclTestOptions:
    """The number of devices as users of hccl_test write it."""

    title: ClassVar[str] = WHERE

    npus: int | None = option(
        "-p",
        type=WholeNumber(least=0),
        help="Like -g, for users of hccl_test. 0, and 1 on other devices than NPUs without a "
        "launcher, are ignored: they have another meaning in other tools.",
    )


@dataclass
class BufferOptions:
    """The memory of the buffers."""

    title: ClassVar[str] = WHERE

    memory: str | None = option(
        "--memory",
        type=click.Choice(["plain", "library", "vmm", "torch"]),
        help="Allocator of the buffers: the runtime's (cudaMalloc), the library's (ncclMemAlloc), "
        "CUDA's virtual memory management, or torch's caching allocator [with graphs and "
        "registered buffers as in the vendor's own test program: library for NCCL; else plain].",
    )


@dataclass
class CommunicatorOptions:
    """What buffers and communicators are to a library."""

    title: ClassVar[str] = WHERE
    rules: ClassVar[OptionRules] = (Distinct("config"),)

    register: str | None = option(
        "--register",
        type=click.Choice(["none", "local", "symmetric"]),
        help="Registration of buffers with the library [none].",
    )
    register_number: int | None = option(
        "-R",
        "--local-register",
        "--local_register",
        type=WholeNumber(0, 2),
        metavar="0|1|2",
        help="The same with the numbers of nccl-tests: 0 none, 1 local, 2 symmetric.",
    )
    config: list[tuple[str, str]] = option(
        "--config",
        multiple=True,
        type=Pair(r"[A-Za-z][A-Za-z0-9]*", "NAME=VALUE, for example minCTAs=16"),
        metavar="NAME=VALUE",
        help="An option of the communicators, by its name in the library's configuration "
        "(ncclConfig_t): minCTAs=16; may be repeated.",
    )


@dataclass
class TimingOptions:
    """How operations are timed."""

    title: ClassVar[str] = METHOD

    timing: str | None = option(
        "--timing",
        type=click.Choice(["auto", "throughput", "blocking", "graph", "per-op"]),
        help="How operations are timed; auto: throughput, and replayed from graphs where launches "
        "determine the time [auto; host: throughput].",
    )
    group: int = option(
        "-m",
        "--agg-iters",
        "--agg_iters",
        default=1,
        type=WholeNumber(least=1),
        help="Operations launched as one group [1].",
    )
    blocking: int | None = option(
        "-z",
        "--blocking",
        type=WholeNumber(0, 3),
        help="As nccl-tests: above 0 is --timing blocking.",
    )
    graph: int | None = option(
        "-G",
        "--cudagraph",
        type=WholeNumber(least=0),
        help="Launches of a captured graph per sample: --timing graph.",
    )
    across: str = option(
        "--across-ranks",
        default="max",
        type=click.Choice(["max", "mean", "min", "rank0"]),
        help="Time to report across ranks [max].",
    )
    cache: str = option(
        "--cache",
        default="cold",
        type=click.Choice(["cold", "warm"]),
        help="warm: every operation uses the same part of the buffers, like FlagCX's perf programs "
        "and torch scripts; cold: the next part [cold].",
    )
    barrier: str = option(
        "--barrier",
        default="own",
        type=click.Choice(["own", "library"]),
        help="Barrier of the ranks before timed operations: own, cclmark's barrier; library, the "
        "library's barrier, as in programs that call it [own].",
    )
    clock: str = option(
        "--clock",
        default="auto",
        type=click.Choice(["auto", "device", "host"]),
        help="Clock of the reported times; auto: the device's clock if it has one, the host's "
        "clock with --timing blocking [auto].",
    )


@dataclass
class LikeOptions:
    """The method of another program."""

    title: ClassVar[str] = METHOD

    like: OtherProgram | None = option(
        "--like",
        type=click.Choice(list(OTHER_PROGRAMS)),
        is_eager=True,
        callback=apply_method,
        help="The sizes and the method of another program, as defaults of the other options.",
    )


@dataclass
class SoakOptions:
    """How often a sweep is repeated."""

    title: ClassVar[str] = METHOD
    rules: ClassVar[OptionRules] = (
        Excludes("duration", "cycles"),
        Requires("summary_every", "duration"),
    )

    cycles: int = option(
        "-N",
        "--cycles",
        "--run-cycles",
        "--run_cycles",
        default=1,
        type=WholeNumber(least=0),
        help="Repeat the sweep, 0: until Ctrl-C [1].",
    )
    duration: float = option(
        "--duration",
        default=0.0,
        type=DURATION,
        help="Repeat the sweep for this time: 45s, 30m, 12h, 2d.",
    )
    summary_every: float = option(
        "--summary-every",
        default=0.0,
        type=DURATION,
        help="Interval of the summaries of --duration [10s, then increasing].",
    )


@dataclass
class CountOptions:
    """Fixed numbers instead of those that the method chooses."""

    title: ClassVar[str] = METHOD

    iterations: int | None = option(
        "-n", "--iters", type=WholeNumber(least=1), help="Fixed iterations instead of --precision."
    )
    warmup: int | None = option(
        "-w",
        "--warmup",
        "--warmup-iters",
        "--warmup_iters",
        type=WholeNumber(least=0),
        help="Fixed warm-up iterations instead of warm-up until batches agree.",
    )


@dataclass
class SamplingOptions:
    """When the sampling of a case ends."""

    title: ClassVar[str] = METHOD

    precision_percent: float = option(
        "--precision",
        default=2.0,
        type=LIMIT,
        metavar="PERCENT",
        help="Sampling stops when the 95 % interval of the median is within ± this percentage [2].",
    )
    max_time_s: float = option(
        "--max-time",
        default=1.0,
        type=LIMIT,
        metavar="SECONDS",
        help="Maximum time for sampling one case [1].",
    )


@dataclass
class CheckOptions:
    """Whether outputs are checked."""

    title: ClassVar[str] = METHOD

    check: int = option(
        "-c",
        "--check",
        default=1,
        type=WholeNumber(least=0),
        help="Checks of the output of each case after timing, 0: none [1].",
    )


@dataclass
class CheckPlaceOptions:
    """Where outputs are checked."""

    title: ClassVar[str] = METHOD

    check_on: str = option(
        "--check-on",
        default="device",
        type=click.Choice(["device", "host"]),
        help="Where inputs are filled and outputs are checked; host: as hccl_test does [device, "
        "where kernels can be compiled].",
    )


def _choose_debugged(
    context: click.Context, _parameter: click.Parameter, text: str | None
) -> str | None:
    if not context.resilient_parsing:
        from cclmark.launch.debugging import choose_debugged

        choose_debugged(text)
    return text


@dataclass
class TimeoutOptions:
    """When a run is ended."""

    title: ClassVar[str] = METHOD

    timeout_s: float = option(
        "-T",
        "--timeout",
        default=60.0,
        type=LIMIT,
        metavar="SECONDS",
        help="Maximum time for one phase before the run is ended [60].",
    )
    debug_rank: str | None = option(
        "--debug-rank",
        metavar="RANK[=HOW]",
        callback=_choose_debugged,
        help="Start this rank under a debugger on the terminal: gdb (the default), lldb, or a "
        "command before that of the rank, such as valgrind. No deadline ends the run.",
    )


@dataclass
class SeedOptions:
    """The input data."""

    title: ClassVar[str] = METHOD

    seed: int = option(
        "--seed", default=1, type=WholeNumber(0, 2**32 - 1), help="Seed of the input data [1]."
    )


@dataclass
class FaultOptions:
    """Faults to inject."""

    title: ClassVar[str] = METHOD

    inject: list[str] = option(
        "--inject",
        multiple=True,
        metavar="FAULT",
        help=(
            "A fault to inject, to verify its detection: corrupt:rank=1,index=5 or "
            "delay:rank=2,ms=50."
        ),
    )


@dataclass
class ExplainOptions:
    """Whether the libraries are observed after measuring."""

    title: ClassVar[str] = METHOD

    explain: bool = flag(
        "--explain",
        help="After measuring, observe which algorithm, protocol and channels the library used for "
        "each case.",
    )


@dataclass
class FormatOptions:
    """What is printed."""

    title: ClassVar[str] = OUTPUT

    format: str = option(
        "--format",
        default="table",
        type=click.Choice(["table", "json", "csv", "markdown"]),
        help="What is printed [table].",
    )
    wide: bool = flag(
        "--wide", help="table: all columns beside each other, in lines of any length."
    )


@dataclass
class NumberOptions:
    """Whether numbers are printed that noise decides."""

    title: ClassVar[str] = OUTPUT

    numbers: bool = flag(
        "--numbers",
        help="table, markdown: the numbers of inconclusive cases too, in place of words.",
    )


@dataclass
class ColumnOptions:
    """Which fields of results are printed."""

    title: ClassVar[str] = OUTPUT
    rules: ClassVar[OptionRules] = (Requires("columns", "format", ("table", "csv", "markdown")),)

    columns: list[str] = option(
        "--columns",
        default=[],
        type=Names(),
        metavar="NAMES",
        help="A row for each result with these fields, separated by commas, in this order: "
        "size_bytes,time_us,p99_us. A wrong name lists all.",
    )


@dataclass
class FileOptions:
    """Where the output and the journal of a measurement are written.

    ``files``: the options among those of the terminal (see python_call) that concern files which
    the command writes besides its output.
    """

    title: ClassVar[str] = OUTPUT
    files: ClassVar[tuple[str, ...]] = ()

    output: Path | None = option("-O", "--output", type=PATH, help="Print to this file.")
    journal: Path | None = option(
        "--journal", type=PATH, help="Journal file [a new one in cclmark-runs/]."
    )
    quiet: bool = flag(
        "--quiet", help="Print results and errors alone: no progress, no path of the journal."
    )
    dry_run: bool = flag(
        "--dry-run", help="List what would be measured and how long it takes; measure nothing."
    )
    print_plan: bool = flag(
        "--print-plan",
        help="Print the call of the Python API that measures the same, and measure nothing. "
        "Options that calls lack are refused.",
    )


@dataclass
class OutputFileOptions:
    """Where the output is written."""

    title: ClassVar[str] = OUTPUT

    output: Path | None = option(
        "-O", "--output", type=PATH, metavar="FILE", help="Output file [standard output]."
    )


@dataclass
class HistoryOptions:
    """The history that is used."""

    title: ClassVar[str] = INPUT

    db: str | None = option(
        "--db",
        envvar="CCLMARK_HISTORY",
        metavar="FILE-OR-URL",
        help="The history: a file, or postgresql://user@host/database.",
    )


@dataclass
class ReferenceOptions:
    """References beside the results."""

    title: ClassVar[str] = OUTPUT

    references: bool = flag(
        "--references",
        help="table, markdown: show each row as a share of the nearest reference; see cclmark "
        "references.",
    )


@dataclass
class ConditionOptions:
    """What is read from devices besides times."""

    title: ClassVar[str] = OUTPUT

    conditions: bool = flag(
        "--conditions",
        help="Read clock, temperature, power, busy time and link traffic of the devices after each "
        "item.",
    )


@dataclass
class ResumeOptions:
    """A journal that is continued."""

    title: ClassVar[str] = OUTPUT

    resume: Path | None = option(
        "--resume",
        type=PATH,
        metavar="JOURNAL",
        help="Measure only the cases that are missing in this journal of the same command.",
    )


_THREADS = (
    "nccl-tests' -t sets the number of threads; cclmark starts one process for each device: set "
    "the number of devices with -g N, or select them with --devices."
)
_AVERAGE = (
    "nccl-tests' -a 0, 1, 2, 3 is --across-ranks rank0, mean, min, max here; the default is max."
)
_CPU_TIME = (
    "nccl-tests' -C reports how long the host takes to enqueue an operation: the journal contains "
    "this time for every sample (enqueue_s). --clock host reports the host's time until it is "
    "complete."
)
_TIMESTAMPS = (
    "nccl-tests' -S prints the time of day of each line; the journal holds it for each case "
    "(started_at_s), and --format json prints it."
)
_OUTPUT_FILE = "nccl-tests' -J FILE writes JSON; write --format json -O FILE."
_UNALIGN = (
    "nccl-tests' -u moves buffers by some elements; buffers of collectives are aligned here. "
    "cclmark p2p --buffer-offset measures copies at offsets."
)
_PER_ITERATION = (
    "nccl-tests' -I reports times of single iterations; --timing per-op measures each operation "
    "alone, and CSV, JSON and the journal hold p95 and p99."
)
_MEMORY = "nccl-tests' -M reports the memory of the library: use cclmark memory OPERATION."
_DEVICE_IMPLEMENTATION = (
    "nccl-tests' -D measures its own kernels; cclmark measures the operations of the library."
)


@dataclass
class CaseOptions(
    SizeOptions,
    ElementOptions,
    LibraryFileOptions,
    LibraryDescriptionOptions,
    LibraryOptions,
    DeviceOptions,
    HcclTestOptions,
    BufferOptions,
    TimeoutOptions,
    SeedOptions,
    FileOptions,
    RootOptions,
    IslandOptions,
    ModuleOptions,
    CommunicatorOptions,
    TimingOptions,
    LikeOptions,
    CountOptions,
    SamplingOptions,
    CheckOptions,
    CheckPlaceOptions,
    FaultOptions,
    FormatOptions,
    ColumnOptions,
    ReferenceOptions,
    ConditionOptions,
    ResumeOptions,
    SoakOptions,
    ExplainOptions,
):
    """The options of commands that measure cases of collectives.

    ``without``: the groups that a command lacks, and why. ``elsewhere``: the replacements for flags
    that only other tools have. ``usual``: the options that come first, in the order of use.
    """

    usual: ClassVar[tuple[str, ...]] = (
        *("begin", "end", "factor", "count", "devices", "ccl", "dtype", "reduction", "root"),
        *("pattern", "iterations", "timing", "format", "dry_run", "output", "explain"),
    )
    without: ClassVar[Mapping[type[Any], str]] = {}
    elsewhere: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("-t", "--nthreads"), _THREADS),
        **dict.fromkeys(("-a", "--average"), _AVERAGE),
        **dict.fromkeys(("-C", "--report_cputime"), _CPU_TIME),
        **dict.fromkeys(("-S", "--report_timestamps"), _TIMESTAMPS),
        **dict.fromkeys(("-J", "--output_file"), _OUTPUT_FILE),
        **dict.fromkeys(("-u", "--unalign"), _UNALIGN),
        **dict.fromkeys(("-I", "--per_iter_timing"), _PER_ITERATION),
        **dict.fromkeys(("-M", "--memory"), _MEMORY),
        **dict.fromkeys(("-D", "--device_implementation"), _DEVICE_IMPLEMENTATION),
    }


#: The help of --ccl in commands that measure one library.
ONE_LIBRARY = "Collective library: nccl, shm, mpi, torch:gloo, bridge, … [the devices' own]."


@dataclass
class OneOfEachOptions(CaseOptions):
    """The options of commands that measure one type, reduction, root and library."""

    dtype: list[str] = changed(
        ElementOptions,
        "dtype",
        metavar="TYPE",
        help="Element type: float32 bfloat16 float16 fp8e4m3 int8 … [float32].",
    )
    reduction: list[str] = changed(
        ElementOptions, "reduction", metavar="OP", help="sum, prod, min, max or avg [sum]."
    )
    root: int | None = changed(RootOptions, "root", help="Root [0].")
    ccl: list[str] = changed(LibraryOptions, "ccl", metavar="NAME", help=ONE_LIBRARY)


USUAL_ROUNDS = 5  # of steps with variants


@dataclass
class StepOptions(
    VariedOptions,
    DeviceOptions,
    SamplingOptions,
    CheckOptions,
    TimeoutOptions,
    SeedOptions,
    FaultOptions,
    FormatOptions,
    ColumnOptions,
    ConditionOptions,
    FileOptions,
    ResumeOptions,
):
    """What the commands that measure steps have, ``train`` and ``replay``."""

    ccl: list[str] = changed(LibraryOptions, "ccl", metavar="NAMES")
    steps: int | None = option(
        "-n",
        "--steps",
        "--iters",
        title=METHOD,
        type=WholeNumber(1, 100_000),
        help="Timed steps instead of --precision.",
    )
    warmup: int | None = changed(
        CountOptions,
        "warmup",
        drop=("--warmup-iters", "--warmup_iters"),
        help="Fixed number of warm-up steps instead of warm-up until steps agree.",
    )
    rounds: int | None = option(
        "--rounds",
        title=METHOD,
        type=WholeNumber(1, 1000),
        help="Rounds, each in new processes, in which all variants are measured in turn "
        f"[{USUAL_ROUNDS} with variants, else 1].",
    )
    check: int = changed(CheckOptions, "check", type=WholeNumber(0, 1), metavar="0|1")


AUTO_PLACEMENT = "auto"
PLACEMENT_HELP = "Placement of the outputs; auto: out-of-place if the library supports it [auto]."


def placement_option(*others: str) -> Any:
    """``--placement`` of commands that choose it: in one of the two ways, or ``others``."""
    choices = click.Choice([AUTO_PLACEMENT, *others, "out-of-place", "in-place"])
    return changed(ElementOptions, "placement", AUTO_PLACEMENT, type=choices, help=PLACEMENT_HELP)


def rounds_option(usual: int) -> Any:
    """``--rounds`` of commands that measure everything in each round."""
    return option(
        "--rounds",
        title=METHOD,
        default=usual,
        type=WholeNumber(least=2, most=1000),
        help=f"Rounds, in each of which everything is measured [{usual}].",
    )


def operations_in_help(others: Sequence[str] = ()) -> str:
    """The paragraph of a help text that lists the operations."""
    return f"OPERATION: {', '.join([*COLLECTIVES, *others])}."


def one_operation(others: Sequence[str] = ()) -> Any:
    """The argument OPERATION of commands that work on one operation, or ``others``."""
    return argument("OPERATION", type=OneName([*COLLECTIVES, *others], "operation"))


def several_operations(*, is_optional: bool = False) -> Any:
    """The argument of commands that work on one or several operations."""
    words = "OPERATION[,OPERATION...]"
    return argument(words, type=OPERATION_NAMES, is_optional=is_optional)
