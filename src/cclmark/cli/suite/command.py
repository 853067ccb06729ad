"""``cclmark run``: an acceptance suite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.options.flags import OPERATION, OUTPUT, Action, argument, command, option


@dataclass
class SuiteFlags:
    """The options of ``cclmark run``."""

    suite: str = argument("SUITE", is_optional=True)
    tags: list[str] = option(
        OPERATION,
        "--tag",
        multiple=True,
        metavar="TAG",
        help="Only commands with this tag; may be repeated.",
    )
    only: list[str] = option(
        OPERATION, "--only", multiple=True, metavar="NAME", help="Only the command with this name."
    )
    baselines: list[str] = option(
        OPERATION,
        "--baseline",
        multiple=True,
        metavar="NAME=JOURNAL",
        help="The baseline journal of the command with this name.",
    )
    listed: bool = option(
        OUTPUT,
        "--list",
        default=False,
        is_flag=True,
        help="Show the commands without running them; without SUITE, list the suites.",
    )
    journal_dir: Path | None = option(
        OUTPUT,
        "--journal-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help=(
            "Directory of the journals and the output of the commands [a new one in cclmark-runs/]."
        ),
    )
    junit: Path | None = option(
        OUTPUT,
        "--junit",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Also write the verdicts as JUnit XML.",
    )
    format: str = option(
        OUTPUT,
        "--format",
        default="table",
        type=click.Choice(["table", "json", "markdown"]),
        help="Output format [table].",
    )
    verbose: bool = option(
        OUTPUT,
        "-v",
        "--verbose",
        default=False,
        is_flag=True,
        help="Show the output of the commands on standard error instead of keeping it.",
    )


def suite_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "Run an acceptance suite: commands with thresholds for their figures. SUITE is a TOML "
        "file or the name of a suite of cclmark.",
        SuiteFlags,
        run,
    )
