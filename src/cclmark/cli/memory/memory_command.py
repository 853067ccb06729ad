"""``cclmark memory``: the buffers of an operation, and the memory that the library takes."""

from __future__ import annotations

import sys

import click

from cclmark.cli.memory.memory_options import MemoryFlags
from cclmark.cli.options import command


def memory_command(name: str) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "List the buffers of an operation, and the memory that the library takes in each stage.",
        MemoryFlags,
        _measure,
    )


def _measure(flags: MemoryFlags) -> None:
    from cclmark.cli.memory.memory_reading import read_memory

    sys.exit(read_memory(flags))
