"""``cclmark compare``: compares journals."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.options.printed_help import SaysHelp


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
                help="Output format [table]; html draws both sides on the same axes.",
            ),
            click.Option(
                ["-O", "--output"],
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Output file [standard output].",
            ),
            click.Option(
                ["--fail-if-slower"],
                metavar="PERCENT",
                help="Exit with 1 if a case is slower by this percentage and beyond noise (for "
                "example 5%), with 2 if this cannot be decided. Also sets the margin of the "
                "verdicts [5%].",
            ),
            click.Option(
                ["--allow-inconclusive"],
                is_flag=True,
                help="With --fail-if-slower: exit with 0 if this cannot be decided.",
            ),
        ],
        callback=_compare,
        help="Compare journals case by case: slower, faster, no difference or "
        "inconclusive.\n\nBEFORE and each AFTER are one journal, or several journals of the "
        "same command separated by commas: A1.jsonl,A2.jsonl,A3.jsonl. Three journals of each "
        "side measure the noise from run to run.",
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _compare(**options: object) -> None:
    from cclmark.cli.compare.run import compare_journals

    sys.exit(compare_journals(**options))  # type: ignore[arg-type]
