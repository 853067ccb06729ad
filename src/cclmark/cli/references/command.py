"""``cclmark references``: published figures, and their comparison with a journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.click_command import command, imported
from cclmark.options.command import (
    INPUT,
    JOURNAL,
    METHOD,
    OUTPUT,
    SELECTION,
    CommandGroup,
    argument,
    flag,
    option,
)
from cclmark.options.groups import FormatOptions, OutputFileOptions
from cclmark.options.types import PATH, Percent, Size

_EXAMPLES = [
    ("cclmark references show --device H200", "The published figures of this device."),
    (
        "cclmark references check run.jsonl --fail-below 90%",
        "Compare a journal; exit with 1 below 90 % of a reference.",
    ),
    (
        "cclmark references add run.jsonl --name 'our rack, accepted 2026-11'",
        "Make a journal a reference.",
    ),
]


@dataclass
class ListReferencesFlags(FormatOptions, OutputFileOptions):
    """The options of ``cclmark references list``."""

    title: ClassVar[str] = SELECTION
    usual: ClassVar = ("device", "operation")

    device: str | None = option(
        "--device", metavar="NAME", help="Only references of this device: H200."
    )
    operation: str | None = option(
        "--operation", metavar="NAME", help="Only references of this operation, or p2p."
    )


@dataclass
class ShowReferencesFlags(ListReferencesFlags):
    """The options of ``cclmark references show``."""

    source: str = argument("NAME", is_optional=True)
    named: str | None = option("--source", hidden=True)


@dataclass
class CheckReferencesFlags(FormatOptions, OutputFileOptions):
    """The options of ``cclmark references check``."""

    journal: str = argument("JOURNAL", required=True)
    fail_below: float | None = option(
        "--fail-below",
        title=METHOD,
        type=Percent("90%", above=True),
        help="Exit with 1 if a judged figure is below this share of its reference, for example "
        "90%.",
    )
    begin: int | None = option(
        "-b",
        "--begin",
        title=METHOD,
        type=Size(),
        help="Smallest judged message of a collective [1M; any, where both figures are times of "
        "the device].",
    )


@dataclass
class DirectoryOptions:
    """Where the user's references are."""

    references_dir: Path | None = option(
        "--references-dir",
        title=INPUT,
        type=PATH,
        metavar="DIR",
        help="Directory of the file [cclmark/references in the data home].",
    )


@dataclass
class AddReferencesFlags(DirectoryOptions):
    """The options of ``cclmark references add``."""

    journal: str = argument("JOURNAL", required=True)
    name: str = option(
        "--name",
        title=OUTPUT,
        required=True,
        metavar="TEXT",
        help="Title of the reference: 'our rack, accepted 2026-11'.",
    )
    force: bool = flag(
        "--force",
        title=METHOD,
        help="Take figures too that did not converge, vary by more than 10 % or were not verified.",
    )


@dataclass
class RemoveReferencesFlags(DirectoryOptions):
    """The options of ``cclmark references remove``."""

    name: str = argument("NAME", required=True)


_COMMANDS = {
    "list": ("List the sources of references.", ListReferencesFlags),
    "show": (
        "Show figures. NAME is a source, as cclmark references list lists it.",
        ShowReferencesFlags,
    ),
    "check": (
        f"Compare every figure of a journal with the nearest reference.\n\n{JOURNAL}",
        CheckReferencesFlags,
    ),
    "add": (
        "Make the figures of a journal a reference for later runs. Figures that did not "
        "converge, vary by more than 10 % from sample to sample or were not verified are named "
        f"and left out; then the exit code is 1.\n\n{JOURNAL}",
        AddReferencesFlags,
    ),
    "remove": (
        "Delete a reference of your own. NAME is its source, as cclmark references list lists it, "
        "or its title.",
        RemoveReferencesFlags,
    ),
}


class _References(CommandGroup):
    """Without a command, lists the sources, and the figures of those that options select."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_bare = not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))
        if is_bare and not ctx.resilient_parsing:
            if behind := [word for word in args if word in self.commands]:
                raise click.UsageError(f"write {args[0]} after {behind[0]}", ctx)
            selected = {"--device", "--operation", "--source"} & {
                word.partition("=")[0] for word in args
            }
            args = ["show" if selected else "list", *args]
        return super().parse_args(ctx, args)


def references_command(name: str, summary: str) -> click.Group:
    """Returns the group with its commands."""
    group = _References(name, help=summary, examples=_EXAMPLES)
    for own_name, (text, flags_type) in _COMMANDS.items():
        run_command = imported(f"cclmark.cli.references.run.{own_name}_references")
        group.add_command(command(own_name, text, flags_type, run_command))
    return group
