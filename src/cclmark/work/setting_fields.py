"""The settings in files that describe libraries: ``[[settings]]``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from cclmark.work.library_fields import (
    WrongFieldError,
    check_choice,
    check_line,
    check_version,
    shown,
)
from cclmark.work.operations import OPERATIONS

#: The forms of a value; see LibrarySetting.
FORMS = ("choice", "integer", "size", "list", "text")
#: When a changed value takes effect: for the next call, for a new communicator, in a new process.
SCOPES = ("call", "communicator", "process")
#: The ways in which a user can make a value permanent.
DEPLOYMENTS = (
    "tuner plug-in",
    "environment",
    "configuration file",
    "communicator option",
    "program change",
)
#: What more of a setting takes from the program.
COSTS = ("SMs", "device memory", "host memory", "host CPU")
#: What an explanation of an operation shows of a setting's value.
OBSERVATIONS = ("algorithm", "protocol", "channels", "channels at most")
#: The implementations that share the name ``mpi``.
IMPLEMENTATIONS = ("Open MPI", "MPICH")

_CHOSEN_FORMS = ("choice", "list")
_NUMBER_FORMS = ("integer", "size")
# Open MPI's variables have small letters after their prefix.
_NAME = re.compile(r"[A-Z][A-Z0-9_]*[a-z0-9_]*", re.ASCII)
_WORD = re.compile(r"[^\s,;]+")
_LARGEST = (1 << 63) - 1


class Restricts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Values that switch off or limit a feature of the library.

    ``words``: what they do, as the end of a sentence. ``values``: empty for any value.
    ``operations``: the affected operations, empty for all.
    """

    words: str
    values: list[str] = []
    operations: list[str] = []


class Conflict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Values that are impossible while ``variable`` is set to ``set_to`` in the environment."""

    values: list[str]
    variable: str
    set_to: str


class Product(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value times the value of another ``variable`` must not exceed ``maximum``."""

    variable: str
    maximum: int


class LibrarySetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A setting of a library: an environment variable. An empty field is not known.

    ``form``: ``choice``, one of ``values``; ``integer``, from ``minimum`` to ``maximum``; ``size``,
    the same in bytes; ``list``, some of ``values`` in NCCL's syntax, see work.library_settings;
    ``text``, anything.
    ``suffixes``: a size may be written as 256K or 1MiB.
    ``any_case``: small and capital letters are alike. ``numbered``: the place of a word in
    ``values``, from 0, is allowed too. ``by_size``: oneCCL's ``ring:0-8192;direct:8193-max``.
    ``since`` and ``until``: the first version with the setting and the first one without it.
    ``value_since``: the first version with a value. ``maximum_before``: the maximum of versions
    before one. ``per_operation_since``: the first version in which a list may have parts for
    single operations; empty: none.
    ``scope``: when a changed value takes effect. ``option``: the field of a communicator's
    configuration that does the same, with ``option_values`` if not all ``values`` are its values.
    ``operations``: empty for all.
    ``at_least_of`` and ``at_most_of``: the setting whose value is a limit of this one's.
    ``between_hosts``: it acts between hosts only. ``network_within_host``: the values with which
    ranks of one host may use the network too, so that such settings act there.
    ``requires``: variables without which it has no effect, with the values that it needs.
    ``observed``: what an explanation shows of the value, by which an experiment recognises that it
    took effect. ``kept_values``: values that cclmark never overrides if the environment has one of
    them. ``not_tuned``: the reason why ``cclmark tune`` does not try other values; empty: it does.
    """

    name: str
    effect: str
    form: str
    values: list[str] = []
    any_case: bool = False
    numbered: bool = False
    by_size: bool = False
    suffixes: bool = False
    minimum: int | None = None
    maximum: int | None = None
    unit: str = ""
    default: str = ""
    since: str = ""
    until: str = ""
    value_since: dict[str, str] = {}
    maximum_before: dict[str, int] = {}
    per_operation_since: str = ""
    scope: str = ""
    deployed_by: list[str] = []
    option: str = ""
    option_values: list[str] = []
    costs: list[str] = []
    operations: list[str] = []
    between_hosts: bool = False
    network_within_host: list[str] = []
    implementation: str = ""
    selects_algorithm: bool = False
    at_least_of: str = ""
    at_most_of: str = ""
    product: Product | None = None
    requires: dict[str, list[str]] = {}
    restricts: list[Restricts] = []
    conflicts: list[Conflict] = []
    kept_values: list[str] = []
    observed: str = ""
    not_tuned: str = ""


def check_settings(settings: Sequence[LibrarySetting]) -> None:
    """Raises WrongFieldError for the first field that is not valid."""
    for setting in settings:
        check_setting_name("settings.name", setting.name)
        _check_one(setting, f"settings.{setting.name}")
    [(name, count)] = Counter(one.name for one in settings).most_common(1) or [("", 0)]
    if count > 1:
        raise WrongFieldError("settings.name", f"{shown(name)} is listed {count} times", "once")


def check_setting_name(field: str, name: str) -> None:
    """Raises WrongFieldError for a text that is not the name of a setting."""
    if not _NAME.fullmatch(name) or len(name) > 100:
        raise WrongFieldError(
            field,
            f"{shown(name)} is not the name of a variable",
            "write capital letters, digits and _, for example NCCL_ALGO",
        )


def _check_one(setting: LibrarySetting, place: str) -> None:
    check_choice(f"{place}.form", setting.form, FORMS)
    for field in ("effect", "unit", "default", "option", "not_tuned"):
        check_line(f"{place}.{field}", getattr(setting, field))
    if not setting.effect:
        raise WrongFieldError(f"{place}.effect", "is empty", "write one sentence")
    if setting.observed:
        check_choice(f"{place}.observed", setting.observed, OBSERVATIONS)
    if setting.scope:
        check_choice(f"{place}.scope", setting.scope, SCOPES)
    if setting.implementation:
        check_choice(f"{place}.implementation", setting.implementation, IMPLEMENTATIONS)
    for field, known in (("deployed_by", DEPLOYMENTS), ("costs", COSTS)):
        for word in getattr(setting, field):
            check_choice(f"{place}.{field}", word, known)
    _check_operations(f"{place}.operations", setting.operations)
    _check_values(setting, place)
    _check_numbers(setting, place)
    _check_limiting(setting, place)
    _check_since(setting, place)
    _check_others(setting, place)


def _check_operations(field: str, operations: Sequence[str]) -> None:
    for operation in operations:
        check_choice(field, operation, list(OPERATIONS))


def _check_values(setting: LibrarySetting, place: str) -> None:
    chosen = setting.form in _CHOSEN_FORMS
    if chosen != bool(setting.values):
        wrong = "is empty" if chosen else f"has no meaning with form {setting.form!r}"
        raise WrongFieldError(
            f"{place}.values", wrong, "list the words of a choice or of a list, and of these only"
        )
    for word in setting.values:
        if not _WORD.fullmatch(word) or not word.isprintable():
            raise WrongFieldError(
                f"{place}.values", f"{shown(word)} is not a value", "write words without , and ;"
            )
    for field, form in (("numbered", "choice"), ("by_size", "choice"), ("suffixes", "size")):
        if getattr(setting, field):
            _require_form(setting, f"{place}.{field}", form)


def _require_form(setting: LibrarySetting, field: str, *forms: str) -> None:
    if setting.form not in forms:
        raise WrongFieldError(
            field,
            f"has no meaning with form {setting.form!r}",
            f"use {' or '.join(map(repr, forms))}",
        )


def _check_numbers(setting: LibrarySetting, place: str) -> None:
    limits = {
        "minimum": setting.minimum,
        "maximum": setting.maximum,
        **{f"maximum_before.{version}": it for version, it in setting.maximum_before.items()},
    }
    for field, limit in limits.items():
        if limit is None:
            continue
        _require_form(setting, f"{place}.{field}", *_NUMBER_FORMS)
        if not -_LARGEST <= limit <= _LARGEST:
            raise WrongFieldError(f"{place}.{field}", f"{limit} is too large", "write 64 bits")
    if None not in (setting.minimum, setting.maximum) and setting.minimum > setting.maximum:  # type: ignore[operator]
        raise WrongFieldError(
            f"{place}.maximum",
            f"{setting.maximum} is below the minimum",
            f"write at least {setting.minimum}",
        )


def _check_limiting(setting: LibrarySetting, place: str) -> None:
    limiting = {"at_least_of": setting.at_least_of, "at_most_of": setting.at_most_of}
    if setting.product is not None:
        limiting["product.variable"] = setting.product.variable
    for field, name in limiting.items():
        if not name and not field.startswith("product"):
            continue
        check_setting_name(f"{place}.{field}", name)
        _require_form(setting, f"{place}.{field}", *_NUMBER_FORMS)


def _check_since(setting: LibrarySetting, place: str) -> None:
    for field in ("since", "until", "per_operation_since"):
        check_version(f"{place}.{field}", getattr(setting, field))
    if setting.per_operation_since:
        _require_form(setting, f"{place}.per_operation_since", "list")
    for value, version in setting.value_since.items():
        check_choice(f"{place}.value_since", value, setting.values)
        check_version(f"{place}.value_since.{value}", version)
    for version in setting.maximum_before:
        check_version(f"{place}.maximum_before", version)


def _check_others(setting: LibrarySetting, place: str) -> None:
    _check_lines(f"{place}.kept_values", setting.kept_values)
    _check_lines(f"{place}.network_within_host", setting.network_within_host)
    for value in setting.option_values:
        check_choice(f"{place}.option_values", value, setting.values)
    for name, values in setting.requires.items():
        check_setting_name(f"{place}.requires", name)
        if not values:
            raise WrongFieldError(f"{place}.requires.{name}", "is empty", "list its values")
        _check_lines(f"{place}.requires.{name}", values)
    for restriction in setting.restricts:
        _check_lines(f"{place}.restricts.words", [restriction.words])
        _check_lines(f"{place}.restricts.values", restriction.values)
        _check_operations(f"{place}.restricts.operations", restriction.operations)
    for conflict in setting.conflicts:
        check_setting_name(f"{place}.conflicts.variable", conflict.variable)
        _check_lines(f"{place}.conflicts.set_to", [conflict.set_to])
        for value in conflict.values:
            check_choice(f"{place}.conflicts.values", value, setting.values)


def _check_lines(field: str, texts: Sequence[str]) -> None:
    for text in texts:
        check_line(field, text)
