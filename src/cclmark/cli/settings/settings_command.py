"""``cclmark settings``: the settings of a library with their effective values."""

from __future__ import annotations

import click

from cclmark.cli.options import command
from cclmark.cli.settings.settings_options import SettingsFlags


def settings_command(name: str) -> click.Command:
    """Returns the command."""
    return command(
        name,
        "The settings of a library: values in effect, origin, when they take effect, costs.",
        SettingsFlags,
        _list,
    )


def _list(flags: SettingsFlags) -> None:
    from cclmark.cli.settings.setting_listing import list_settings

    list_settings(flags)
