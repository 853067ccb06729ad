"""``cclmark report``: renders journals as a page and as pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cclmark.options.command import JOURNALS, OUTPUT, argument, changed, option
from cclmark.options.groups import OutputFileOptions
from cclmark.options.types import PATH


@dataclass
class ReportFlags:
    """The options of ``cclmark report``."""

    title: ClassVar[str] = OUTPUT
    examples: ClassVar = [
        ("cclmark report run.jsonl", "run.html in this directory."),
        (
            "cclmark report before=old.jsonl after=new.jsonl -o change.html --png charts",
            "Two runs on the same axes, and each chart as a picture.",
        ),
        ("cclmark report cclmark-runs/*.jsonl -o runs.html", "All runs of a directory."),
    ]
    about: ClassVar = (
        "Findings, charts, matrices and all cases. The file is self-contained and requires no "
        "network. Several journals are drawn on the same axes; NAME=JOURNAL sets the name of a "
        f"journal. {JOURNALS}"
    )

    journals: tuple[str, ...] = argument("JOURNAL...", nargs=-1, required=True)
    output: Path | None = changed(
        OutputFileOptions,
        "output",
        add=("-o",),
        help="Output file [the first journal's name with .html, in this directory].",
    )
    title_text: str | None = option(
        "--title", metavar="TEXT", help="Title of the page [the measured command]."
    )
    png: Path | None = option(
        "--png",
        type=PATH,
        metavar="DIRECTORY",
        help="Write each chart as a PNG file; without -o no page.",
    )
    svg: Path | None = option(
        "--svg",
        type=PATH,
        metavar="DIRECTORY",
        help="Write each chart as an SVG file; without -o no page.",
    )
