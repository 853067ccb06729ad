"""Lists the settings of a library."""

from __future__ import annotations

import os
import sys

from cclmark.cli.chosen_libraries import unknown_library
from cclmark.cli.first_process import leave_it_to_the_first
from cclmark.cli.settings.settings_options import SettingsFlags
from cclmark.errors import MissingError, UsageError
from cclmark.launch.devices import choose_devices
from cclmark.plan.libraries import (
    BRIDGE,
    MPI,
    all_libraries,
    meant_by,
    names_for,
    native_library,
    runtimes_of,
    torch_backend_of,
)
from cclmark.recording.output import print_out
from cclmark.recording.quiet import libraries_on_standard_error
from cclmark.report.lists.setting_lines import settings_json, settings_lines
from cclmark.document.paint import ansi, unpainted
from cclmark.results.setting_values import SettingValue
from cclmark.run.effective_settings import effective_values, find_library, read_mpi
from cclmark.run.probe import count_devices


def list_settings(flags: SettingsFlags) -> None:
    """Prints the settings of a library. Raises CclmarkError."""
    leave_it_to_the_first()
    flags.add_ccl_files()
    ccl = _library_of(flags)
    version, values = _values(ccl, flags.ccl_path)
    if flags.format == "json":
        print_out(flags.output, lambda to: [settings_json(ccl, version, values)])
        return
    print_out(
        flags.output,
        lambda to: [
            f"{line}\n"
            for line in settings_lines(
                ccl, version, values, ansi if to.takes_colours else unpainted
            )
        ],
    )


def _values(ccl: str, ccl_path: str) -> tuple[str, list[SettingValue]]:
    """The version of the library on this machine, empty if unknown, and its settings."""
    with libraries_on_standard_error():
        found = find_library(ccl, ccl_path)
        read = read_mpi() if ccl == MPI and found.version else None
    if found.reason:
        first = found.reason.splitlines()[0].rstrip(".")
        _tell(f"{first}: its version is unknown, and so is which settings it has")
    values, notices = effective_values(ccl, found.version, os.environ, read)
    for notice in notices:
        _tell(notice)
    return found.version, values


def _library_of(flags: SettingsFlags) -> str:
    """The library of ``--ccl``, else the default of this machine's devices. Raises UsageError."""
    runtime, unusable = "host", ""
    try:
        runtime = choose_devices("", None, count_devices).runtime
    except MissingError as error:
        unusable = str(error).splitlines()[0]
    if not flags.ccl:
        if unusable:
            _tell(f"{unusable} The settings of the host's library follow; --ccl names another")
        ccl = native_library(runtime)
        if ccl is None:
            fitting = ", ".join(names_for(runtime)) or "none known"
            raise UsageError(f"{runtime} devices have no default library: use --ccl ({fitting})")
    else:
        ccl = meant_by(flags.ccl, runtime)
    backend = torch_backend_of(ccl)
    if ccl != BRIDGE and not backend and not runtimes_of(ccl):
        raise unknown_library(ccl, runtime)
    library = all_libraries().get(ccl)
    if flags.ccl_path and (library is None or not library.is_loaded):
        raise UsageError(f"--ccl-path is not supported: {ccl} is not loaded from a file")
    return ccl


def _tell(notice: str) -> None:
    print(f"cclmark: {notice}", file=sys.stderr)
