"""The options of ``cclmark trace msprof``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import INPUT, OUTPUT, argument, option


@dataclass
class MsprofFlags:
    """Files of msprof, and what becomes of them."""

    examples: ClassVar = [
        (
            "cclmark trace msprof PROF_*/mindstudio_profiler_output/msprof_*.json --steps",
            "The ranks of a run of hccl_test under msprof as one timeline.",
        )
    ]
    about: ClassVar = (
        "FILE: msprof_*.json of a device, or trace_view.json of Ascend's profiler for torch, one "
        "for each rank; also compressed by gzip. cclmark import makes a profile of the same files."
    )

    files: tuple[Path, ...] = argument(
        "FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
    )
    operation: str | None = option(
        "--operation",
        title=INPUT,
        metavar="NAME",
        help="The operation whose tasks are listed, or the begin of its name [the first].",
    )
    output: Path | None = option(
        "-O",
        "--output",
        title=OUTPUT,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="The timeline [a new file in cclmark-runs/].",
    )
    format: str = option(
        "--format",
        title=OUTPUT,
        default="perfetto",
        type=click.Choice(["perfetto", "chrome"]),
        help="The format of the timeline [perfetto].",
    )
    steps: bool = option(
        "--steps",
        title=OUTPUT,
        default=False,
        is_flag=True,
        help="The stages of the operation: a table, and the tasks of all as CSV next to the "
        "timeline.",
    )
