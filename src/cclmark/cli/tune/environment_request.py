"""What ``cclmark tune`` tries for a library whose settings hold for a whole process."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cclmark.errors import MissingError, UsageError
from cclmark.plan.libraries import title_of, torch_backend_of
from cclmark.plan.library_settings import (
    check_value,
    find_setting,
    settings_of,
    unknown_setting_refusal,
)
from cclmark.recording.trial_measuring import Measuring
from cclmark.tune.environment_candidates import candidates_of
from cclmark.tune.environment_target import EnvironmentTarget

_UNKNOWN_VERSION = ""


def named_settings(text: str) -> list[str]:
    """The names of ``--settings``."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def require_candidates(ccl: str, operations: Sequence[str], only: Sequence[str]) -> None:
    """Checks that tune can try values of at least one setting, and of all settings in ``only``.

    Raises UsageError for a setting that is unknown, has an impossible value in the environment or
    cannot be tried, MissingError if the library has no setting that can be tried.
    """
    for name in only:
        setting = find_setting(ccl, name)
        if setting is None:
            raise UsageError(f"--settings: {unknown_setting_refusal(ccl, name)}")
        if name in os.environ:  # the value with which the search begins
            check_value(setting, os.environ[name], _UNKNOWN_VERSION)
    found = candidates_of(ccl, _UNKNOWN_VERSION, operations, os.environ, only=only)
    title = title_of(ccl)
    for name in only:
        if name in found.refused:
            raise UsageError(
                f"--settings: tune tries no settings of {title} {found.refused[name]}: {name}"
            )
    if found.space.axes and torch_backend_of(ccl) is None:
        return
    if kept := [name for name in found.refused if name in os.environ]:
        raise UsageError(
            f"{', '.join(kept)}: set in the environment, and nothing else of {title} can be tuned: "
            "unset it, or name it with --settings"
        )
    raise MissingError(
        f"cclmark tune has nothing to try for {ccl}: the values of its settings are unknown, or "
        "none applies to these operations on one host: compare values with cclmark experiment "
        "(see cclmark settings)"
    )


def environment_of(
    ccl: str, ranks: int, operations: Sequence[str], only: Sequence[str], measuring: Measuring
) -> EnvironmentTarget:
    """The target, by what the ranks have reported."""
    version = measuring.library(ccl).version
    devices = " and ".join(measuring.device_names)
    names = {setting.name for setting in settings_of(ccl)} - set(only)
    replaced = {name: os.environ[name] for name in only if name in os.environ}
    return EnvironmentTarget(
        f"{ccl} {version}, {ranks} ranks on one host, {devices}",
        candidates_of(ccl, version, operations, os.environ, only=only),
        {name: value for name, value in os.environ.items() if name in names},
        replaced,
    )
