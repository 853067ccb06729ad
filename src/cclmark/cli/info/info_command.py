"""``cclmark info``: the devices and libraries of this machine."""

from __future__ import annotations

import click

from cclmark.cli.info.info_options import InfoFlags
from cclmark.cli.options import command


def info_command(name: str) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "The devices and libraries of this machine, and the reasons why others are missing.",
        InfoFlags,
        _info,
    )


def _info(flags: InfoFlags) -> None:
    from cclmark.cli.info.machine_info import print_info

    print_info(flags)
