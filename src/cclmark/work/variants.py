"""Variants: combinations of settings that are compared with the default, which has none."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.cases import Case
from cclmark.work.items import Item
from cclmark.work.libraries import MEMORY_KINDS

PROCESS, COMMUNICATOR = "process", "communicator"
#: Names that are no environment variables, with the values of the measuring commands' options.
REGISTRATION, MEMORY, PLACEMENT, LIBRARY = "registration", "memory", "placement", "library"
_VALUES = {
    REGISTRATION: ("none", "local", "symmetric"),
    MEMORY: MEMORY_KINDS,
    PLACEMENT: ("out-of-place", "in-place"),
}
#: Begins the name of an option of a communicator, followed by the name in its configuration.
OPTION = "config."
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OPTION = re.compile(rf"{re.escape(OPTION)}[A-Za-z][A-Za-z0-9]*", re.ASCII)
_MOST_VALUES = 64
MOST_VARIANTS = 256

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Scope: TypeAlias = str
else:
    Scope = Literal[PROCESS, COMMUNICATOR]


class Varied(Item, Protocol):
    """An item with a variant, measured in one of several rounds."""

    @property
    def variant(self) -> Variant:
        """The settings."""

    @property
    def round(self) -> int:
        """The number of the round, from 0 on."""


class Assignment(msgspec.Struct, frozen=True):
    """One setting and its value.

    ``name``: an environment variable, an option of the communicator (``config.minCTAs``), or
    ``registration``, ``memory``, ``placement`` or ``library`` (a name or a file). ``scope``:
    ``process`` if the ranks have to be started with it, ``communicator`` if it takes effect when a
    communicator is created, or buffers are.
    """

    name: str
    value: str
    scope: Scope = PROCESS

    @property
    def is_variable(self) -> bool:
        """Whether it is an environment variable."""
        return self.name not in (*_VALUES, LIBRARY) and not self.option

    @property
    def option(self) -> str:
        """The option of the communicator that it sets; empty for another setting."""
        return self.name.removeprefix(OPTION) if self.name.startswith(OPTION) else ""


class Variant(msgspec.Struct, frozen=True, omit_defaults=True):
    """A combination of settings. Without any it is the default.

    ``control``: the default once more, whose difference from the default is noise.
    """

    assignments: tuple[Assignment, ...] = ()
    control: bool = False

    @property
    def is_default(self) -> bool:
        """Whether it has no settings: the default, or the control."""
        return not self.assignments

    def describe(self) -> str:
        """The settings in words: ``NCCL_PROTO=LL NCCL_MAX_CTAS=8``."""
        if self.control:
            return "default again"
        return " ".join(f"{one.name}={one.value}" for one in self.assignments) or "default"

    def value_of(self, name: str) -> str:
        """The value of a setting, empty if the variant does not assign it."""
        return next((one.value for one in self.assignments if one.name == name), "")

    def variables(self, scope: str) -> dict[str, str]:
        """The environment variables of a scope."""
        return {
            one.name: one.value
            for one in self.assignments
            if one.is_variable and one.scope == scope
        }

    @property
    def options(self) -> dict[str, str]:
        """The options of the communicator, by the names of its configuration."""
        return {one.option: one.value for one in self.assignments if one.option}

    @property
    def process(self) -> tuple[Assignment, ...]:
        """The settings that ranks have to be started with: equal ones can share processes."""
        return tuple(one for one in self.assignments if one.scope == PROCESS)

    def applied_to(self, case: Case) -> Case:
        """The case with the placement and the library of the variant."""
        changes: dict[str, object] = {}
        if placement := self.value_of(PLACEMENT):
            changes["in_place"] = placement == "in-place"
        library = self.value_of(LIBRARY)
        if library and "/" not in library:
            changes["ccl"] = library
        return msgspec.structs.replace(case, **changes) if changes else case


DEFAULT, CONTROL = Variant(), Variant(control=True)


def parse_vary(text: str) -> tuple[str, list[str]]:
    """Parses ``NAME=VALUE,VALUE``, or with ``|`` for values with commas. Raises UsageError."""
    name, equals, listed = text.partition("=")
    name = name.strip()
    if not equals or not (_VARIABLE.fullmatch(name) or _OPTION.fullmatch(name)):
        raise UsageError(
            f"{text!r}: write NAME=VALUE,VALUE, for example NCCL_PROTO=LL,Simple or "
            f"{OPTION}minCTAs=8,16"
        )
    values = [one.strip() for one in listed.split("|" if "|" in listed else ",")]
    if not all(values):
        raise UsageError(f"{text!r}: a value is empty")
    if len(set(values)) < len(values):
        raise UsageError(f"{text!r}: a value occurs twice")
    if len(values) > _MOST_VALUES:
        raise UsageError(f"{name}: {len(values)} values; at most {_MOST_VALUES}")
    allowed = _VALUES.get(name, ())
    for value in values:
        if allowed and value not in allowed:
            raise UsageError(f"{name}: unknown value {value!r}: choose from {', '.join(allowed)}")
    return name, values


def variants_of(
    varied: Sequence[tuple[str, Sequence[str]]],
    scope_of: Callable[[str], str],
    *,
    one_at_a_time: bool = False,
) -> list[Variant]:
    """The variants of ``--vary`` options, without the default.

    All combinations, or with ``one_at_a_time`` each value alone. ``scope_of``: the scope of a
    setting by its name. Raises UsageError for a name given twice and for more than MOST_VARIANTS.
    """
    names = [name for name, _ in varied]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--vary {name} is given twice: write its values into one option")
    choices = [
        [Assignment(name, value, scope_of(name)) for value in values] for name, values in varied
    ]
    combined: Iterable[tuple[Assignment, ...]] = (
        ((one,) for choice in choices for one in choice)
        if one_at_a_time
        else itertools.product(*choices)
    )
    found = [Variant(one) for one in itertools.islice(combined, MOST_VARIANTS + 1) if one]
    if len(found) > MOST_VARIANTS:
        raise UsageError(
            f"more than {MOST_VARIANTS} combinations: vary fewer settings, or use --one-at-a-time"
        )
    return found
