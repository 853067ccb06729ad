"""The rounds of an item: status, times with their interval, and the ratio to another item's rounds.

A round measures every variant once, so times are compared round by round, see paired.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from cclmark.analysis.paired import paired_ratio
from cclmark.analysis.ratio import LEAST_RUNS, RatioEstimate
from cclmark.analysis.statistics import median, median_interval

LEAST_COMPARED_ROUNDS = 2  # for a ratio


class OfRound(Protocol):
    """An item with the number of its round."""

    @property
    def round(self) -> int:
        """The number of the round, from 0 on."""


class RoundResult(Protocol):
    """The result of an item in one round."""

    status: str
    reason: str
    report: str

    @property
    def item(self) -> OfRound:
        """The measured item."""


R = TypeVar("R", bound=RoundResult)


class Rounds(Generic[R]):
    """The results of an item in all rounds.

    ``measured``: those with a time. ``times_s``: their times in seconds, each with its round: a
    search may measure an item several times in a round.
    """

    def __init__(self, results: Iterable[R], time_of: Callable[[R], float | None]) -> None:
        """``time_of``: the compared time of a result in seconds, None if it was not measured."""
        self.results = list(results)
        self.measured: list[R] = []
        self.times_s: list[tuple[int, float]] = []
        for one in self.results:
            time_s = time_of(one)
            if time_s is not None:
                self.measured.append(one)
                self.times_s.append((one.item.round, time_s))

    @property
    def failed(self) -> R | None:
        """The first round that is not ok."""
        return next((one for one in self.results if one.status != "ok"), None)

    @property
    def status(self) -> str:
        """The status of the first round that is not ok, otherwise ok."""
        return "ok" if self.failed is None else self.failed.status

    @property
    def reason(self) -> str:
        """Its reason: the message of the failed rank, which is the second line of a report."""
        if self.failed is None:
            return ""
        lines = self.failed.report.splitlines()
        return lines[1].strip() if len(lines) > 1 else self.failed.reason

    @property
    def time_s(self) -> float | None:
        """The median over the rounds, None without any."""
        return median([time_s for _, time_s in self.times_s]) if self.times_s else None

    def interval_s(self, samples_of: Callable[[R], Sequence[float]]) -> tuple[float, float] | None:
        """The 95 % interval of ``time_s``: from the times of the rounds, None with two.

        With one round, that of the median of its samples.
        """
        if len(self.measured) == 1:
            return median_interval(samples_of(self.measured[0]))
        times_s = [time_s for _, time_s in self.times_s]
        if len(times_s) < LEAST_RUNS or min(times_s) <= 0:
            return None
        found = paired_ratio([[math.log(one) for one in times_s]])
        return found.low, found.high

    def ratio_to(self, other: Rounds[R]) -> RatioEstimate | None:
        """See ratio_of_rounds."""
        return ratio_of_rounds(self.times_s, dict(other.times_s))


def ratio_of_rounds(
    times_s: Iterable[tuple[int, float]], others_s: Mapping[int, float]
) -> RatioEstimate | None:
    """The ratio of times, each with its round, to others by round; None with one such pair."""
    logs = [
        math.log(time_s / others_s[number])
        for number, time_s in times_s
        if time_s > 0 and others_s.get(number, 0.0) > 0
    ]
    return paired_ratio([logs]) if len(logs) >= LEAST_COMPARED_ROUNDS else None
