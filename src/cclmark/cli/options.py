"""The options of all measuring commands, spelt as the peers' users type them."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Timing(str, Enum):
    """How operations follow each other."""

    throughput = "throughput"
    blocking = "blocking"
    graph = "graph"
    per_op = "per-op"


class AcrossRanks(str, Enum):
    """Which rank's time counts."""

    max = "max"
    mean = "mean"
    min = "min"
    rank0 = "rank0"


class Placement(str, Enum):
    """Where the output goes."""

    both = "both"
    out = "out-of-place"
    inside = "in-place"


class Register(str, Enum):
    """How buffers are registered with the library."""

    none = "none"
    local = "local"
    symmetric = "symmetric"


class Format(str, Enum):
    """What is printed."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"
    nccl_tests = "nccl-tests"
    flagcx = "flagcx"
    hccl = "hccl"


_SIZES = "Sizes"
_OPERATION = "Operation"
_WHERE = "Where"
_METHOD = "Method"
_OUTPUT = "Output"

Begin = Annotated[
    str,
    typer.Option(
        "-b", "--begin", "--minbytes", metavar="SIZE", help="Smallest size.", rich_help_panel=_SIZES
    ),
]
End = Annotated[
    str,
    typer.Option(
        "-e",
        "--end",
        "--maxbytes",
        metavar="SIZE",
        help="Largest size: 8, 128K, 4G, 1GiB. Default: 128M on accelerators, 16M on the host, "
        "or -b if that is larger.",
        rich_help_panel=_SIZES,
    ),
]
Step = Annotated[
    str,
    typer.Option(
        "-i", "--step", "--stepbytes", metavar="SIZE", help="Grow by SIZE.", rich_help_panel=_SIZES
    ),
]
Factor = Annotated[
    float | None,
    typer.Option(
        "-f",
        "--factor",
        "--stepfactor",
        help="Grow by this factor (default 2).",
        rich_help_panel=_SIZES,
    ),
]
Only = Annotated[
    str,
    typer.Option(
        "--only", metavar="A,B", help="Only these operations.", rich_help_panel=_OPERATION
    ),
]
Dtype = Annotated[
    str,
    typer.Option(
        "-d",
        "--dtype",
        "--datatype",
        help="Element types, with commas, or all: float32 bfloat16 float16 fp8e4m3 int8 …",
        rich_help_panel=_OPERATION,
    ),
]
Reduction = Annotated[
    str,
    typer.Option(
        "-o", "--op", help="sum prod min max avg, or all.", rich_help_panel=_OPERATION
    ),
]
Root = Annotated[
    str,
    typer.Option(
        "-r", "--root", help="Root rank, or all (or -1).", rich_help_panel=_OPERATION
    ),
]
PlacementOption = Annotated[
    Placement, typer.Option("--placement", help="Buffers to use.", rich_help_panel=_OPERATION)
]
Pattern = Annotated[
    str,
    typer.Option(
        "--pattern",
        help="alltoallv: uniform, skew:4 (largest part 4 × the smallest) or matrix:FILE.",
        rich_help_panel=_OPERATION,
    ),
]
CclOption = Annotated[
    str,
    typer.Option(
        "--ccl",
        help="Collective library, or several with commas. Default: the devices' own.",
        rich_help_panel=_WHERE,
    ),
]
CclPath = Annotated[
    str,
    typer.Option(
        "--ccl-path", metavar="FILE", help="The library's file.", rich_help_panel=_WHERE
    ),
]
Devices = Annotated[
    str,
    typer.Option(
        "--devices",
        help="0,2,3 or cuda:0-3 or host or host:4. Default: all accelerators, else the host.",
        rich_help_panel=_WHERE,
    ),
]
Count = Annotated[
    int | None,
    typer.Option(
        "-g",
        "--ngpus",
        "-p",
        "--npus",
        min=1,
        help="How many devices, one rank each.",
        rich_help_panel=_WHERE,
    ),
]
RegisterOption = Annotated[
    Register | None,
    typer.Option("--register", help="Buffer registration.", rich_help_panel=_WHERE),
]
RegisterNumber = Annotated[
    int | None,
    typer.Option(
        "-R",
        "--local-register",
        "--local_register",
        min=0,
        max=2,
        help="As nccl-tests: 0 none, 1 local, 2 symmetric.",
        rich_help_panel=_WHERE,
    ),
]
TimingOption = Annotated[
    Timing | None,
    typer.Option("--timing", help="How operations are timed.", rich_help_panel=_METHOD),
]
Iterations = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--iters",
        min=1,
        help="Fixed iterations instead of --precision.",
        rich_help_panel=_METHOD,
    ),
]
WarmUpIterations = Annotated[
    int | None,
    typer.Option(
        "-w",
        "--warmup",
        "--warmup-iters",
        "--warmup_iters",
        min=0,
        help="Fixed warm-up iterations instead of until batches agree.",
        rich_help_panel=_METHOD,
    ),
]
Group = Annotated[
    int,
    typer.Option(
        "-m",
        "--agg-iters",
        "--agg_iters",
        min=1,
        help="Operations that are launched as one group.",
        rich_help_panel=_METHOD,
    ),
]
Blocking = Annotated[
    int | None,
    typer.Option(
        "-z",
        "--blocking",
        min=0,
        max=3,
        help="As nccl-tests: above 0 means --timing blocking.",
        rich_help_panel=_METHOD,
    ),
]
Graph = Annotated[
    int | None,
    typer.Option(
        "-G",
        "--cudagraph",
        min=0,
        help="Launches of a captured graph per sample: --timing graph.",
        rich_help_panel=_METHOD,
    ),
]
Cycles = Annotated[
    int,
    typer.Option(
        "-N",
        "--cycles",
        "--run-cycles",
        "--run_cycles",
        min=0,
        help="Repeat the sweep; 0: until Ctrl-C.",
        rich_help_panel=_METHOD,
    ),
]
Check = Annotated[
    int,
    typer.Option(
        "-c",
        "--check",
        min=0,
        help="Checks of every output; 0: none.",
        rich_help_panel=_METHOD,
    ),
]
Across = Annotated[
    AcrossRanks,
    typer.Option("--across-ranks", help="Whose time counts.", rich_help_panel=_METHOD),
]
PrecisionOption = Annotated[
    float,
    typer.Option(
        "--precision",
        help="Half-width of the median's 95 % interval at which sampling stops, in percent.",
        rich_help_panel=_METHOD,
    ),
]
MaxTime = Annotated[
    float,
    typer.Option(
        "--max-time", help="Most seconds of sampling per case.", rich_help_panel=_METHOD
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        "-T",
        help="Seconds that any single phase may take before the run is ended.",
        rich_help_panel=_METHOD,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", min=0, max=2**32 - 1, help="Of the input data.", rich_help_panel=_METHOD
    ),
]
Inject = Annotated[
    list[str] | None,
    typer.Option(
        "--inject",
        metavar="FAULT",
        help="A fault to see caught: corrupt:rank=1,index=5 or delay:rank=2,ms=50.",
        rich_help_panel=_METHOD,
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="What is printed.", rich_help_panel=_OUTPUT)
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-O", "--output", metavar="FILE", help="Print to FILE.", rich_help_panel=_OUTPUT
    ),
]
JournalOption = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        help="Where the journal goes. Default: a new file in cclmark-runs/.",
        rich_help_panel=_OUTPUT,
    ),
]
