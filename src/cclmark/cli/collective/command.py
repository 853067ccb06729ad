"""The commands of the collectives, for example ``cclmark all_reduce``."""

from __future__ import annotations

import sys

import click

from cclmark.cli.operation_argument import known_operation, operations_in_help
from cclmark.cli.options import CollectivesFlags, ExplainFlags, Flags, OperationFlags, command
from cclmark.errors import UsageError
from cclmark.plan.operations import COLLECTIVES, OPERATIONS


def collective_command(name: str) -> click.Command:
    """Returns the command of the operation ``name``."""
    return command(
        name,
        OPERATIONS[name].summary,
        OperationFlags,
        lambda flags: _measure([name], flags, flags.pieces),
    )


def collectives_command(name: str) -> click.Command:
    """Returns the command that measures several operations, by default all."""
    return command(
        name,
        "All collectives in one launch.",
        CollectivesFlags,
        lambda flags: _measure(_chosen(flags.only), flags),
    )


def explain_command(name: str) -> click.Command:
    """Returns the command that measures one operation and shows the library's predictions."""
    explain = command(
        name,
        "Measure an operation and show why its algorithm was chosen: the library's predictions.",
        ExplainFlags,
        _explain,
    )
    explain.epilog = operations_in_help()
    return explain


def _explain(flags: ExplainFlags) -> None:
    known_operation(flags.operation)
    flags.explain = True
    _measure([flags.operation], flags)


def _measure(operations: list[str], flags: Flags, pieces: str = "") -> None:
    from cclmark.cli.collective.run import measure

    sys.exit(measure(operations, flags, pieces))


def _chosen(only: str) -> list[str]:
    names = [name.strip() for name in only.split(",") if name.strip()] or list(COLLECTIVES)
    for name in names:
        if name not in COLLECTIVES:
            raise UsageError(
                f"unknown operation {name!r} in --only: choose from {', '.join(COLLECTIVES)}"
            )
    return list(dict.fromkeys(names))
