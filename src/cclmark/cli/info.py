"""``cclmark info``: what this machine has."""

from __future__ import annotations

from dataclasses import dataclass

import click

from cclmark.cli.options import OUTPUT, LibraryFlags, command, option
from cclmark.cli.output import say


@dataclass
class InfoFlags(LibraryFlags):
    """What ``cclmark info`` can be told."""

    ccls: bool = option(
        OUTPUT,
        "--ccls",
        default=False,
        is_flag=True,
        help="Only the libraries, each with its operations, types and on what it was tried.",
    )
    json: bool = option(OUTPUT, "--json", default=False, is_flag=True, help="Print JSON.")


def info_command() -> click.Command:
    """The command."""
    return command("info", "What this machine has, and why not more.", InfoFlags, _info)


def _info(flags: InfoFlags) -> None:
    if flags.ccls:
        from cclmark.report.ccls import ccls_text
        from cclmark.report.inventory import json_of
        from cclmark.run.ccls import report_ccls

        reports = report_ccls(flags.ccl_path)
        say(json_of({"ccls": reports}) if flags.json else ccls_text(reports))
        return
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
