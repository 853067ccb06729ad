"""``cclmark memory``: the buffers of an operation, and the memory that the library takes."""

from __future__ import annotations

import sys

import click

from cclmark.cli.memory.memory_options import MemoryFlags
from cclmark.cli.operation_argument import operations_in_help
from cclmark.cli.options import command


def memory_command(name: str) -> click.Command:
    """Returns the command."""
    memory = command(
        name,
        "List the buffers of an operation, and the memory that the library takes in each stage.",
        MemoryFlags,
        _measure,
    )
    memory.epilog = operations_in_help()
    return memory


def _measure(flags: MemoryFlags) -> None:
    from cclmark.cli.memory.memory_reading import read_memory

    sys.exit(read_memory(flags))
