"""``cclmark compare``: compares journals."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.cli.printed_help import SaysHelp


def compare_command(name: str) -> click.Command:
    """Returns the command."""
    return SaysHelp(
        name,
        params=[
            click.Argument(["before"], metavar="BEFORE"),
            click.Argument(["after"], nargs=-1, required=True, metavar="AFTER..."),
            click.Option(
                ["--format"],
                type=click.Choice(["table", "markdown", "json", "html"]),
                default="table",
                help="How to print it [table]; html draws both on the same axes.",
            ),
            click.Option(
                ["-O", "--output"],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Where to [standard output].",
            ),
            click.Option(
                ["--fail-if-slower"],
                metavar="PERCENT",
                help="Exit with 1 where anything is slower by so much and beyond noise (5%), with "
                "2 where that cannot be decided. Also sets the margin of the verdicts [5%].",
            ),
            click.Option(
                ["--allow-inconclusive"],
                is_flag=True,
                help="With --fail-if-slower: exit with 0 where that cannot be decided.",
            ),
        ],
        callback=_compare,
        help="Compare journals case by case: what is slower, faster, no different, or "
        "inconclusive.\n\n"
        "BEFORE and each AFTER are a journal, or several of the same command with commas between: "
        "A1.jsonl,A2.jsonl,A3.jsonl. Three of each measure the noise from run to run.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _compare(**options: object) -> None:
    from cclmark.cli.compare.comparing import compare_journals

    sys.exit(compare_journals(**options))  # type: ignore[arg-type]
