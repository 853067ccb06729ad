"""Which values a setting can have, in a version of the library and with an environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cclmark.base.errors import UsageError
from cclmark.work.library_fields import find_version, parse_version
from cclmark.work.setting_fields import IMPLEMENTATIONS, LibrarySetting
from cclmark.work.sizes import parse_size


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
