"""``cclmark compare``: compares journals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import METHOD, OptionRules, Requires, argument, changed, flag, option
from cclmark.options.groups import FormatOptions, NumberOptions, OutputFileOptions
from cclmark.options.types import Percent


@dataclass
class CompareFlags:
    """The options of ``cclmark compare``."""

    examples: ClassVar = [
        ("cclmark compare before.jsonl after.jsonl", "One run before and one after a change."),
        (
            "cclmark compare a1.jsonl,a2.jsonl,a3.jsonl b1.jsonl,b2.jsonl,b3.jsonl "
            "--fail-if-slower 5%",
            "Three runs of each side; exit with 1 if a case became slower.",
        ),
        ("cclmark compare a.jsonl b.jsonl --format html -O change.html", "Both on the same axes."),
    ]
    about: ClassVar = (
        "BEFORE and each AFTER are one journal, or several journals of the same "
        "command separated by commas: A1.jsonl,A2.jsonl,A3.jsonl. Three journals of each side "
        "measure the noise from run to run. A journal may also be PAGE.html, a page of cclmark "
        "report, for all of its runs, or PAGE.html#RUN for one of them.\n\n"
        "Verdicts: slower or faster beyond the noise; no difference above the margin; "
        "inconclusive: these runs cannot decide; noise unknown: there is a ratio, but the noise of "
        "this machine or of a figure is not known, so that it is not judged; not comparable: a "
        "side did not measure the case, had wrong data, or used another clock. Runs of cclmark "
        "need are computed: their differences are exact and have no verdict. Exit codes: 0; 1 if "
        "the check of --fail-if-slower fails or outputs were wrong in all common cases; 2 if it "
        "cannot be decided."
    )

    rules: ClassVar[OptionRules] = (Requires("allow_inconclusive", "fail_if_slower"),)

    before: str = argument("BEFORE", required=True)
    after: tuple[str, ...] = argument("AFTER...", nargs=-1, required=True)
    fail_if_slower: float | None = option(
        "--fail-if-slower",
        title=METHOD,
        type=Percent(),
        help="Exit with 1 if a case is slower by this percentage and beyond noise (for example "
        "5%), with 2 if this cannot be decided. Also sets the margin of the verdicts, else 5%.",
    )
    allow_inconclusive: bool = flag(
        "--allow-inconclusive",
        title=METHOD,
        help="With --fail-if-slower: exit with 0 if this cannot be decided.",
    )
    format: str = changed(
        FormatOptions,
        "format",
        type=click.Choice(["table", "markdown", "json", "html"]),
        help="Output format [table]; html draws both sides on the same axes.",
    )
    wide: bool = changed(FormatOptions, "wide")
    numbers: bool = changed(NumberOptions, "numbers")
    output: Path | None = changed(OutputFileOptions, "output", add=("-o",))
