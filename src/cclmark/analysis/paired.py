"""Ratios of times that were measured side by side, robust against outliers.

A round measures everything next to each other, so that the ratios of one round share its
conditions, and a slow drift cancels. Most ratios vary by less than 1 %, single ones by 200 %: means
are trimmed. Of the values of each size a fifth is discarded at both ends, and the uncertainty is
computed from the values in which the discarded ones are replaced by the nearest kept ones
(winsorized; Tukey and McLaughlin, Sankhya A 25, 1963; Yuen, Biometrika 61, 1974). For several sizes
the estimate is the mean of their trimmed means. The sizes of a round were measured by the same
processes, so their noise is not independent: the variance is that of the rounds' means (the linear
contrast of dependent groups in Wilcox, Introduction to Robust Estimation and Hypothesis Testing,
section 8.1).

``Rounds`` are the rounds of one item: status, times with their interval, and the ratio to another
item's rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from cclmark.analysis.ratio import LEAST_RUNS, RatioEstimate
from cclmark.base.statistics import median, median_interval, student_975

LEAST_ROUNDS = 7  # of a proof
LARGEST_CHANCE = 0.05  # an improvement has a probability of 95 % or more
_TRIMMED_SHARE = 0.2  # of the values, at each end
_LEAST_VALUES = 2
_MAD_TO_SIGMA = 1.4826  # for normally distributed values

DEFAULT = 0  # the variant without any setting
CONTROL = -1  # the default once more in the same round: its ratio to the default is noise

# The number of a variant, and the index of a size.
Cell = tuple[int, int]
# Seconds by cell; None if the variant failed there.
Times = Mapping[Cell, float | None]


@dataclass(frozen=True)
class Batch:
    """The cells of one round of a search, in the order in which to measure them.

    A search is a generator: it yields batches and receives their times. It measures nothing.
    """

    number: int
    cells: tuple[Cell, ...]


def order_of_round(variants: Iterable[int], number: int) -> list[int]:
    """The variants of a round in the order in which to measure them.

    The first one changes from round to round, as does the direction, so that what happens at the
    end of a round is not always the same variant's. The default comes first and its repetition
    (CONTROL) last, or the reverse.
    """
    ordered = sorted(variants)
    turn = number % max(1, len(ordered))
    order = [DEFAULT, *ordered[turn:], *ordered[:turn], CONTROL]
    return order[::-1] if number % 2 else order


def log_ratio(times: Times, cell: Cell, reference: Cell) -> float | None:
    """The logarithm of a time over that of ``reference`` in one round; None without both."""
    time_s, reference_s = times.get(cell), times.get(reference)
    if time_s is None or reference_s is None:
        return None
    return math.log(time_s / reference_s)


def log_ratios(rounds: Sequence[Times], cell: Cell, reference: Cell) -> list[float]:
    """The logarithms of the ratios to ``reference`` of all rounds that measured both."""
    found = (log_ratio(times, cell, reference) for times in rounds)
    return [one for one in found if one is not None]


def paired_ratio(sizes: Sequence[Sequence[float]]) -> RatioEstimate:
    """The trimmed mean of logarithms of ratios, over rounds and sizes.

    ``sizes``: for each size the logarithm of each round, the same rounds for all. Raises ValueError
    without sizes, with fewer than two rounds and for unequal numbers of rounds.
    """
    rounds = {len(values) for values in sizes}
    if len(rounds) != 1 or (count := rounds.pop()) < _LEAST_VALUES:
        raise ValueError("paired ratios need the same rounds of every size, two at least")
    trimmed = int(_TRIMMED_SHARE * count)
    kept = count - 2 * trimmed
    center = math.fsum(math.fsum(sorted(v)[trimmed : count - trimmed]) for v in sizes)
    center /= kept * len(sizes)
    clipped = [_winsorized(values, trimmed) for values in sizes]
    means = [math.fsum(column) / len(sizes) for column in zip(*clipped, strict=True)]
    middle = math.fsum(means) / count
    squares = math.fsum((one - middle) ** 2 for one in means)
    error = squares / (kept * (kept - 1))
    # A ratio has the noise of two runs.
    return RatioEstimate(center, math.sqrt(error), kept - 1, error * count / 2, count)


def _winsorized(values: Sequence[float], trimmed: int) -> list[float]:
    ordered = sorted(values)
    low, high = ordered[trimmed], ordered[-1 - trimmed]
    return [min(max(value, low), high) for value in values]


def at_least_as_uncertain(estimate: RatioEstimate, control: RatioEstimate) -> RatioEstimate:
    """The estimate with a deviation of at least that of ``control``.

    A few rounds may agree by chance, for example if all processes started on the same of two
    levels. That the default and its repetition agree by chance as well is much rarer.
    """
    return replace(estimate, deviation=max(estimate.deviation, control.deviation))


def noise_floor(control: RatioEstimate) -> float:
    """The largest logarithm of a ratio, of either sign, that the default has to itself.

    That is the end of the 95 % interval of ``control`` that is farther from equal times.
    """
    reach = 0.0 if control.freedom is None else student_975(control.freedom) * control.deviation
    return abs(control.difference) + reach


def chance_of_gain(estimate: RatioEstimate) -> float:
    """The probability that a variant that is no faster appears as fast as this one, or faster."""
    return estimate.chance / 2 if estimate.difference < 0 else 1 - estimate.chance / 2


def improves(
    estimate: RatioEstimate, control: RatioEstimate, largest_chance: float = LARGEST_CHANCE
) -> bool:
    """Whether a variant is faster than the default, beyond the noise floor.

    ``estimate``: the ratio of its time to the default's, ``control``: of the default to itself in
    the same rounds. 1 - ``largest_chance`` is the least probability of improvement.
    """
    certain = at_least_as_uncertain(estimate, control)
    return chance_of_gain(certain) <= largest_chance and -estimate.difference > noise_floor(control)


def typical(logs: Sequence[float]) -> float:
    """The mean of the values between the first quartile and the median."""
    kept = sorted(logs)[len(logs) // 4 : (len(logs) + 1) // 2]
    return math.fsum(kept) / len(kept)


def deviation_of(logs: Sequence[float]) -> float | None:
    """The standard deviation of ratios without a difference, not moved by outliers."""
    return _MAD_TO_SIGMA * median([abs(one) for one in logs]) if len(logs) > 1 else None


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
        """The 95 % interval of ``time_s`` over rounds, None with two; of samples with one."""
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
