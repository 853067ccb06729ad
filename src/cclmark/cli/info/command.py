"""``cclmark info``: the devices and libraries of this machine."""

from __future__ import annotations

from dataclasses import dataclass

import click

from cclmark.options.flags import OUTPUT, Action, LibraryFlags, changed, command, option


@dataclass
class InfoFlags(LibraryFlags):
    """The options of ``cclmark info``."""

    ccl_path: str = changed(
        LibraryFlags.__dataclass_fields__["ccl_path"],
        help="NCCL's file; for other libraries set CCLMARK_RCCL_LIBRARY and so on.",
    )
    ccls: bool = option(
        OUTPUT,
        "--ccls",
        default=False,
        is_flag=True,
        help="Only the libraries, with their operations, types and the systems on which they were "
        "tried.",
    )
    json: bool = option(OUTPUT, "--json", default=False, is_flag=True, help="Print JSON.")


def info_command(name: str, run: Action) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "The devices and libraries of this machine, and the reasons why others are missing.",
        InfoFlags,
        run,
    )
