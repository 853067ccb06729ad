"""The settings of a library and their possible values, as in its file: work.setting_fields."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

import msgspec

from cclmark.work.libraries import (
    MPI,
    all_libraries,
    library_called,
    listed_settings,
    title_of,
    torch_backend_of,
)
from cclmark.work.library_files import ConfigurationFiles
from cclmark.work.setting_checks import absence_of, allowed_values, check_value, is_kept, number_of
from cclmark.work.setting_fields import LibrarySetting
from cclmark.work.variants import OPTION

__all__ = [
    "LibrarySetting",
    "absence_of",
    "algorithm_settings",
    "allowed_values",
    "check_combination",
    "check_value",
    "configuration_files_of",
    "find_setting",
    "foreign_setting",
    "inactive_on_one_host",
    "is_kept",
    "is_listed",
    "missing_requirements",
    "number_of",
    "options_of",
    "requires_new_processes",
    "settings_of",
    "unknown_option",
    "unknown_setting_notice",
    "unknown_setting_refusal",
    "unlisted_setting",
    "variable_of_option",
]

_ANY_VERSION = "0.0"
_CLOSE = 0.85
_BUILT_IN = "shm"  # a shape


def settings_of(ccl: str) -> list[LibrarySetting]:
    """The settings of a library, in the order of its file, then those that it inherits.

    A setting of the file that replaces an inherited one takes its place.
    A backend of torch has the settings of the library with its name; torch reports the version of
    NCCL only. Empty for an unknown library.
    """
    called = _called(ccl)
    if called not in (ccl, "nccl"):
        return [_of_any_version(setting) for setting in settings_of(called)]
    library = library_called(called)
    if library is None:
        return []
    inherited = settings_of(library.inherits.settings_of) if library.inherits.settings_of else []
    if not library.inherits.same_versions:
        inherited = [_of_any_version(setting) for setting in inherited]
    own = {setting.name: setting for setting in listed_settings(library)}
    below = [own.pop(setting.name, setting) for setting in inherited]
    return [*own.values(), *below]


def find_setting(ccl: str, name: str) -> LibrarySetting | None:
    """A setting by its variable, or its option such as ``config.minCTAs``; None if unknown."""
    known = options_of(ccl) if name.startswith(OPTION) else settings_of(ccl)
    return next((one for one in known if one.name == name), None)


def options_of(ccl: str) -> list[LibrarySetting]:
    """The options of a communicator that the engine can give to the library, as ``config.NAME``.

    They are the settings with an ``option``, of libraries with NCCL's interface. Backends of torch
    have none: their communicators are created by torch.
    """
    library = library_called(ccl)
    if library is None or library.shape != "nccl":
        return []
    settings = [one for one in settings_of(ccl) if one.option]
    names = {one.name: OPTION + one.option for one in settings}
    return [
        msgspec.structs.replace(
            one,
            name=names[one.name],
            values=one.option_values or one.values,
            value_since={},
            scope="communicator",
            deployed_by=["communicator option"],
            conflicts=[],
            kept_values=[],
            at_least_of=names.get(one.at_least_of, ""),
            at_most_of=names.get(one.at_most_of, ""),
        )
        for one in settings
    ]


def variable_of_option(ccl: str, name: str) -> str:
    """The environment variable that the library reads instead of an option, empty for none."""
    return next(
        (one.name for one in settings_of(ccl) if one.option and OPTION + one.option == name), ""
    )


def unknown_option(ccl: str, name: str) -> str:
    """The reason why the engine cannot give the library such an option; empty if it can."""
    known = [one.name for one in options_of(ccl)]
    if name in known:
        return ""
    if torch_backend_of(ccl) is not None:
        return f"{name}: torch creates the communicators of {ccl}: a program sets its pg_options"
    if not known:
        return f"{name}: {title_of(ccl)} has no options of a communicator that are known"
    return (
        f"{name} is not a known option of a communicator of {title_of(ccl)}: choose from "
        f"{', '.join(known)}"
    )


def configuration_files_of(ccl: str) -> list[ConfigurationFiles]:
    """The configuration files that the library reads, those with the higher priority first."""
    library = library_called(_called(ccl))
    if library is None:
        return []
    own = [library.configuration] if library.configuration != ConfigurationFiles() else []
    return own + (
        configuration_files_of(library.inherits.settings_of) if library.inherits.loads else []
    )


def algorithm_settings(ccl: str, operation: str) -> list[LibrarySetting]:
    """The settings that select the library's algorithm or protocol for an operation."""
    return [
        setting
        for setting in settings_of(ccl)
        if setting.selects_algorithm and (not setting.operations or operation in setting.operations)
    ]


