"""The commands of the collectives, for example ``cclmark all_reduce``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from cclmark.cli.options import CollectivesFlags, Flags, command
from cclmark.errors import UsageError
from cclmark.plan.operations import COLLECTIVES, OPERATIONS


def commands() -> Iterator[click.Command]:
    """Yields one command per operation, and the one that measures all."""
    for operation in COLLECTIVES:
        yield _command_for(operation)
    yield command(
        "collectives",
        "All collectives in one launch.",
        CollectivesFlags,
        lambda flags: _measure(_chosen(flags.only), flags),
    )


def _command_for(operation: str) -> click.Command:
    return command(
        operation, OPERATIONS[operation].summary, Flags, lambda flags: _measure([operation], flags)
    )


def _measure(operations: list[str], flags: Flags) -> None:
    from cclmark.cli.measuring import measure

    sys.exit(measure(operations, flags))


def _chosen(only: str) -> list[str]:
    names = [name.strip() for name in only.split(",") if name.strip()] or list(COLLECTIVES)
    for name in names:
        if name not in COLLECTIVES:
            raise UsageError(
                f"unknown operation {name!r} in --only: choose from {', '.join(COLLECTIVES)}"
            )
    return list(dict.fromkeys(names))
