"""``cclmark settings``: the settings of a library with their effective values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from cclmark.options.flags import OUTPUT, WHERE, Action, LibraryFlags, command, option


@dataclass
class SettingsFlags(LibraryFlags):
    """The options of ``cclmark settings``."""

    ccl: str = option(
        WHERE,
        "--ccl",
        default="",
        metavar="NAME",
        help="Collective library: nccl, mpi, torch:nccl, … [the devices' own].",
    )
    format: str = option(
        OUTPUT,
        "--format",
        default="table",
        type=click.Choice(["table", "json"]),
        help="What is printed [table].",
    )
    output: Path | None = option(
        OUTPUT, "-O", "--output", type=click.Path(path_type=Path), help="Print to this file."
    )


def settings_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "The settings of a library: values in effect, origin, when they take effect, costs.",
        SettingsFlags,
        run,
    )