def check_combination(
    ccl: str, values: Mapping[str, str], version: str, environment: Mapping[str, str]
) -> None:
    """Raises UsageError for values that are impossible together, or one that is by itself.

    ``values``: the settings' values by name; variables that are not settings of the library are
    not checked. The other arguments are those of check_value.
    """
    for name, value in values.items():
        if (setting := find_setting(ccl, name)) is not None:
            others = {other: text for other, text in values.items() if other != name}
            check_value(setting, value, version, {**environment, **others})


def missing_requirements(setting: LibrarySetting, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that have to be set for the setting to have an effect, with their values."""
    return {
        name: values[0] for name, values in setting.requires.items() if not environment.get(name)
    }


def inactive_on_one_host(ccl: str, name: str, given: Mapping[str, Collection[str]]) -> str:
    """The reason why a setting has no effect on ranks of one host; empty if it may have one.

    ``given``: the values that variables have or may have in the same run.
    """
    setting = find_setting(ccl, name)
    if setting is None or not setting.between_hosts:
        return ""
    within = {one.name: one.network_within_host for one in settings_of(ccl)}
    if any(set(given.get(other, ())) & set(values) for other, values in within.items()):
        return ""
    needed = [f"{other}={values[0]}" for other, values in within.items() if values]
    unless = f", unless {' or '.join(needed)} is set" if needed else ""
    return f"it has an effect between hosts only{unless}"


def check_overrides(variables: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raises UsageError if variables replace a value that is never overridden, or choose what it
    excludes. The rules are NCCL's, which may work below any library.

    ``environment``: as it is without them.
    """
    for name, value in variables.items():
        setting = find_setting("nccl", name)
        if setting is not None and (setting.kept_values or setting.conflicts):
            check_value(setting, value, "", environment)


def requires_new_processes(ccl: str, name: str) -> bool:
    """Whether ranks have to be started with the variable: also if that is unknown.

    A communicator of MPI and of a backend of torch is created once in a process.
    """
    if ccl == MPI or torch_backend_of(ccl) is not None:
        return True
    setting = find_setting(ccl, name)
    return setting is None or setting.scope not in ("call", "communicator")


def unknown_setting_notice(ccl: str, name: str) -> str:
    """A notice about a variable that is not among the library's settings; empty if it is."""
    return _unknown_setting(ccl, name, "its values are not checked")


def is_listed(name: str) -> bool:
    """Whether the file of any library lists the variable."""
    return any(
        setting.name == name
        for library in all_libraries().values()
        for setting in listed_settings(library)
    )


def unlisted_setting(ccl: str, name: str) -> str:
    """Why a variable that no library's file lists is refused, with the nearest known name.

    ``ccl``: the measured library, whose names are suggested first. Empty for a listed variable.
    """
    if is_listed(name):
        return ""
    own = [setting.name for setting in settings_of(ccl)]
    every = [one.name for library in all_libraries().values() for one in listed_settings(library)]
    close = next(
        (
            found[0]
            for names in (own, every)
            if (found := difflib.get_close_matches(name, names, 1))
        ),
        "",
    )
    suggestion = f": did you mean {close}?" if close else "."
    return f"{name} is not a setting of any library that cclmark knows{suggestion}"


def foreign_setting(ccl: str, name: str) -> str:
    """The reason why a variable of other libraries cannot have an effect; empty if it may have one.

    Only the built-in library is certain to read its own variables alone: other libraries may work
    below any library that is loaded from a file.
    """
    library = library_called(ccl)
    if library is None or library.shape != _BUILT_IN or find_setting(ccl, name) is not None:
        return ""
    owners = [
        title_of(other.name)
        for other in all_libraries().values()
        if any(setting.name == name for setting in listed_settings(other))
    ]
    if not owners:
        return ""
    return f"{name} is a setting of {' and '.join(owners)}: {title_of(ccl)} does not read it"


def unknown_setting_refusal(ccl: str, name: str) -> str:
    """The reason why such a variable is refused; empty if it is among the settings."""
    return _unknown_setting(ccl, name, f"cclmark settings --ccl {ccl} lists them")


def _unknown_setting(ccl: str, name: str, consequence: str) -> str:
    names = [setting.name for setting in settings_of(ccl)]
    if name in names:
        return ""
    text = f"{name} is not a known setting of {title_of(ccl)}: {consequence}"
    close = difflib.get_close_matches(name, names, n=1, cutoff=_CLOSE)
    return f"{text}; did you mean {close[0]}?" if close else text


def _called(ccl: str) -> str:
    return ccl.removeprefix("torch:")


def _of_any_version(setting: LibrarySetting) -> LibrarySetting:
    """The setting without what depends on the version."""
    return msgspec.structs.replace(
        setting,
        since="",
        until="",
        value_since={},
        maximum_before={},
        per_operation_since=setting.per_operation_since and _ANY_VERSION,
    )
