"""The options of all measuring commands, spelt as the peers' users type them.

A dataclass defines the options of a command: each field is an option with the field's default, and
its value is stored under the field's name. ``command`` creates a click command from such a class.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click
from click.core import ParameterSource

from cclmark.options import like
from cclmark.options.numbers import RealNumber, WholeNumber
from cclmark.options.printed_help import SaysHelp

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SIZES = "Sizes"
OPERATION = "Operation"
WHERE = "Devices and libraries"
METHOD = "Method"
OUTPUT = "Output"

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


def option(group: str, *names: str, default: Any = None, **settings: Any) -> Any:
    """A dataclass field that becomes a click option, listed in the help under ``group``."""
    if settings.get("multiple"):
        return field(
            default_factory=list, metadata={"names": names, "group": group, "settings": settings}
        )
    return field(default=default, metadata={"names": names, "group": group, "settings": settings})


def argument(metavar: str, *, is_optional: bool = False) -> Any:
    """A dataclass field that becomes a click argument; empty if it is missing.

    The command itself reports a missing argument, with the possible values.
    """
    shown = f"[{metavar}]" if is_optional else metavar
    return field(default="", metadata={"argument": {"metavar": shown, "required": False}})


#: The help of options that take one value in commands that measure one of each.
ONE_TYPE = "Element type: float32 bfloat16 float16 fp8e4m3 int8 … [float32]."
ONE_REDUCTION = "sum, prod, min, max or avg [sum]."
AUTO_PLACEMENT = "auto"
PLACEMENT_HELP = "Placement of the outputs; auto: out-of-place if the library supports it [auto]."
ONE_LIBRARY = "Collective library: nccl, shm, mpi, torch:gloo, bridge, … [the devices' own]."


def changed(
    original: Field[Any],
    default: Any = None,
    *,
    add: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    shown: str = "",
    **settings: Any,
) -> Any:
    """An option of another command with another default, other names or another help text.

    ``shown``: the default as the help shows it.
    """
    names = (*add, *(word for word in original.metadata["names"] if word not in drop))
    settings = {**original.metadata["settings"], **settings}
    if shown:
        text = re.sub(r" \[[^]]*\]\.$", "", settings["help"]).rstrip(".")
        settings["help"] = f"{text} [{shown}]."
    if settings.get("multiple"):
        return option(original.metadata["group"], *names, **settings)
    return option(
        original.metadata["group"],
        *names,
        default=original.default if default is None else default,
        **settings,
    )


@dataclass
class LibraryFlags:
    """The options that select library files, for every command that loads a library."""

    ccl_path: str = option(WHERE, "--ccl-path", default="", metavar="FILE", help="Library file.")
    ccl_files: list[str] = option(
        WHERE,
        "--ccl-file",
        multiple=True,
        metavar="TOML",
        help="Description of your own library for --ccl; may be repeated.",
    )

    def add_ccl_files(self) -> None:
        """Registers the libraries of ``--ccl-file`` in this process. Raises UsageError."""
        from cclmark.plan.libraries import add_library_files

        add_library_files([Path(file) for file in self.ccl_files])


@dataclass
class Flags(LibraryFlags):
    """The options of all measuring commands.

    ``elsewhere`` holds the replacements for flags that only other tools have. A command that does
    not support some of these options lists them in ``without``: they keep their defaults there.
    """

    without: ClassVar[frozenset[str]] = frozenset()
    why: ClassVar[bool] = False  # whether the command shows the library's predictions

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

    begin: str = option(
        SIZES, "-b", "--begin", "--minbytes", default="8", metavar="SIZE", help="Smallest size [8]."
    )
    end: str = option(
        SIZES,
        "-e",
        "--end",
        "--maxbytes",
        default="",
        metavar="SIZE",
        help="Largest size: 8, 128K, 4G, 1GiB [128M on accelerators, 16M on the host, or -b].",
    )
    step: str = option(
        SIZES, "-i", "--step", "--stepbytes", default="", metavar="SIZE", help="Grow by SIZE."
    )
    factor: float | None = option(
        SIZES, "-f", "--factor", "--stepfactor", type=RealNumber(), help="Grow by this factor [2]."
    )
    dtype: str = option(
        OPERATION,
        "-d",
        "--dtype",
        "--datatype",
        default="float32",
        metavar="TYPES",
        help="Element types, with commas, or all: float32 bfloat16 float16 fp8e4m3 int8 … "
        "[float32].",
    )
    reduction: str = option(
        OPERATION,
        "-o",
        "--op",
        default="sum",
        metavar="OPS",
        help="sum, prod, min, max, avg, with commas, or all [sum].",
    )
    root: str | None = option(
        OPERATION, "-r", "--root", default=None, metavar="RANK", help="Root, or all (or -1) [0]."
    )
    placement: str = option(
        OPERATION,
        "--placement",
        default="both",
        type=click.Choice(["both", "out-of-place", "in-place"]),
        help="Placement of the outputs [both].",
    )
    pattern: str = option(
        OPERATION,
        "--pattern",
        default="uniform",
        metavar="PATTERN",
        help="alltoallv: uniform, skew:4 (the largest part 4 times the smallest), matrix:FILE "
        "or rows:1,2;3,4 [uniform].",
    )
    ccl: str = option(
        WHERE,
        "--ccl",
        default="",
        metavar="NAMES",
        help="Collective library, or several with commas: nccl, shm, mpi, torch:gloo, bridge, … "
        "[the devices' own].",
    )
    allow_unverified: bool = option(
        WHERE,
        "--allow-unverified",
        default=False,
        is_flag=True,
        help="Allow a library whose interface is not fully known.",
    )
    islands: str = option(
        WHERE,
        "--islands",
        default="",
        metavar="LIST",
        help="For bridge: the ranks of each island and their library: 0-1=nccl,2-3=nccl, or host "
        "for one island per host [all ranks of a host on devices of one kind].",
    )
    through_host: bool = option(
        WHERE,
        "--through-host",
        default=False,
        is_flag=True,
        help="For bridge: through host memory, even if devices can access each other.",
    )
    modules: list[str] = option(
        WHERE,
        "--import",
        multiple=True,
        metavar="MODULE",
        help=("A Python module that provides a backend of torch [known for flagcx and ccl]."),
    )
    devices: str = option(
        WHERE,
        "--devices",
        default="",
        metavar="LIST",
        help="0,2,3 or cuda:0-3 or host or host:4; for bridge cuda:0-1+host:2 "
        "[all accelerators, else the host].",
    )
    count: int | None = option(
        WHERE,
        "-g",
        "--ngpus",
        "--npus",
        type=WholeNumber(least=1),
        metavar="N",
        help="Number of devices, one rank each; host devices only with --devices host [all].",
    )
    npus: int | None = option(
        WHERE,
        "-p",
        type=WholeNumber(least=0),
        metavar="N",
        help="Like -g, for users of hccl_test, from 2 on; 0 and 1 have another meaning in other "
        "tools and are ignored.",
    )
    bind: str = option(
        WHERE,
        "--bind",
        default="",
        metavar="none|numa|FILE",
        help="Processors of the ranks: the inherited ones; the ones of the NUMA node of the "
        "device; or a file with a line RANK: PROCESSORS for each rank [one processor for each "
        "host rank, the processors near the device for others].",
    )
    memory: str | None = option(
        WHERE,
        "--memory",
        type=click.Choice(["plain", "library", "vmm", "torch"]),
        help="Allocator of the buffers: the runtime's (cudaMalloc), the library's (ncclMemAlloc), "
        "CUDA's virtual memory management, or torch's caching allocator [with graphs and "
        "registered buffers as in the vendor's own test program: library for NCCL; else plain].",
    )
    register: str | None = option(
        WHERE,
        "--register",
        type=click.Choice(["none", "local", "symmetric"]),
        help="Registration of buffers with the library [none].",
    )
    register_number: int | None = option(
        WHERE,
        "-R",
        "--local-register",
        "--local_register",
        type=WholeNumber(0, 2),
        metavar="0|1|2",
        help="The same with the numbers of nccl-tests: 0 none, 1 local, 2 symmetric.",
    )
    config: list[str] = option(
        WHERE,
        "--config",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the communicators, by its name in the library's configuration "
        "(ncclConfig_t): minCTAs=16; may be repeated.",
    )
    timing: str | None = option(
        METHOD,
        "--timing",
        type=click.Choice(["auto", "throughput", "blocking", "graph", "per-op"]),
        help="How operations are timed; auto: throughput, and replayed from graphs where launches "
        "determine the time [auto; host: throughput].",
    )
    iterations: int | None = option(
        METHOD,
        "-n",
        "--iters",
        type=WholeNumber(least=1),
        metavar="N",
        help="Fixed iterations instead of --precision.",
    )
    warmup: int | None = option(
        METHOD,
        "-w",
        "--warmup",
        "--warmup-iters",
        "--warmup_iters",
        type=WholeNumber(least=0),
        metavar="N",
        help="Fixed warm-up iterations instead of warm-up until batches agree.",
    )
    group: int = option(
        METHOD,
        "-m",
        "--agg-iters",
        "--agg_iters",
        default=1,
        type=WholeNumber(least=1),
        metavar="N",
        help="Operations launched as one group [1].",
    )
    blocking: int | None = option(
        METHOD,
        "-z",
        "--blocking",
        type=WholeNumber(0, 3),
        metavar="N",
        help="As nccl-tests: above 0 is --timing blocking.",
    )
    graph: int | None = option(
        METHOD,
        "-G",
        "--cudagraph",
        type=WholeNumber(least=0),
        metavar="N",
        help="Launches of a captured graph per sample: --timing graph.",
    )
    like: str | None = option(
        METHOD,
        "--like",
        type=click.Choice(list(like.PROGRAMS)),
        is_eager=True,
        callback=like.apply,
        help="The sizes and the method of another program, as defaults of the other options.",
    )
    cycles: int = option(
        METHOD,
        "-N",
        "--cycles",
        "--run-cycles",
        "--run_cycles",
        default=1,
        type=WholeNumber(least=0),
        metavar="N",
        help="Repeat the sweep, 0: until Ctrl-C [1].",
    )
    duration: str = option(
        METHOD,
        "--duration",
        default="",
        metavar="TIME",
        help="Repeat the sweep for this time: 45s, 30m, 12h, 2d.",
    )
    summary_every: str = option(
        METHOD,
        "--summary-every",
        default="",
        metavar="TIME",
        help="Interval of the summaries of --duration [10s, then increasing].",
    )
    check: int = option(
        METHOD,
        "-c",
        "--check",
        default=1,
        type=WholeNumber(least=0),
        metavar="N",
        help="Checks of the output of each case after timing, 0: none [1].",
    )
    across: str = option(
        METHOD,
        "--across-ranks",
        default="max",
        type=click.Choice(["max", "mean", "min", "rank0"]),
        help="Time to report across ranks [max].",
    )
    cache: str = option(
        METHOD,
        "--cache",
        default="cold",
        type=click.Choice(["cold", "warm"]),
        help="warm: every operation uses the same part of the buffers, like FlagCX's perf programs "
        "and torch scripts; cold: the next part [cold].",
    )
    barrier: str = option(
        METHOD,
        "--barrier",
        default="own",
        type=click.Choice(["own", "library"]),
        help="Barrier of the ranks before timed operations: own, cclmark's barrier; library, the "
        "library's barrier, as in programs that call it [own].",
    )
    clock: str = option(
        METHOD,
        "--clock",
        default="auto",
        type=click.Choice(["auto", "device", "host"]),
        help="Clock of the reported times; auto: the device's clock if it has one, the host's "
        "clock with --timing blocking [auto].",
    )
    precision_percent: float = option(
        METHOD,
        "--precision",
        default=2.0,
        type=RealNumber(),
        metavar="PERCENT",
        help="Sampling stops when the 95 % interval of the median is within ± this percentage [2].",
    )
    max_time_s: float = option(
        METHOD,
        "--max-time",
        default=1.0,
        type=RealNumber(),
        metavar="SECONDS",
        help="Maximum time for sampling one case [1].",
    )
    timeout_s: float = option(
        METHOD,
        "-T",
        "--timeout",
        default=60.0,
        type=RealNumber(),
        metavar="SECONDS",
        help="Maximum time for one phase before the run is ended [60].",
    )
    seed: int = option(
        METHOD,
        "--seed",
        default=1,
        type=WholeNumber(0, 2**32 - 1),
        metavar="N",
        help="Seed of the input data [1].",
    )
    inject: list[str] = option(
        METHOD,
        "--inject",
        multiple=True,
        metavar="FAULT",
        help=(
            "A fault to inject, to verify its detection: corrupt:rank=1,index=5 or "
            "delay:rank=2,ms=50."
        ),
    )
    explain: bool = option(
        METHOD,
        "--explain",
        default=False,
        is_flag=True,
        help="After measuring, observe which algorithm, protocol and channels the library used for "
        "each case.",
    )
    format: str = option(
        OUTPUT,
        "--format",
        default="table",
        type=click.Choice(["table", "json", "csv", "markdown"]),
        help="What is printed [table].",
    )
    output: Path | None = option(
        OUTPUT, "-O", "--output", type=click.Path(path_type=Path), help="Print to this file."
    )
    references: bool = option(
        OUTPUT,
        "--references",
        default=False,
        is_flag=True,
        help="table, markdown: show each row as a share of the nearest reference; see cclmark "
        "references.",
    )
    journal: Path | None = option(
        OUTPUT,
        "--journal",
        type=click.Path(path_type=Path),
        help="Journal file [a new one in cclmark-runs/].",
    )
    resume: Path | None = option(
        OUTPUT,
        "--resume",
        type=click.Path(path_type=Path),
        metavar="JOURNAL",
        help="Measure only the cases that are missing in this journal of the same command.",
    )


class GroupedCommand(SaysHelp):
    """A command whose help lists its options in groups, and that recognises flags of the peers."""

    def __init__(self, *args: Any, elsewhere: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._elsewhere = elsewhere

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the flags; rejects a flag of another tool and names the replacement."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in self._elsewhere:
                hint = self._elsewhere[error.option_name]
                raise click.UsageError(f"{error.message.rstrip('.')}. {hint}", ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes a section for each group, in the order in which they first appear."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "group", "Other"), []).append(record)
        for group in (SIZES, OPERATION, WHERE, METHOD, OUTPUT, "Other"):
            if group in sections:
                with formatter.section(group):
                    formatter.write_dl(sections[group])


class GroupedOption(click.Option):
    """An option with its group. An empty value, for example of an unset variable, is rejected."""

    def __init__(self, *args: Any, group: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.group = group

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Converts and checks the typed value; a default may be empty."""
        empty = "" in value if isinstance(value, (list, tuple)) else value == ""
        if empty and ctx.get_parameter_source(self.name or "") is not ParameterSource.DEFAULT:
            raise click.BadParameter("the value is empty", ctx, self)
        return super().process_value(ctx, value)


