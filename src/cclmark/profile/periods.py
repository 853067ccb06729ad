"""The period of a sequence of calls: the calls of one step of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_CALLS = 100_000  # that are searched, from each end
_LEAST_REPEATS = 3
_LEAST_CALLS = 2  # of a period: one call again and again shows no step
_LEAST_SHARE = 4  # the repetitions must be at least so large a part of what is searched


@dataclass(frozen=True)
class Period:
    """``repeats`` steps of ``calls`` calls each, the first of which is call number ``begin``."""

    begin: int
    calls: int
    repeats: int


def period_of(sequence: Sequence[int]) -> Period | None:
    """Finds the longest part of a sequence that repeats; None if it repeats too rarely.

    A program may end, and begin, with calls outside of its loop. So the search ends at several
    places; each one finds the smallest period of the longest part before its end, from the failure
    function of Knuth, Morris and Pratt.
    """
    best: Period | None = None
    length = len(sequence)
    for end in dict.fromkeys((length, length - 1, length - length // 8, length - length // 2)):
        found = _before(sequence, end)
        if found is not None and (best is None or _span(found) > _span(best)):
            best = found
    return best


def _span(period: Period) -> int:
    return period.calls * period.repeats


def _before(sequence: Sequence[int], end: int) -> Period | None:
    part = [*reversed(sequence[max(0, end - _MOST_CALLS) : end])]
    failures = [0] * len(part)
    best_length, best_period = 0, 0
    for place in range(1, len(part)):
        matched = failures[place - 1]
        while matched and part[place] != part[matched]:
            matched = failures[matched - 1]
        if part[place] == part[matched]:
            matched += 1
        failures[place] = matched
        period = place + 1 - matched
        if place + 1 >= _LEAST_REPEATS * period:
            best_length, best_period = place + 1, period
    if best_length * _LEAST_SHARE < len(part) or best_period < _LEAST_CALLS:
        return None
    return _extended(sequence, end - best_length, end, best_period)


def _extended(sequence: Sequence[int], begin: int, end: int, period: int) -> Period:
    """The longest part around another one with the same period, from its first whole repetition."""
    while begin > 0 and sequence[begin - 1] == sequence[begin - 1 + period]:
        begin -= 1
    while end < len(sequence) and sequence[end] == sequence[end - period]:
        end += 1
    return Period(begin, period, (end - begin) // period)
