"""``cclmark report``: renders journals as a page and as pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.cli.printed_help import SaysHelp


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
                help="The page [the first journal's name with .html, in this directory].",
            ),
            click.Option(["--title"], metavar="TEXT", help="What stands above it [what was run]."),
            click.Option(
                ["--png"],
                type=click.Path(path_type=Path),
                metavar="DIRECTORY",
                help="Each chart as a PNG file; without -o no page.",
            ),
            click.Option(
                ["--svg"],
                type=click.Path(path_type=Path),
                metavar="DIRECTORY",
                help="Each chart as an SVG file; without -o no page.",
            ),
        ],
        callback=_report,
        help="Make one HTML file of journals: what stands out, charts, matrices, all cases.\n\n"
        "The file needs nothing else: it opens without a network. Several journals are drawn on "
        "the same axes; NAME=JOURNAL says what to call one.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _report(**options: object) -> None:
    from cclmark.cli.report.reporting import report_journals

    sys.exit(report_journals(**options))  # type: ignore[arg-type]