#: What a command does with its flags. Returns the exit code, None for 0.
Action = Callable[..., int | None]
FlagsType = TypeVar("FlagsType", bound="DataclassInstance")


def command(
    name: str,
    summary: str,
    flags_type: type[FlagsType],
    run: Callable[[FlagsType], int | None],
    kind: type[GroupedCommand] = GroupedCommand,
) -> click.Command:
    """The click command ``name`` of class ``kind``, which calls ``run`` with its flags."""
    parameters: list[click.Parameter] = []
    for entry in fields(flags_type):
        if entry.name in getattr(flags_type, "without", ()):
            continue
        if "argument" in entry.metadata:
            settings = {**entry.metadata["argument"], "default": entry.default}
            parameters.append(click.Argument([entry.name], **settings))
            continue
        settings = dict(entry.metadata["settings"])
        if "multiple" not in settings:
            settings["default"] = entry.default
        parameters.append(
            GroupedOption(
                [*entry.metadata["names"], entry.name], group=entry.metadata["group"], **settings
            )
        )

    def callback(**values: Any) -> None:
        try:
            exit_code = run(flags_type(**values))
        except BrokenPipeError:
            # Standard error is broken; click would exit with 1, which means wrong data.
            raise click.Abort from None
        sys.exit(exit_code)

    return kind(
        name,
        params=parameters,
        callback=callback,
        help=summary,
        elsewhere=getattr(flags_type, "elsewhere", {}),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
