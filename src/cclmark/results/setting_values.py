"""The effective values of a library's settings."""

from __future__ import annotations

import msgspec

from cclmark.plan.setting_fields import LibrarySetting

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
