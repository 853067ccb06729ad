"""Lists the settings of a library."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Sequence

import msgspec

from cclmark.base.errors import MissingError, UsageError
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.cli.settings.command import SettingsFlags
from cclmark.document.blocks import Look, Table
from cclmark.document.document_text import table_lines
from cclmark.document.paint import Paint, unpainted
from cclmark.journal.setting_values import DEFAULT, SettingValue
from cclmark.launch.devices import choose_devices
from cclmark.options.case_request import default_library, unknown_library
from cclmark.rank.effective_settings import effective_values, find_library, read_mpi
from cclmark.rank.probe import count_devices
from cclmark.recording.caller import notice
from cclmark.recording.joining import leave_it_to_the_first, libraries_on_standard_error
from cclmark.recording.output import print_out
from cclmark.work.libraries import (
    BRIDGE,
    MPI,
    all_libraries,
    meant_by,
    names_for,
    runtimes_of,
    title_of,
    torch_backend_of,
)
from cclmark.work.library_settings import allowed_values
from cclmark.work.runtimes import NamedDevices
from cclmark.work.setting_fields import LibrarySetting

_HEAD = ("setting", "value", "from", "takes effect", "costs", "set by")
_SCOPES = {
    "call": "next call",
    "communicator": "new communicator",
    "process": "new process",
    "": "unknown",
}
_LONGEST_VALUE = 40
_EXPLANATION_COLUMNS = 100
_INDENT = "    "


def _title_with_version(ccl: str, version: str) -> str:
    """The library and its version: MPICH's own text is ``MPICH Version: 5.0.2``."""
    return f"{title_of(ccl)} {plain(version).replace(' Version: ', ' ')}".rstrip()


def settings_lines(
    ccl: str,
    version: str,
    values: Sequence[SettingValue],
    paint: Paint = unpainted,
    width: int | None = None,
) -> list[str]:
    """Returns a table with a line for each setting, and its effect below it.

    ``width``: of a line at most, None for any.
    """
    title = _title_with_version(ccl, version)
    if not values:
        return [f"{title} has no known settings."]
    present = [one for one in values if not one.absence]
    absent = [one for one in values if one.absence]
    changed = sum(one.source != DEFAULT for one in present)
    lines = [f"{title}: {len(present)} settings, {changed} of them changed", ""]
    looks: list[Look] = [
        (row, 1, "look") for row, one in enumerate(present) if one.source != DEFAULT
    ]
    rows = [*map(_row, present)]
    table = Table("", (*_HEAD, "effect"), rows, "<" * 7, is_last_below=True, looks=looks)
    heads, below = table_lines(table, paint, width)
    lines += [*(paint(head, "bold") for head in heads), *below]
    if absent:
        lines += ["", "Not in this library"]
        reasons = by_key((one.absence, one.setting.name) for one in absent)
        for reason, names in reasons.items():
            lines += _wrapped(f"{plain(reason)}: {', '.join(names)}")
    return lines


def settings_json(ccl: str, version: str, values: Sequence[SettingValue]) -> str:
    """Returns the settings with all their fields, as JSON."""
    document = {
        "library": ccl,
        "version": version,
        "settings": [
            {
                **msgspec.to_builtins(one.setting),
                "value": one.value,
                "source": one.source,
                "absence": one.absence,
            }
            for one in values
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _row(value: SettingValue) -> tuple[str, ...]:
    setting = value.setting
    text = plain(value.value)
    if len(text) > _LONGEST_VALUE:
        text = f"{text[: _LONGEST_VALUE - 1]}…"
    return (
        setting.name,
        text or "not set",
        plain(value.source),
        _SCOPES[setting.scope],
        ", ".join(setting.costs) or "-",
        ", ".join(setting.deployed_by) or "unknown",
        _explained(setting),
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _EXPLANATION_COLUMNS,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _explained(setting: LibrarySetting) -> str:
    """The effect, the allowed values and the limits."""
    words = [setting.effect]
    if allowed := allowed_values(setting):
        words.append(f"Values: {allowed}.")
    if setting.operations:
        words.append(f"For {', '.join(setting.operations)}.")
    if setting.between_hosts:
        words.append("Between hosts.")
    for name, values in setting.requires.items():
        words.append(f"Requires {name}={values[0]}.")
    return " ".join(words)


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
            f"{line}\n" for line in settings_lines(ccl, version, values, to.view.paint, to.columns)
        ],
    )


def _values(ccl: str, ccl_path: str) -> tuple[str, list[SettingValue]]:
    """The version of the library on this machine, empty if unknown, and its settings."""
    with libraries_on_standard_error():
        found = find_library(ccl, ccl_path)
        read = read_mpi() if ccl == MPI and found.version else None
    if found.reason:
        first = found.reason.splitlines()[0].rstrip(".")
        notice(f"{first}: its version is unknown, and so is which settings it has")
    values, notices = effective_values(ccl, found.version, os.environ, read)
    for text in notices:
        notice(text)
    return found.version, values


def _library_of(flags: SettingsFlags) -> str:
    """The library of ``--ccl``, else the default of this machine's devices. Raises UsageError."""
    runtime, unusable = "host", ""
    try:
        runtime = choose_devices(NamedDevices(), None, count_devices).runtime
    except MissingError as error:
        unusable = str(error).splitlines()[0]
    if not flags.ccl:
        if unusable:
            notice(f"{unusable} The settings of the host's library follow; --ccl names another")
        ccl = default_library(runtime)
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
