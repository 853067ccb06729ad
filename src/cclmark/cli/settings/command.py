"""``cclmark settings``: the settings of a library with their effective values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import changed
from cclmark.options.groups import (
    FileOptions,
    FormatOptions,
    LibraryDescriptionOptions,
    LibraryFileOptions,
    LibraryOptions,
)


@dataclass
class SettingsFlags(LibraryFileOptions, LibraryDescriptionOptions):
    """The options of ``cclmark settings``."""

    about: ClassVar = "Values in effect, their origin, when they take effect, and costs."
    examples: ClassVar = [
        ("cclmark settings", "Of the library of the devices."),
        ("cclmark settings --ccl shm", "Of another library."),
        ("cclmark settings --ccl nccl --format json", "Of NCCL, as JSON."),
    ]

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
