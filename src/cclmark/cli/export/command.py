"""``cclmark export``: journals in formats for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.kinds.collective.formats import CASE_FORMATS
from cclmark.options.command import JOURNALS, OUTPUT, argument, changed, option
from cclmark.options.groups import ColumnOptions, FormatOptions, NumberOptions, OutputFileOptions

_FORMATS = (
    *("json", "csv", "parquet", "prometheus", "table", "pccl", "markdown", "chakra"),
    *("slurm", "kubernetes"),
    *CASE_FORMATS,
)


@dataclass
class ExportFlags:
    """The options of ``cclmark export``."""

    examples: ClassVar = [
        ("cclmark export run.jsonl --format csv", "A row for each case."),
        (
            "cclmark export run1.jsonl run2.jsonl --format parquet --table samples "
            "-O samples.parquet",
            "The raw times of two runs in one table.",
        ),
        (
            "cclmark export run.jsonl --format csv --columns size_bytes,time_us",
            "Some fields of each case.",
        ),
        (
            "cclmark export profile.jsonl --format chakra -O traces",
            "Execution traces of a profiled step, for ASTRA-sim.",
        ),
    ]
    about: ClassVar = (
        f"{JOURNALS}\n\nSeveral journals become one table in csv and parquet, and "
        "one text in prometheus."
    )

    journals: tuple[Path, ...] = argument(
        "JOURNAL...", nargs=-1, required=True, type=click.Path(path_type=Path)
    )
    format: str = changed(
        FormatOptions,
        "format",
        None,
        type=click.Choice(_FORMATS),
        required=True,
        help="Output format.",
    )
    wide: bool = changed(FormatOptions, "wide")
    numbers: bool = changed(NumberOptions, "numbers")
    table: str = option(
        "--table",
        title=OUTPUT,
        type=click.Choice(["cases", "samples", "steps"]),
        default="cases",
        help="For csv and parquet: a row for each case, for each raw sample of each rank, "
        "or for the steps of each training and profile [cases; of trainings together with "
        "profiles: steps].",
    )
    columns: list[str] = changed(
        ColumnOptions,
        "columns",
        help="For csv, parquet, table and markdown: a row for each result with these fields, "
        "separated by commas, in this order. A wrong name lists all.",
    )
    output: Path | None = changed(
        OutputFileOptions,
        "output",
        add=("-o",),
        help="Output file, written completely or not at all; for chakra a new directory "
        "[standard output].",
    )
