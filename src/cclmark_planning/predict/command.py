"""``cclmark predict``: times on more nodes than were measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cclmark.options.command import (
    JOB,
    METHOD,
    OPERATION,
    WHERE,
    Excludes,
    OptionRules,
    Requires,
    argument,
    changed,
    flag,
    option,
)
from cclmark.options.groups import ColumnOptions, FileOptions, FormatOptions
from cclmark.options.types import PATH, LineRate, Names, Numbers, Size
from cclmark_planning.job_options import JobOptions
from cclmark_planning.scale.algorithms import ALGORITHMS

_MOST_NODES = 1 << 17
_MOST_COUNTS = 16
_CALIBRATED = "measured steps have the rate of compute"
_OF_MODELS = ("batch", "measured", "steps", "layouts", "overlap", "mfu_percent", "peak_tflops")
_OF_COLLECTIVES = ("nodes", "topology", "algorithm", "operations", "begin_bytes", "end_bytes")


@dataclass
class PredictFlags(JobOptions):
    """The options of ``cclmark predict``."""

    examples: ClassVar = [
        (
            "cclmark predict two-nodes.jsonl four-nodes.jsonl --nodes 8,64,512",
            "From runs on two and four nodes to more.",
        ),
        (
            "cclmark predict nodes.jsonl --nodes 64 --topology fat-tree:64x8,oversub=2",
            "Through a level of the network that no run crossed.",
        ),
        (
            "cclmark predict published.csv --nodes 16",
            "From a table with the columns nodes, gpus_per_node, size, busbw_gbps.",
        ),
        (
            "cclmark predict --model llama3-8b --gpus 64,512 --network 8x400 --steps steps.csv",
            "The step of a training job, with the same batch and with one that grows.",
        ),
    ]
    about: ClassVar = (
        "Predicts times of collectives on more nodes than were measured.\n\n"
        "RUN: journals of collectives, measured or imported, of one library, version and kind of "
        "device; or a table (.csv). Models of rings, trees and others are fitted to them. Each "
        "prediction has an interval that contains nine of ten times, and measured numbers of nodes "
        "are predicted from smaller ones, so that the error is known beside that of the baseline: "
        "the same bus bandwidth as on most measured nodes. Where the runs do not suffice, the "
        "result is that nothing can be said, with the reason and the measurement that would help."
        "\n\n"
        "With --model, the step of a training job on numbers of GPUs, by the formulas of `cclmark "
        "need`, calibrated by measured steps (--steps, --measured); --layouts ranks all layouts. "
        "With --job, the step of a profiled program."
    )
    usual: ClassVar = (
        "nodes",
        "topology",
        "network",
        "model",
        "gpus",
        "steps",
        "layouts",
        "format",
    )
    rules: ClassVar[OptionRules] = (
        Requires("columns", "format", ("table", "csv", "markdown")),
        Excludes("measured", "mfu_percent", _CALIBRATED),
        Excludes("measured", "peak_tflops", _CALIBRATED),
        Excludes("steps", "measured", "both determine the rate of compute"),
        Excludes("steps", "mfu_percent", _CALIBRATED),
        *(Requires(name, "model", why="it is of a training job") for name in _OF_MODELS),
        *(
            Requires(name, "model", why="it is of a training job", alternative="programs")
            for name in ("gpus", "parallel")
        ),
        Requires(
            *("measured_tokens", "measured"),
            why="it is of the steps in that journal",
            alternative="programs",
        ),
        *(Excludes("model", name, "it is of collectives") for name in _OF_COLLECTIVES),
        *(Excludes("programs", name, "it is of collectives") for name in _OF_COLLECTIVES),
        Excludes("programs", "model", "the program has its own messages"),
    )
    files: ClassVar[tuple[str, ...]] = ()

    runs: tuple[Path, ...] = argument("RUN...", nargs=-1, type=PATH)
    programs: list[Path] = option(
        "--job",
        multiple=True,
        title=JOB,
        type=PATH,
        metavar="PROFILE",
        help="A journal of `cclmark profile`: the step of that program with more replicas; may be "
        "repeated, for other numbers of GPUs.",
    )
    steps: Path | None = option(
        "--steps",
        title=JOB,
        type=PATH,
        metavar="TABLE",
        help="Measured steps (.csv), with the columns gpus, layout, batch, micro_batch, sequence, "
        "step_s.",
    )
    layouts: bool = flag(
        "--layouts", title=JOB, help="Rank all layouts on the largest number of GPUs."
    )
    nodes: list[int] = option(
        "--nodes",
        title=OPERATION,
        default=[],
        type=Numbers("nodes", 2, _MOST_NODES, _MOST_COUNTS),
        metavar="NUMBERS",
        help="Numbers of nodes to predict, with commas.",
    )
    operations: list[str] = option(
        "--operation",
        title=OPERATION,
        default=[],
        type=Names(ALGORITHMS, "operation", exact=True),
        help="Operations, with commas [all of the runs].",
    )
    ccl: str | None = option(
        "--ccl",
        title=OPERATION,
        metavar="NAME",
        help="The library whose times are predicted, of runs that have several.",
    )
    begin_bytes: int | None = option(
        "-b",
        "--begin",
        title=OPERATION,
        type=Size(),
        metavar="SIZE",
        help="Smallest size [that of the runs].",
    )
    end_bytes: int | None = option(
        "-e",
        "--end",
        title=OPERATION,
        type=Size(),
        metavar="SIZE",
        help="Largest size [that of the runs].",
    )
    topology: str | None = option(
        "--topology",
        title=WHERE,
        metavar="TOPOLOGY",
        help="The network and its levels: rail:64x8, fat-tree:512x8,oversub=2, … or a JSON file.",
    )
    network: LineRate | None = changed(
        JobOptions,
        "network",
        title=WHERE,
        help="Line rate between nodes: Gb/s of each GPU, 400, or interfaces of a node, 8x400 [of "
        "--topology or of the journals].",
    )
    shared: bool = flag(
        "--shared-network",
        title=WHERE,
        help="Other jobs use the network: intervals become wider.",
    )
    algorithm: str = option(
        "--algorithm",
        default="",
        title=METHOD,
        metavar="NAME",
        help="The algorithm of all runs: ring, tree, NVLSTree, … [as NCCL_ALGO of the runs; else "
        "the library chooses].",
    )
    format: str = changed(FormatOptions, "format")
    wide: bool = changed(FormatOptions, "wide")
    columns: list[str] = changed(ColumnOptions, "columns")
    output: Path | None = changed(FileOptions, "output")
    journal: Path | None = changed(FileOptions, "journal", metavar="FILE")
    quiet: bool = changed(
        FileOptions, "quiet", help="Print results and errors alone: no path of the journal."
    )
    print_plan: bool = changed(FileOptions, "print_plan")
