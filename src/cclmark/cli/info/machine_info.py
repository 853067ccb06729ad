"""Prints the devices and libraries of this machine."""

from __future__ import annotations

from collections.abc import Mapping

from cclmark.cli.first_process import leave_it_to_the_first
from cclmark.cli.info.info_options import InfoFlags
from cclmark.errors import MissingError
from cclmark.recording.quiet import libraries_on_standard_error
from cclmark.recording.standard_output import say


def print_info(flags: InfoFlags) -> None:
    """Prints the devices and libraries of this machine. Raises CclmarkError."""
    leave_it_to_the_first()
    flags.add_ccl_files()
    if flags.ccls:
        from cclmark.report.lists.ccl_lines import ccls_text
        from cclmark.report.lists.inventory import json_of
        from cclmark.run.ccl_capabilities import report_ccls

        with libraries_on_standard_error():
            reports = report_ccls(flags.ccl_path)
        say(json_of({"ccls": reports}) if flags.json else ccls_text(reports))
        reasons = {report.name: report.reason for report in reports}
        _require_given_file(flags.ccl_path, reasons)
        return
    from cclmark.report.lists.inventory import inventory_json, inventory_text
    from cclmark.results.machine import complete_from_nvml, describe_machine
    from cclmark.run.probe import take_inventory

    machine = describe_machine()
    with libraries_on_standard_error():
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
    _require_given_file(flags.ccl_path, found.unavailable)


def _require_given_file(ccl_path: str, reasons: Mapping[str, str]) -> None:
    """Raises MissingError if ``--ccl-path`` names a file that cannot be used."""
    if ccl_path and reasons.get("nccl"):
        raise MissingError(f"--ccl-path: {reasons['nccl']}")
