"""The settings of a library that an environment can be tuned with, and their values.

What is tried follows from the library's file alone: the values of choices, and ladders of numbers
around their defaults. A setting that is not tried is listed with the reason. Libraries whose
settings hold for a whole process have an ``EnvironmentTarget``: one environment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from cclmark.errors import UsageError
from cclmark.kinds.tune.environment_search import Axis, EnvironmentSpace
from cclmark.plan.libraries import library_called, listed_settings
from cclmark.plan.library_settings import (
    LibrarySetting,
    absence_of,
    check_value,
    find_setting,
    inactive_on_one_host,
    missing_requirements,
    number_of,
    settings_of,
)

# Factors to the default of the values with which a search begins. Between and beyond them are all
# powers of two, to _REACH steps in both directions.
_FIRST_SIZES = (-4, -2, -1, 0, 1, 2, 4)
_FIRST_NUMBERS = (-2, -1, 0, 1, 2, 3)
_REACH = 8
_MOST_FIRST = 6  # values of a setting
# Of a size whose default is unknown or 0: smaller slices only cost time, larger ones are whole.
_LEAST_SIZE, _LARGEST_SIZE = 4 << 10, 1 << 30
_ENVIRONMENT = "environment"


@dataclass(frozen=True)
class EnvironmentCandidates:
    """``space``: what can be tried. ``refused``: settings that are not, with the reasons."""

    space: EnvironmentSpace
    refused: Mapping[str, str] = field(default_factory=dict)


def candidates_of(
    ccl: str,
    version: str,
    operations: Collection[str],
    environment: Mapping[str, str],
    *,
    only: Collection[str] = (),
) -> EnvironmentCandidates:
    """The candidates on one host.

    ``version``: the library's own text about its version. ``environment``: the variables that the
    user has set, which stay as they are. ``only``: the settings to try, all if it is empty; the
    value of one that is set counts as its default.
    """
    axes, refused = [], {}
    kept = {name: value for name, value in environment.items() if name not in only}
    for listed in settings_of(ccl):
        if only and listed.name not in only:
            continue
        value = environment.get(listed.name, listed.default)
        setting = msgspec.structs.replace(listed, default=value) if only else listed
        reason = _refusal(ccl, setting, version, operations, kept)
        words = _is_possible_alone(setting, version)
        axis = None if reason else axis_of(setting, words, listed.default)
        if axis is None:
            refused[setting.name] = reason or "without known values, or without a known default"
        else:
            axes.append(axis)
    possible = partial(_is_possible, ccl, version, dict(environment))
    return EnvironmentCandidates(EnvironmentSpace(axes, possible), refused)


def axis_of(
    setting: LibrarySetting, allowed: Sequence[str] | None = None, around: str = ""
) -> Axis | None:
    """The values of a setting, None if they are unknown or there is nothing to choose.

    ``allowed``: the words of a choice or list that may be tried, None for all. ``around``: the
    number around which to search if the default of ``setting`` is not positive.
    """
    if setting.form in ("choice", "list"):
        values = [word for word in setting.values if allowed is None or word in allowed]
        return _axis(setting, values, range(len(values)), is_ordered=False)
    if setting.form not in ("integer", "size"):
        return None
    numbers, first = _ladder(setting, around)
    return _axis(setting, [str(one) for one in numbers], first, is_ordered=True)


def _axis(
    setting: LibrarySetting, values: Sequence[str], first: Sequence[int], *, is_ordered: bool
) -> Axis | None:
    usual = next((at for at, one in enumerate(values) if _is_default(setting, one)), None)
    first = [at for at in first if at != usual]
    return Axis(setting.name, values, first, usual, is_ordered) if first else None


def _is_default(setting: LibrarySetting, value: str) -> bool:
    if setting.any_case:
        return value.lower() == setting.default.lower()
    if setting.form in ("choice", "list"):
        return value == setting.default
    return value == str(number_of(setting, setting.default))


def _ladder(setting: LibrarySetting, around: str) -> tuple[list[int], list[int]]:
    """All values of a number in ascending order, and the places of those to begin with."""
    own, other = number_of(setting, setting.default), number_of(setting, around)
    default = own if other is None or (own is not None and own > 0) else other
    low = setting.minimum if setting.minimum is not None else 1
    high = setting.maximum
    if default is None or default <= 0:
        # The library chooses by itself, or does without: all powers of two that are useful.
        if default is None and high is None:
            return [], []
        begin = max(1, low)
        if setting.form == "size" and (high is None or high > _LEAST_SIZE):
            begin = max(begin, _LEAST_SIZE)
        last = high if high is not None else begin << _REACH
        if setting.form == "size":
            last = max(begin, min(last, _LARGEST_SIZE))
        numbers = [begin]
        while numbers[-1] * 2 <= last:
            numbers.append(numbers[-1] * 2)
        step = max(1, -(-len(numbers) // _MOST_FIRST))
        return numbers, list(range((len(numbers) - 1) % step, len(numbers), step))
    steps = range(-_REACH, _REACH + 1)
    found: dict[int, int] = {}
    for step in steps:
        number = default << step if step >= 0 else default >> -step
        if number >= max(1, low) and (high is None or number <= high):
            found.setdefault(number, step)
    numbers = sorted(found)
    begin_with = _FIRST_SIZES if setting.form == "size" else _FIRST_NUMBERS
    first = [at for at, number in enumerate(numbers) if found[number] in begin_with]
    return numbers, first


def _refusal(
    ccl: str,
    setting: LibrarySetting,
    version: str,
    operations: Collection[str],
    environment: Mapping[str, str],
) -> str:
    """The reason why a setting is not tried; empty if it is."""
    library = library_called(ccl)
    own = {one.name for one in listed_settings(library)} if library is not None else set()
    missing = missing_requirements(setting, environment)
    absence = absence_of(setting, version)
    given = {name: [value] for name, value in environment.items()}
    reasons = {
        "set in the environment already, where they stay as they are": setting.name in environment,
        setting.not_tuned: bool(setting.not_tuned),
        "which cclmark never sets": bool(setting.kept_values),
        absence: bool(absence),
        "which are no variables of the environment": _ENVIRONMENT not in setting.deployed_by,
        "with an effect between hosts only": bool(inactive_on_one_host(ccl, setting.name, given)),
        f"which affect {', '.join(setting.operations)} only": bool(setting.operations)
        and not set(setting.operations) & set(operations),
        "which are neither algorithm, protocol nor channels of the library below": (
            setting.name not in own and not setting.observed and "SMs" not in setting.costs
        ),
        f"which require {' '.join(f'{name}={one}' for name, one in missing.items())}": bool(
            missing
        ),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _is_possible_alone(setting: LibrarySetting, version: str) -> list[str]:
    """The words of a setting that may be tried.

    Words that depend on a setting that cclmark never overrides are not among them, whatever its
    value: NVLink multicast.
    """
    never = {
        word
        for conflict in setting.conflicts
        for word in conflict.values
        if (other := find_setting("nccl", conflict.variable)) is not None and other.kept_values
    }
    return [word for word in setting.values if word not in never and _fits(setting, word, version)]


def _fits(setting: LibrarySetting, value: str, version: str) -> bool:
    try:
        check_value(setting, value, version)
    except UsageError:
        return False
    return True


def _is_possible(
    ccl: str, version: str, environment: Mapping[str, str], values: Mapping[str, str]
) -> bool:
    """Whether the settings can have these values together, the others their defaults."""
    defaults = {one.name: one.default for one in settings_of(ccl) if one.default}
    together = {**defaults, **environment, **values}
    for name, value in values.items():
        setting = find_setting(ccl, name)
        assert setting is not None
        others = {other: text for other, text in together.items() if other != name}
        try:
            check_value(setting, value, version, others)
        except UsageError:
            return False
    return True


@dataclass(frozen=True)
class EnvironmentTarget:
    """``words``: what the environment is for: library, version, ranks, devices.

    ``kept``: variables of the library that the user has set: all measurements have them.
    ``replaced``: those of them whose other values are tried: what is tried is compared with them,
    not with the library's defaults.
    """

    words: str
    candidates: EnvironmentCandidates
    kept: Mapping[str, str]
    replaced: Mapping[str, str] = field(default_factory=dict)

    @property
    def comments(self) -> list[str]:
        """The conditions of the result, as lines of a comment."""
        found = [self.words]
        if self.kept:
            values = " ".join(f"{name}={value}" for name, value in self.kept.items())
            found.append(f"measured with {values}, which this file does not set")
        if self.replaced:
            values = " ".join(f"{name}={value}" for name, value in self.replaced.items())
            found.append(
                f"compared with {values} in the environment, not with the defaults of the library"
            )
        return found
