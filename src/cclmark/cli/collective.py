"""The collectives: ``cclmark all_reduce`` and its kin."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from cclmark.cli.options import CollectivesFlags, Flags, command
from cclmark.errors import UsageError
from cclmark.plan.operations import COLLECTIVES

_SUMMARIES = {
    "all_reduce": "Every rank gets the reduction of all ranks' data.",
    "all_gather": "Every rank gets every rank's data.",
    "reduce_scatter": "Every rank gets its part of the reduction.",
    "broadcast": "Every rank gets the root's data.",
    "reduce": "The root gets the reduction.",
    "alltoall": "Every rank sends a part to every rank.",
    "alltoallv": "The same with parts of different sizes.",
    "gather": "The root gets every rank's data.",
    "scatter": "Every rank gets its part of the root's data.",
    "sendrecv": "Every rank sends to its right neighbour in a ring.",
    "barrier": "Every rank waits for every other.",
}


def commands() -> Iterator[click.Command]:
    """One command per operation, and the one that measures all."""
    for operation in COLLECTIVES:
        yield _command_for(operation)
    yield command(
        "collectives",
        "All of them in one launch.",
        CollectivesFlags,
        lambda flags: _measure(_chosen(flags.only), flags),
    )


def _command_for(operation: str) -> click.Command:
    return command(
        operation, _SUMMARIES[operation], Flags, lambda flags: _measure([operation], flags)
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
