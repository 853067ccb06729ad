"""``cclmark report``: renders journals as a page and as pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.options.printed_help import SaysHelp

_EXAMPLES = [
    ("cclmark report run.jsonl", "run.html in this directory."),
    (
        "cclmark report before=old.jsonl after=new.jsonl -o change.html --png charts",
        "Two runs on the same axes, and each chart as a picture.",
    ),
]


def report_command(name: str, summary: str) -> click.Command:
    """Returns the command."""
    return SaysHelp(
        name,
        params=[
            click.Argument(["journals"], nargs=-1, required=True, metavar="JOURNAL..."),
            click.Option(
                ["-o", "-O", "--output"],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Output file [the first journal's name with .html, in this directory].",
            ),
            click.Option(
                ["--title"], metavar="TEXT", help="Title of the page [the measured command]."
            ),
            click.Option(
                ["--png"],
                type=click.Path(path_type=Path),
                metavar="DIRECTORY",
                help="Write each chart as a PNG file; without -o no page.",
            ),
            click.Option(
                ["--svg"],
                type=click.Path(path_type=Path),
                metavar="DIRECTORY",
                help="Write each chart as an SVG file; without -o no page.",
            ),
        ],
        callback=_report,
        examples=_EXAMPLES,
        help=f"{summary}\n\nThe file is self-contained and requires no network. Several "
        "journals are drawn on the same axes; NAME=JOURNAL sets the name of a journal.",
    )


def _report(**options: object) -> None:
    from cclmark.cli.report.run import report_journals

    sys.exit(report_journals(**options))  # type: ignore[arg-type]
