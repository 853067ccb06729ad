"""``cclmark report``: renders journals as a page and as pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.options.printed_help import SaysHelp


def report_command(name: str) -> click.Command:
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
        help="Create one HTML file from journals: findings, charts, matrices, all cases.\n\nThe "
        "file is self-contained and requires no network. Several journals are drawn on the "
        "same axes; NAME=JOURNAL sets the name of a journal.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _report(**options: object) -> None:
    from cclmark.cli.report.run import report_journals

    sys.exit(report_journals(**options))  # type: ignore[arg-type]
