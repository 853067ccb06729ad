"""``cclmark export``: journals in formats for other programs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.kinds.collective.formats import CASE_FORMATS
from cclmark.options.printed_help import SaysHelp

_FORMATS = (
    *("json", "csv", "parquet", "prometheus", "table", "pccl", "markdown"),
    *CASE_FORMATS,
)

_EXAMPLES = [
    ("cclmark export run.jsonl --format csv", "A row for each case."),
    (
        "cclmark export run1.jsonl run2.jsonl --format parquet --table samples -O samples.parquet",
        "The raw times of two runs in one table.",
    ),
]


def export_command(name: str, summary: str) -> click.Command:
    """Returns the command."""
    return SaysHelp(
        name,
        params=[
            click.Argument(
                ["journals"],
                nargs=-1,
                required=True,
                type=click.Path(path_type=Path),
                metavar="JOURNAL...",
            ),
            click.Option(
                ["--format"], type=click.Choice(_FORMATS), required=True, help="Output format."
            ),
            click.Option(
                ["--table"],
                type=click.Choice(["cases", "samples", "steps"]),
                default="cases",
                help="For csv and parquet: a row for each case, for each raw sample of each rank, "
                "or for the steps of each training and profile [cases; of trainings together with "
                "profiles: steps].",
            ),
            click.Option(
                ["-O", "--output"],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Output file, written completely or not at all [standard output].",
            ),
        ],
        callback=_export,
        examples=_EXAMPLES,
        help=f"{summary}\n\nSeveral journals become one table "
        "in csv and parquet, and one text in prometheus.",
    )


def _export(**options: object) -> None:
    from cclmark.cli.export.run import export_journals

    sys.exit(export_journals(**options))  # type: ignore[arg-type]
