"""The settings of a library, as in its file (work.setting_fields), and the values that they allow.

Which values depends on the version of the library and on the environment.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.libraries import (
    MPI,
    all_libraries,
    library_called,
    listed_settings,
    title_of,
    torch_backend_of,
)
from cclmark.work.library_fields import find_version, parse_version
from cclmark.work.library_files import ConfigurationFiles
from cclmark.work.setting_fields import IMPLEMENTATIONS, LibrarySetting
from cclmark.work.sizes import parse_size
from cclmark.work.variants import OPTION

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


def number_set(environment: Mapping[str, str], ccl: str, name: str) -> tuple[int, bool]:
    """The number of a known setting, and whether it is set; else its default."""
    text = environment.get(name, "").strip()
    if text.isascii() and text.isdecimal() and 0 < int(text[:18]) < 1 << 50:
        return int(text), True
    setting = find_setting(ccl, name)
    assert setting is not None
    return int(setting.default), False


def options_of(ccl: str) -> list[LibrarySetting]:
    """The options of a communicator that the engine can give to the library, as ``config.NAME``.

    They are the settings with an ``option``, of libraries with NCCL's interface. Of the backends of
    torch, which creates their communicators, nccl alone has them.
    """
    library = library_called("nccl" if ccl == "torch:nccl" else ccl)
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
    if not known and torch_backend_of(ccl) is not None:
        return f"{name}: torch gives options to communicators of torch:nccl only, not of {ccl}"
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
    close = [one for names in (own, every) for one in difflib.get_close_matches(name, names, 1)]
    suggestion = f": did you mean {close[0]}?" if close else "."
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


@dataclass(frozen=True)
class ListPart:
    """A list for one operation, or for all if ``function`` is empty: the allowed words.

    ``excluded``: all words but these are allowed. Everything is in small letters.
    """

    function: str
    excluded: bool
    words: tuple[str, ...]


def parse_list(value: str) -> list[ListPart] | None:
    """The parts of a value; None for what NCCL rejects: nothing, or a list for all not at first."""
    parts = []
    for place, entry in enumerate(part for part in value.lower().split(";") if part):
        named, colon, listed = entry.partition(":")
        if not colon:
            if place:
                return None
            named, listed = "", named
        words = (word.strip() for word in listed.removeprefix("^").split(","))
        found = tuple(word for word in words if word)
        if not found or (colon and not named.strip()):
            return None
        parts.append(ListPart(named.strip(), listed.startswith("^"), found))
    return parts


def allows(value: str, operation: str, word: str) -> bool | None:
    """Whether a value allows ``operation`` to use ``word``, written in small letters.

    None if the value does not contain the operation, and if NCCL would reject it.
    """
    allowed: bool | None = None
    for part in parse_list(value) or ():
        if part.function in ("", function_of(operation)):
            allowed = (word in part.words) != part.excluded
    return allowed


def function_of(operation: str) -> str:
    """The name of an operation in a list: ``allreduce``."""
    return operation.replace("_", "")


_NUMBER = re.compile(r"\s*[-+]?(?:0[xX][0-9a-fA-F]+|\d+)\s*", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_SIZE_RANGE = re.compile(r"(?:\d{1,19})-(?:\d{1,19}|max)", re.ASCII)


def check_value(
    setting: LibrarySetting,
    value: str,
    version: str,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Raises UsageError for a value that the setting cannot have.

    ``version``: the library's own text about its version; empty if it is unknown, then all versions
    are possible. ``environment``: the variables with which the value would be used.
    """
    _Check(setting, value, version, environment or {}).run()


