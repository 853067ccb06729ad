"""``cclmark report``: renders journals as a page and as pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.options.command import JOURNALS, OUTPUT, Action, argument, changed, command, option
from cclmark.options.groups import OutputFileOptions

_EXAMPLES = [
    ("cclmark report run.jsonl", "run.html in this directory."),
    (
        "cclmark report before=old.jsonl after=new.jsonl -o change.html --png charts",
        "Two runs on the same axes, and each chart as a picture.",
    ),
]


@dataclass
class ReportFlags:
    """The options of ``cclmark report``."""

    journals: tuple[str, ...] = argument("JOURNAL...", nargs=-1, required=True)
    output: Path | None = changed(
        OutputFileOptions,
        "output",
        add=("-o",),
        help="Output file [the first journal's name with .html, in this directory].",
    )
    title_text: str | None = option(
        "--title", title=OUTPUT, metavar="TEXT", help="Title of the page [the measured command]."
    )
    png: Path | None = option(
        "--png",
        title=OUTPUT,
        type=click.Path(path_type=Path),
        metavar="DIRECTORY",
        help="Write each chart as a PNG file; without -o no page.",
    )
    svg: Path | None = option(
        "--svg",
        title=OUTPUT,
        type=click.Path(path_type=Path),
        metavar="DIRECTORY",
        help="Write each chart as an SVG file; without -o no page.",
    )


def report_command(name: str, summary: str, run: Action) -> click.Command:
    """Returns the command."""
    text = (
        f"{summary}\n\nThe file is self-contained and requires no network. Several "
        f"journals are drawn on the same axes; NAME=JOURNAL sets the name of a journal. {JOURNALS}"
    )
    return command(name, text, ReportFlags, run, examples=_EXAMPLES)
