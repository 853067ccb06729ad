"""``cclmark info``: what this machine has."""

from __future__ import annotations

from typing import Annotated

import typer

from cclmark.cli import options as opt


def info(
    ccl_path: opt.CclPath = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Lists devices, memory, links and libraries, and why each other one is not available."""
    from cclmark.report.inventory import inventory_json, inventory_text
    from cclmark.results.machine import complete_from_nvml, describe_machine
    from cclmark.run.probe import take_inventory

    machine = describe_machine()
    found = take_inventory(ccl_path)
    links, notices = complete_from_nvml(found.devices, machine)
    render = inventory_json if json else inventory_text
    typer.echo(
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
