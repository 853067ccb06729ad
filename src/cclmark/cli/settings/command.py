"""``cclmark settings``: the settings of a library with their effective values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.options.command import Action, changed, command
from cclmark.options.groups import (
    FileOptions,
    FormatOptions,
    LibraryDescriptionOptions,
    LibraryFileOptions,
    LibraryOptions,
)

_EXAMPLES = [
    ("cclmark settings", "Of the library of the devices."),
    ("cclmark settings --ccl nccl --format json", "Of NCCL, as JSON."),
]


@dataclass
class SettingsFlags(LibraryFileOptions, LibraryDescriptionOptions):
    """The options of ``cclmark settings``."""

    ccl: str = changed(
        LibraryOptions,
        "ccl",
        "",
        type=None,
        metavar="NAME",
        help="Collective library: nccl, mpi, torch:nccl, … [the devices' own].",
    )
    format: str = changed(FormatOptions, "format", type=click.Choice(["table", "json"]))
    output: Path | None = changed(FileOptions, "output")


def settings_command(name: str, summary: str, run: Action) -> click.Command:
    """Returns the command."""
    return command(name, summary, SettingsFlags, run, examples=_EXAMPLES)