def invalid_values(ccl: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Why values that the environment has of the library's variables have no effect.

    Of words alone: libraries accept more numbers than are useful, and round them to valid ones.
    """
    for setting in settings_of(ccl):
        value = environment.get(setting.name, "")
        if value and not _NUMBER.fullmatch(value):
            try:
                check_value(setting, value, "", environment)
            except UsageError as error:
                yield str(error)


def number_of(setting: LibrarySetting, text: str) -> int | None:
    """The number that a text means as the value of an integer or a size, None for none."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if not setting.suffixes:
        return None
    try:
        return parse_size(text)
    except UsageError:
        return None


def is_kept(setting: LibrarySetting, environment: Mapping[str, str]) -> bool:
    """Whether the environment has a value of the setting that cclmark never overrides."""
    inherited = environment.get(setting.name, "")
    return any(_same(inherited, kept) for kept in setting.kept_values)


def absence_of(setting: LibrarySetting, version: str) -> str:
    """Why a library with this version does not have the setting; empty if it has, and if unknown.

    ``version``: the library's own text about its version.
    """
    others = [name for name in IMPLEMENTATIONS if name != setting.implementation]
    lower = version.lower()
    if setting.implementation and setting.implementation.lower() not in lower:
        for other in others:
            if other.lower() in lower:
                return f"a setting of {setting.implementation}, this library is {other}"
    encoded, own = find_version(version)
    if not own:
        return ""
    if encoded < parse_version(setting.since):
        return f"since {setting.since}, this library is {own}"
    if setting.until and encoded >= parse_version(setting.until):
        return f"until {setting.until}, this library is {own}"
    return ""


def allowed_values(setting: LibrarySetting, version: str = "") -> str:
    """The values that the setting can have, in words; empty for any text."""
    if setting.form == "choice":
        words = ", ".join(setting.values)
        words += f", or 0 to {len(setting.values) - 1} for them" if setting.numbered else ""
        return words + ("; for sizes WORD:0-8192;WORD:8193-max" if setting.by_size else "")
    if setting.form == "list":
        words = f"{', '.join(setting.values)}, with commas; ^ before the list excludes them"
        if setting.per_operation_since:
            words += f"; {_functions(setting)[0]}:LIST after ; for one operation"
        return words
    if setting.form == "text":
        return ""
    return _range(setting, version)


def _visible(value: str) -> str:
    """The value, in quotes if it is empty or contains spaces."""
    return f"'{value}'" if not value or value.split() != [value] else value


@dataclass(frozen=True)
class _Check:
    """The check of one value. See check_value."""

    setting: LibrarySetting
    value: str
    version: str
    environment: Mapping[str, str]

    def run(self) -> None:
        if absence := absence_of(self.setting, self.version):
            raise self._refused(absence)
        if not self.value or not self.value.isprintable() or self.value != self.value.strip():
            allowed = allowed_values(self.setting, self.version)
            raise self._refused(
                "not a value: write printable characters, and no space around them"
                + (f": choose {allowed}" if allowed else "")
            )
        if self.setting.form == "choice":
            self._check_choice()
        elif self.setting.form == "list":
            self._check_list()
        elif self.setting.form in ("integer", "size"):
            self._check_number()
        self._check_environment()

    def _refused(self, reason: str) -> UsageError:
        return UsageError(f"{self.setting.name}={_visible(self.value)}: {reason}")

    def _check_choice(self) -> None:
        if not self.setting.by_size:
            self._check_word(self.value)
            return
        for part in self.value.split(";"):
            word, colon, sizes = part.partition(":")
            self._check_word(word)
            if colon and not _SIZE_RANGE.fullmatch(sizes):
                raise self._refused(f"{sizes!r} is not a range of sizes: write 0-8192 or 8193-max")

    def _check_word(self, word: str) -> str:
        """The word as in the setting's values."""
        setting = self.setting
        known = {one.lower() if setting.any_case else one: one for one in setting.values}
        found = known.get(word.lower() if setting.any_case else word)
        if found is None and setting.numbered and word.isascii() and word.isdecimal():
            found = dict(enumerate(setting.values)).get(int(word[:6]))
        if found is None:
            raise self._refused(f"unknown value {word!r}: choose from {allowed_values(setting)}")
        since = setting.value_since.get(found, "")
        encoded, own = find_version(self.version)
        if own and encoded < parse_version(since):
            raise self._refused(f"{found} since {since}, this library is {own}")
        return found

    def _check_number(self) -> None:
        allowed = _range(self.setting, self.version)
        number = number_of(self.setting, self.value)
        if number is None:
            what = "a size" if self.setting.suffixes else "an integer"
            raise self._refused(f"not {what}: choose {allowed}")
        least = 0 if self.setting.form == "size" else None
        least = self.setting.minimum if self.setting.minimum is not None else least
        most = _maximum(self.setting, self.version)
        if (least is not None and number < least) or (most is not None and number > most):
            raise self._refused(f"out of range: choose {allowed}{self._newer_maximum()}")

    def _newer_maximum(self) -> str:
        """The note that newer versions have a larger maximum, empty if this one has it."""
        encoded, own = find_version(self.version)
        newer = [one for one in self.setting.maximum_before if encoded < parse_version(one)]
        if not own or not newer:
            return ""
        return f" (to {self.setting.maximum} since {newer[-1]}, this library is {own})"

    def _check_list(self) -> None:
        setting = self.setting
        parts = parse_list(self.value)
        if parts is None or not parts or " " in self.value:
            raise self._refused(f"not a list: choose from {allowed_values(setting)}")
        encoded, own = find_version(self.version)
        for part in parts:
            if part.function and not setting.per_operation_since:
                raise self._refused("lists for single operations are not supported")
            if part.function and own and encoded < parse_version(setting.per_operation_since):
                raise self._refused(
                    f"lists for single operations since {setting.per_operation_since}, this "
                    f"library is {own}"
                )
            if part.function and part.function not in _functions(setting):
                known = ", ".join(_functions(setting))
                raise self._refused(f"unknown operation {part.function!r}: choose from {known}")
            for word in part.words:
                self._check_word(word)

    def _check_environment(self) -> None:
        setting = self.setting
        inherited = self.environment.get(setting.name, "")
        if is_kept(setting, self.environment) and not _same(inherited, self.value):
            raise self._refused(
                f"the environment has {setting.name}={inherited}, which is not overridden"
            )
        chosen = self._chosen_words()
        for conflict in setting.conflicts:
            words = [word for word in conflict.values if word.lower() in chosen]
            if words and _same(self.environment.get(conflict.variable, ""), conflict.set_to):
                raise self._refused(
                    f"{' and '.join(words)} cannot be used while {conflict.variable}="
                    f"{conflict.set_to} is set"
                )
        self._check_limits()
        for name, values in setting.requires.items():
            found = self.environment.get(name, "")
            if found and found not in values:
                raise self._refused(
                    f"no effect while {name}={found} is set: it requires {name}={values[0]}"
                )

    def _check_limits(self) -> None:
        """Compares the value with those of other settings in the environment."""
        setting = self.setting
        least = self._other(setting.at_least_of)
        if least is not None and int(self.value) < least:
            raise self._refused(f"below {setting.at_least_of}={least}")
        most = self._other(setting.at_most_of)
        if most is not None and int(self.value) > most:
            raise self._refused(f"above {setting.at_most_of}={most}")
        if setting.product is not None:
            factor = self._other(setting.product.variable)
            if factor is not None and int(self.value) * factor > setting.product.maximum:
                raise self._refused(
                    f"times {setting.product.variable}={factor} it exceeds "
                    f"{setting.product.maximum}"
                )

    def _other(self, name: str) -> int | None:
        """The number that another setting is set to; None if it is not set, and for no number."""
        text = self.environment.get(name, "")
        return int(text) if _INTEGER.fullmatch(text) else None

    def _chosen_words(self) -> set[str]:
        """The words that the value selects, in small letters; not those that it excludes."""
        if self.setting.form != "list":
            return {self.value.lower()}
        parts = parse_list(self.value) or []
        return {word for part in parts if not part.excluded for word in part.words}


def _functions(setting: LibrarySetting) -> list[str]:
    return [function_of(operation) for operation in setting.operations]


def _maximum(setting: LibrarySetting, version: str) -> int | None:
    encoded, own = find_version(version)
    before = [
        limit for since, limit in setting.maximum_before.items() if encoded < parse_version(since)
    ]
    return min(before) if own and before else setting.maximum


def _range(setting: LibrarySetting, version: str) -> str:
    least = setting.minimum
    most = _maximum(setting, version)
    unit = "bytes" if setting.form == "size" else setting.unit
    what = f"an integer, in {unit}," if unit else "an integer"
    if setting.suffixes:
        what = "a size in bytes, also with K, M, G or T,"
    if setting.form == "size" and least is None:
        least = 0
    if least is not None and most is not None:
        return f"{what} from {least} to {most}"
    if least is not None:
        return f"{what} of at least {least}"
    return f"{what} of at most {most}" if most is not None else what.rstrip(",")


def _same(first: str, second: str) -> bool:
    """Whether two values are equal for a library that reads numbers: ``0``, ``00`` and ``0x0``."""
    if first == second:
        return True
    try:
        return int(first.strip(), 0) == int(second.strip(), 0)
    except ValueError:
        return False
