"""``cclmark memory``: the buffers of an operation, and the memory that the library takes."""

from __future__ import annotations

from dataclasses import dataclass

import click

from cclmark.options.command import Action, changed, command
from cclmark.options.groups import (
    ONE_LIBRARY,
    CaseOptions,
    CheckOptions,
    CommunicatorOptions,
    CountOptions,
    FormatOptions,
    IslandOptions,
    LibraryOptions,
    ModuleOptions,
    ResumeOptions,
    RootOptions,
    SizeOptions,
    one_operation,
    operations_in_help,
    placement_option,
)

_EXAMPLES = [
    ("cclmark memory all_reduce", "The memory for 1 MiB on all devices."),
    (
        "cclmark memory alltoall --devices host:2 -b 1K -e 4K",
        "Three sizes of another operation, between two ranks of the host.",
    ),
]


@dataclass
class MemoryFlags(
    SizeOptions,
    CaseOptions,
    RootOptions,
    IslandOptions,
    ModuleOptions,
    CommunicatorOptions,
    CheckOptions,
    FormatOptions,
    ResumeOptions,
):
    """The options of ``cclmark memory``: of collectives, without options on times."""

    operation: str = one_operation()
    begin: int = changed(SizeOptions, "begin", 1 << 20, help="Size, or the smallest one [1M].")
    end: int | None = changed(SizeOptions, "end", help="Largest size: 8, 128K, 4G, 1GiB [-b].")
    placement: str = placement_option("both")
    ccl: list[str] = changed(LibraryOptions, "ccl", metavar="NAME", help=ONE_LIBRARY)
    iterations: int | None = changed(
        CountOptions,
        "iterations",
        help="Operations before the memory of the library is read [5].",
    )


def memory_command(name: str, summary: str, run: Action) -> click.Command:
    """Returns the command."""
    epilog = operations_in_help()
    return command(name, summary, MemoryFlags, run, examples=_EXAMPLES, epilog=epilog)
