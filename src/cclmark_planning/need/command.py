"""``cclmark need``: how much network a training job needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cclmark.options.command import (
    METHOD,
    Excludes,
    OptionRules,
    Requires,
    changed,
    flag,
    option,
)
from cclmark.options.groups import ColumnOptions, FileOptions, FormatOptions
from cclmark.options.types import (
    Percent,
)
from cclmark_planning.job_options import JobOptions

USUAL_SHARE = 10.0
_MEASURED = "the journal of measured steps has the rate of compute"


@dataclass
class NeedFlags(JobOptions):
    """The options of ``cclmark need``."""

    examples: ClassVar = [
        (
            "cclmark need --model llama3-8b --gpus 8,64,512 --parallel zero=3",
            "FSDP on more and more GPUs.",
        ),
        (
            "cclmark need --model llama3-70b --gpus 512 --parallel tp=8,pp=4 --network 8x400",
            "Whether eight interfaces of 400 Gb/s are enough for a node.",
        ),
        (
            "cclmark need --model config.json --gpus 64 --measured train.jsonl",
            "A model of Hugging Face, with the compute that `cclmark train` measured.",
        ),
    ]
    about: ClassVar = (
        "Computes how much network a training job needs.\n\n"
        "All messages of a step follow from the model and the layout. The result is the line rate "
        "between nodes from which on a step takes little longer than on an ideal network, the rate "
        "above which more brings nothing, and the latency that is harmless. Nothing is measured: "
        "what is assumed is listed, with its source."
    )
    usual: ClassVar = (
        *("model", "gpus", "parallel", "batch", "sequence", "framework", "accelerator"),
        *("measured", "network", "format"),
    )
    rules: ClassVar[OptionRules] = (
        Excludes("measured", "mfu_percent", _MEASURED),
        Excludes("measured", "peak_tflops", _MEASURED),
        Requires("measured_tokens", "measured", why="it is of the steps in that journal"),
        Requires("columns", "format", ("table", "csv", "markdown")),
        Requires("fail_if_not_enough", "network"),
    )
    files: ClassVar[tuple[str, ...]] = ()

    share_percent: float = option(
        "--share",
        default=USUAL_SHARE,
        title=METHOD,
        type=Percent("10%", above=True, most=99),
        metavar="PERCENT",
        help="How much longer than on an ideal network between nodes a step may take [10%].",
    )
    fail_if_not_enough: bool = flag(
        "--fail-if-not-enough",
        title=METHOD,
        help="Exit with 1 if a step takes longer than --share permits on --network, for any of "
        "--gpus.",
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
