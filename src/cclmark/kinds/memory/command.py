"""``cclmark memory``: the buffers of an operation, and the memory that the library takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

from cclmark.options.flags import (
    AUTO_PLACEMENT,
    PLACEMENT_HELP,
    Action,
    Flags,
    argument,
    changed,
    command,
)
from cclmark.options.operation_argument import operations_in_help

_SHARED = Flags.__dataclass_fields__


@dataclass
class MemoryFlags(Flags):
    """The options of ``cclmark memory``: of collectives, without options on times."""

    without: ClassVar[frozenset[str]] = frozenset(
        {
            *("timing", "warmup", "group", "blocking", "graph", "cycles", "duration"),
            *("summary_every", "like", "across", "cache", "barrier", "clock", "precision_percent"),
            *("max_time_s", "inject", "explain", "references"),
        }
    )

    operation: str = argument("OPERATION")
    begin: str = changed(_SHARED["begin"], default="1M", help="Size, or the smallest one [1M].")
    end: str = changed(_SHARED["end"], help="Largest size: 8, 128K, 4G, 1GiB [-b].")
    placement: str = changed(
        _SHARED["placement"],
        default=AUTO_PLACEMENT,
        type=click.Choice([AUTO_PLACEMENT, "both", "out-of-place", "in-place"]),
        help=PLACEMENT_HELP,
    )
    ccl: str = changed(
        _SHARED["ccl"],
        metavar="NAME",
        help="Collective library: nccl, shm, mpi, torch:gloo, bridge, … [the devices' own].",
    )
    iterations: int | None = changed(
        _SHARED["iterations"], help="Operations before the memory of the library is read [5]."
    )
    format: str = changed(
        _SHARED["format"], type=click.Choice(["table", "json", "csv", "markdown"])
    )


def memory_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    memory = command(
        name,
        "List the buffers of an operation, and the memory that the library takes in each stage.",
        MemoryFlags,
        run,
    )
    memory.epilog = operations_in_help()
    return memory
