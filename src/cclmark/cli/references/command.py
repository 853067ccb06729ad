"""``cclmark references``: published figures, and their comparison with a journal."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cclmark.options.printed_help import SaysHelp
from cclmark.options.types import Percent, Size

_FORMATS = ("table", "json", "csv", "markdown")

_EXAMPLES = [
    ("cclmark references --device H200", "The published figures of this device."),
    (
        "cclmark references check run.jsonl --fail-below 90%",
        "Compare a journal; exit with 1 below 90 % of a reference.",
    ),
    (
        "cclmark references add run.jsonl --name 'our rack, accepted 2026-11'",
        "Make a journal a reference.",
    ),
]


class _References(SaysHelp, click.Group):
    """Lists references without a command; its commands check a journal, add or remove one."""


def references_command(name: str, summary: str) -> click.Group:
    """Returns the group with its commands."""
    group = _References(
        name,
        params=[
            click.Option(
                ["--device"], metavar="NAME", help="Only references of this device: H200."
            ),
            click.Option(
                ["--operation"], metavar="NAME", help="Only references of this operation, or p2p."
            ),
            click.Option(["--source"], metavar="NAME", help="Only references of this source."),
            *_output_options(),
        ],
        callback=_list,
        examples=_EXAMPLES,
        invoke_without_command=True,
        help=f"{summary} With one of the first three options, list their figures.",
    )
    group.add_command(_check_command())
    group.add_command(_add_command())
    group.add_command(_remove_command())
    return group


def _check_command() -> click.Command:
    return SaysHelp(
        "check",
        params=[
            click.Argument(["journal"], metavar="JOURNAL"),
            click.Option(
                ["--fail-below"],
                type=Percent("90%", above=True),
                metavar="PERCENT",
                help="Exit with 1 if a judged figure is below this share of its reference, for "
                "example 90%.",
            ),
            click.Option(
                ["-b", "--begin"],
                type=Size(),
                metavar="SIZE",
                help="Smallest judged message of a collective [1M; any, where both figures are "
                "times of the device].",
            ),
            *_output_options(),
        ],
        callback=_check,
        help="Compare every figure of a journal with the nearest reference.",
    )


def _add_command() -> click.Command:
    return SaysHelp(
        "add",
        params=[
            click.Argument(["journal"], metavar="JOURNAL"),
            click.Option(
                ["--name"],
                required=True,
                metavar="TEXT",
                help="Title of the reference: 'our rack, accepted 2026-11'.",
            ),
            click.Option(
                ["--force"],
                is_flag=True,
                help="Take figures too that did not converge, vary by more than 10 % or were not "
                "verified.",
            ),
            _directory_option(),
        ],
        callback=_add,
        help="Make the figures of a journal a reference for later runs. Figures that did not "
        "converge, vary by more than 10 % from sample to sample or were not verified are named "
        "and left out; then the exit code is 1.",
    )


def _remove_command() -> click.Command:
    return SaysHelp(
        "remove",
        params=[click.Argument(["name"], metavar="NAME"), _directory_option()],
        callback=_remove,
        help="Delete a reference of your own. NAME is its source, as cclmark references lists it, "
        "or its title.",
    )


def _directory_option() -> click.Option:
    return click.Option(
        ["--references-dir"],
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Directory of the file [cclmark/references in the data home].",
    )


def _output_options() -> list[click.Option]:
    return [
        click.Option(
            ["--format"],
            type=click.Choice(_FORMATS),
            default="table",
            help="Output format [table].",
        ),
        click.Option(
            ["-O", "--output"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Output file [standard output].",
        ),
    ]


@click.pass_context
def _list(ctx: click.Context, /, **options: object) -> None:
    if ctx.invoked_subcommand is not None:
        given = [name for name, value in options.items() if value not in (None, "table")]
        if given:
            raise click.UsageError(f"write --{given[0]} after {ctx.invoked_subcommand}", ctx)
        return
    from cclmark.cli.references.run import list_references

    sys.exit(list_references(**options))  # type: ignore[arg-type]


def _check(**options: object) -> None:
    from cclmark.cli.references.run import check_journal

    sys.exit(check_journal(**options))  # type: ignore[arg-type]


def _add(**options: object) -> None:
    from cclmark.cli.references.run import add_references

    sys.exit(add_references(**options))  # type: ignore[arg-type]


def _remove(**options: object) -> None:
    from cclmark.cli.references.run import remove_references

    sys.exit(remove_references(**options))  # type: ignore[arg-type]
