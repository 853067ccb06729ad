"""The commands of the collectives, for example ``cclmark all_reduce``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.errors import UsageError
from cclmark.kinds.collective.formats import CASE_FORMATS
from cclmark.options.flags import OPERATION, Action, Flags, argument, changed, command, option
from cclmark.options.operation_argument import known_operation, operations_in_help
from cclmark.plan.operations import COLLECTIVES, OPERATIONS

_FORMAT = Flags.__dataclass_fields__["format"]
_FORMATS = click.Choice(["table", "json", "csv", "markdown", *CASE_FORMATS])


@dataclass
class OperationFlags(Flags):
    """The options of the command of one collective."""

    pieces: str = option(
        OPERATION,
        "--pieces",
        default="",
        metavar="1,10,100",
        help="The whole message in one call and in so many pieces: calls one after another, one "
        "group, and for all_reduce as DDP's buckets.",
    )
    format: str = changed(_FORMAT, type=_FORMATS)


@dataclass
class CollectivesFlags(Flags):
    """The same options, and the selection of operations."""

    only: str = option(
        OPERATION, "--only", default="", metavar="A,B", help="Only these operations [all]."
    )
    format: str = changed(_FORMAT, type=_FORMATS)


@dataclass
class ExplainFlags(Flags):
    """The options of ``cclmark explain``, which always explains."""

    without: ClassVar[frozenset[str]] = frozenset(
        {"explain", "duration", "summary_every", "cycles"}
    )
    why: ClassVar[bool] = True

    operation: str = argument("OPERATION")
    format: str = changed(_FORMAT, type=_FORMATS)


def collective_command(name: str, run: Action) -> click.Command:
    """Returns the command of the operation ``name``."""
    return command(
        name,
        OPERATIONS[name].summary,
        OperationFlags,
        lambda flags: run([name], flags, flags.pieces),
    )


def collectives_command(name: str, run: Action) -> click.Command:
    """Returns the command that measures several operations, by default all."""
    return command(
        name,
        "All collectives in one launch.",
        CollectivesFlags,
        lambda flags: run(_chosen(flags.only), flags),
    )


def explain_command(name: str, run: Action) -> click.Command:
    """Returns the command that measures one operation and shows the library's predictions."""

    def explained(flags: ExplainFlags) -> int | None:
        known_operation(flags.operation)
        flags.explain = True
        return run([flags.operation], flags)

    explain = command(
        name,
        "Measure an operation and show why its algorithm was chosen: the library's predictions.",
        ExplainFlags,
        explained,
    )
    explain.epilog = operations_in_help()
    return explain


def _chosen(only: str) -> list[str]:
    names = [name.strip() for name in only.split(",") if name.strip()] or list(COLLECTIVES)
    for name in names:
        if name not in COLLECTIVES:
            raise UsageError(
                f"unknown operation {name!r} in --only: choose from {', '.join(COLLECTIVES)}"
            )
    return list(dict.fromkeys(names))
