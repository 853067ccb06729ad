"""``cclmark suite``: an acceptance suite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import (
    OPERATION,
    OUTPUT,
    Excludes,
    OptionRules,
    argument,
    changed,
    flag,
    option,
)
from cclmark.options.groups import FileOptions
from cclmark.options.types import PATH, Pair


@dataclass
class SuiteFlags:
    """The options of ``cclmark suite``."""

    title: ClassVar[str] = OUTPUT
    examples: ClassVar = [
        ("cclmark suite --list", "The suites of cclmark."),
        (
            "cclmark suite self-test --junit verdicts.xml",
            "The suite for the host, with its verdicts as JUnit XML.",
        ),
        ("cclmark suite nvlink --tag quick", "The commands of another suite with a tag."),
    ]
    about: ClassVar = "SUITE is a TOML file or the name of a suite of cclmark."
    rules: ClassVar[OptionRules] = (
        Excludes("quiet", "verbose", "it hides what the other shows"),
        Excludes("listed", "dry_run", "it shows the commands without their cases"),
    )

    suite: str = argument("SUITE", is_optional=True)
    tags: list[str] = option(
        "--tag",
        title=OPERATION,
        multiple=True,
        metavar="TAG",
        help="Only commands with this tag; may be repeated.",
    )
    only: list[str] = option(
        "--only",
        title=OPERATION,
        multiple=True,
        metavar="NAME",
        help="Only the command with this name.",
    )
    baselines: list[tuple[str, str]] = option(
        "--baseline",
        title=OPERATION,
        multiple=True,
        type=Pair(example="NAME=JOURNAL"),
        metavar="NAME=JOURNAL",
        help="The baseline journal of the command with this name.",
    )
    listed: bool = flag(
        "--list", help="Show the commands without running them; without SUITE, list the suites."
    )
    journal_dir: Path | None = option(
        "--journal-dir",
        type=PATH,
        metavar="DIR",
        help=(
            "Directory of the journals and the output of the commands [a new one in cclmark-runs/]."
        ),
    )
    junit: Path | None = option(
        "--junit", type=PATH, metavar="FILE", help="Also write the verdicts as JUnit XML."
    )
    format: str = option(
        "--format",
        default="table",
        type=click.Choice(["table", "json", "markdown"]),
        help="Output format [table].",
    )
    verbose: bool = flag(
        "-v",
        "--verbose",
        help="Show the output of the commands on standard error instead of keeping it.",
    )
    quiet: bool = changed(
        FileOptions, "quiet", help="Print verdicts and errors alone: no progress, no path."
    )
    dry_run: bool = changed(FileOptions, "dry_run")
