"""The effective values of a library's settings, and the configuration files that set them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cclmark.base.files import read_regular
from cclmark.work.library_files import ConfigurationFiles
from cclmark.work.setting_fields import LibrarySetting

_MOST_BYTES = 1 << 20


def read_configuration_files(
    configurations: Sequence[ConfigurationFiles], environment: Mapping[str, str]
) -> tuple[list[tuple[str, dict[str, str]]], list[str]]:
    """Returns the variables of each file that exists, and notices about unreadable ones.

    The first file has the highest priority.
    """
    found, notices = [], []
    for configuration in configurations:
        named = environment.get(configuration.variable, "") if configuration.variable else ""
        for path in (named or _expanded(configuration.user), configuration.system):
            if not path:
                continue
            try:
                content = read_regular(Path(path), _MOST_BYTES)
            except OSError as error:
                if path == named:
                    notices.append(f"{configuration.variable}={path}: {error.strerror}")
                elif not isinstance(error, FileNotFoundError):
                    notices.append(f"{path}: cannot read it: {error.strerror}")
                continue
            found.append((path, _variables(content)))
    return found, notices


def _variables(content: bytes) -> dict[str, str]:
    """The variables of a file as NCCL parses it: the first of equal names applies."""
    variables: dict[str, str] = {}
    for line in content.decode(errors="replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            variables.setdefault(name, value)
    return variables


def _expanded(path: str) -> str:
    """``path`` with the user's home directory, which NCCL takes from the password database."""
    if not path.startswith("~"):
        return path
    try:
        return pwd.getpwuid(os.getuid()).pw_dir + path[1:]
    except KeyError:
        return ""


#: Sources of values.
ENVIRONMENT, DEFAULT, LIBRARY = "environment", "default", "library"


class SettingValue(msgspec.Struct, frozen=True):
    """A setting and its value on this machine.

    ``value``: empty if it is not set and has no known default. ``source``: ENVIRONMENT, DEFAULT,
    the path of a configuration file, or LIBRARY, if the library itself reported another value.
    ``absence``: why the library on this machine does not have the setting; empty if it has.
    """

    setting: LibrarySetting
    value: str
    source: str
    absence: str = ""
