"""``cclmark info``: what this machine has."""

from __future__ import annotations

from dataclasses import dataclass

import click

from cclmark.cli.options import OUTPUT, LibraryFlags, command, option
from cclmark.cli.output import say


@dataclass
class InfoFlags(LibraryFlags):
    """What ``cclmark info`` can be told."""

    json: bool = option(OUTPUT, "--json", default=False, is_flag=True, help="Print JSON.")


def info_command() -> click.Command:
    """The command."""
    return command("info", "What this machine has, and why not more.", InfoFlags, _info)


def _info(flags: InfoFlags) -> None:
    from cclmark.report.inventory import inventory_json, inventory_text
    from cclmark.results.machine import complete_from_nvml, describe_machine
    from cclmark.run.probe import take_inventory

    machine = describe_machine()
    found = take_inventory(flags.ccl_path)
    links, notices = complete_from_nvml(found.devices, machine)
    render = inventory_json if flags.json else inventory_text
    say(
        render(
            machine,
            found.devices,
            links,
            found.libraries,
            found.unavailable,
            found.nvrtc_path,
            notices,
        )
    )
