"""The version of a library on this machine, read by a separate process.

The first process starts ranks and loads no vendor library, which may start threads or open devices.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from cclmark.options.groups import CaseOptions
from cclmark.plan.libraries import library_called
from cclmark.plan.library_fields import parse_version
from cclmark.plan.library_settings import find_setting
from cclmark.plan.variants import OPTION

_TIMEOUT_S = 60.0


def version_for(names: Sequence[str], ccl: str, flags: CaseOptions) -> str:
    """Returns the version of the library ``ccl`` if variables with these names depend on it.

    Empty if they do not, if the library is not loaded from a file, and if it cannot be loaded: the
    ranks report why.
    """
    library = library_called(ccl)
    if library is None or not library.is_loaded:
        return ""
    oldest = parse_version(library.oldest_version)
    if any(_depends(ccl, name, oldest) for name in names):
        return _version_of(ccl, flags)
    return ""


def _depends(ccl: str, name: str, oldest: int) -> bool:
    """Whether the setting, or one of its values, is missing in some versions from ``oldest`` on."""
    setting = find_setting(ccl, name)
    if setting is None or name.startswith(OPTION):  # the ranks report options that are missing
        return False
    added = [one for one in (setting.since, *setting.value_since.values()) if one]
    return (
        bool(setting.until or setting.implementation or setting.maximum_before)
        or max(map(parse_version, added), default=0) > oldest
    )


def _version_of(ccl: str, flags: CaseOptions) -> str:
    command = [sys.executable, "-m", "cclmark", "settings", "--ccl", ccl, "--format", "json"]
    if flags.ccl_path:
        command += ["--ccl-path", flags.ccl_path]
    for file in flags.ccl_files:
        command += ["--ccl-file", file]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
        version = json.loads(done.stdout)["version"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return ""
    return version if isinstance(version, str) else ""
