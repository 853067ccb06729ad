"""Trials: cases measured with the variants of an experiment, round after round."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.cases import Case, OfCase
from cclmark.work.counts import Count
from cclmark.work.items import Item, Value
from cclmark.work.sizes import parse_size
from cclmark.work.variants import Assignment, Variant

EXPERIMENT = "experiment"
TUNE = "tune"

SEARCH, PROOF = "search", "proof"


class Trial(msgspec.Struct, OfCase, frozen=True, omit_defaults=True):
    """One case with one variant in one round. ``case`` has the placement and library of it.

    ``stage``: the part of a tuning run (SEARCH or PROOF), empty in an experiment.
    """

    variant: Variant
    round: Count
    case: Case
    stage: str = ""

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """See work.items.Outlined."""
        return self.case, {"variant": [self.variant.describe()]}

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return TUNE if self.stage else EXPERIMENT

    def describe(self) -> str:
        """The trial in words, for messages."""
        return f"{self.case.describe()} with {self.variant.describe()} (round {self.round + 1})"

    def series(self) -> Trial:
        """The trial without round and size."""
        return Trial(self.variant, 0, self.case.series())


def trials_of(cases: Sequence[Case], variants: Sequence[Variant], rounds: int) -> list[Trial]:
    """All trials: rounds, in them variants, in them cases."""
    return [
        Trial(variant, number, variant.applied_to(case))
        for number in range(rounds)
        for variant in variants
        for case in cases
    ]


_REQUEST = re.compile(
    r"((?:config\.)?[A-Za-z_][A-Za-z0-9_]*)=([^:]+):([^:]+)(?::(?:[x×]([0-9]{1,9})|([^:]+)))?",
    re.ASCII,
)


_MOST_VALUES = 4096


_WRITE = (
    "write NAME=LOW:HIGH, for example NCCL_MAX_CTAS=1:64, or with a step or a factor, "
    "NAME=LOW:HIGH:STEP or NAME=LOW:HIGH:x2"
)


def parse_bisect(text: str) -> tuple[str, Sequence[int]]:
    """Parses ``NAME=LOW:HIGH``, ``:STEP`` or ``:xFACTOR`` to name and values. Raises UsageError."""
    found = _REQUEST.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r}: {_WRITE}")
    name = found[1]
    if not (Assignment(name, "").is_variable or Assignment(name, "").option):
        raise UsageError(
            f"{name}: it varies a variable or an option of the communicator with numeric "
            f"values: use --vary {name}=…, or --library for libraries"
        )
    return name, _values(text, found)


def _values(text: str, found: re.Match[str]) -> Sequence[int]:
    """The values of a request. Raises UsageError."""
    low, high = _number(text, found[2]), _number(text, found[3])
    if low >= high:
        raise UsageError(f"{text}: the first value must be below the last one")
    if found[4] is not None:
        factor = int(found[4])
        if factor < 2 or low < 1:
            raise UsageError(f"{text}: a factor of at least 2 requires a first value of 1 or more")
        powers = [low]
        while powers[-1] * factor <= high:
            powers.append(powers[-1] * factor)
        values: Sequence[int] = powers
    else:
        step = 1 if found[5] is None else _number(text, found[5])
        if step < 1:
            raise UsageError(f"{text}: the step must be at least 1")
        values = range(low, high + 1, step)
    if not 2 <= len(values) <= _MOST_VALUES:
        raise UsageError(
            f"{text}: {len(values)} values, but 2 to {_MOST_VALUES} can be searched: {_WRITE}"
        )
    return values


def _number(text: str, part: str) -> int:
    """A number that is not negative, also with K, M, G or T. Raises UsageError."""
    if part.isdecimal() and part.isascii() and not part.strip("0"):
        return 0
    try:
        return parse_size(part)
    except UsageError as error:
        raise UsageError(f"{text}: {part!r} is not a number: {_WRITE}") from error
