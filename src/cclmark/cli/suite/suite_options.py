"""The options of ``cclmark run``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.cli.options import OPERATION, OUTPUT, argument, option


@dataclass
class SuiteFlags:
    """The options of ``cclmark run``."""

    suite: str = argument("SUITE")
    tags: list[str] = option(
        OPERATION,
        "--tag",
        multiple=True,
        metavar="TAG",
        help="Only commands with this tag, or with one of several.",
    )
    only: list[str] = option(
        OPERATION, "--only", multiple=True, metavar="NAME", help="Only the command of this name."
    )
    baselines: list[str] = option(
        OPERATION,
        "--baseline",
        multiple=True,
        metavar="NAME=JOURNAL",
        help="The journal that the command of this name is held against.",
    )
    listed: bool = option(
        OUTPUT,
        "--list",
        default=False,
        is_flag=True,
        help="Show what would be run; without SUITE, the suites that there are.",
    )
    journal_dir: Path | None = option(
        OUTPUT,
        "--journal-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Where the journals go, with what the commands print [a new one in cclmark-runs/].",
    )
    junit: Path | None = option(
        OUTPUT,
        "--junit",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the verdicts as JUnit XML too.",
    )
    format: str = option(
        OUTPUT,
        "--format",
        default="table",
        type=click.Choice(["table", "json", "markdown"]),
        help="What is printed [table].",
    )
    verbose: bool = option(
        OUTPUT,
        "-v",
        "--verbose",
        default=False,
        is_flag=True,
        help="Show what the commands print, on standard error, instead of keeping it.",
    )
