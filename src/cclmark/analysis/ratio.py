"""The ratio of two configurations' times, its interval, and the number of runs for a narrower one.

All calculations use logarithms of medians. They are nearer to a normal distribution than times, and
a factor and its inverse are equally large.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cclmark.analysis.run_noise import RunNoise
from cclmark.base.statistics import NORMAL_975, student_975, student_tails

RatioVerdict = Literal[
    "slower", "faster", "no difference", "inconclusive", "noise unknown", "not comparable"
]

LEAST_RUNS = 3  # of each side: with fewer, noise is assumed and not measured
MOST_RUNS = 1000  # a decision that requires more is not planned

_LARGEST_LOG = 709.0

# A run's median in seconds, and the variance of its logarithm from its samples, None if unknown.
RunMedian = tuple[float, float | None]


@dataclass(frozen=True)
class LogTime:
    """The result of one run: a logarithm, and its variances, None if unknown.

    ``samples``: from the samples within the run. ``runs``: assumed from run to run.
    """

    log: float
    samples: float | None
    runs: float | None


@dataclass(frozen=True)
class RatioEstimate:
    """The logarithm of the time after over the time before, and its uncertainty.

    ``deviation`` is the standard deviation of ``difference``, ``freedom`` the degrees of freedom of
    its measurement, None if the noise from run to run is assumed. ``run_variance``: of one run's
    logarithm. ``runs``: the number of runs of the side with fewer runs; if they are fewer than
    LEAST_RUNS and ``freedom`` is known, other runs of the machine measured its noise.
    """

    difference: float
    deviation: float
    freedom: int | None
    run_variance: float
    runs: int = 0

    @property
    def assumed(self) -> bool:
        """Whether the noise from run to run is assumed."""
        return self.freedom is None

    @property
    def by_history(self) -> bool:
        """Whether other runs of the machine measured the noise from run to run."""
        return self.freedom is not None and self.runs < LEAST_RUNS

    @property
    def ratio(self) -> float:
        """The time after over the time before: above 1 is slower."""
        return _exp(self.difference)

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval of the ratio."""
        return _exp(self.difference - self._reach)

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval of the ratio."""
        return _exp(self.difference + self._reach)

    @property
    def _reach(self) -> float:
        return _quantile(self.freedom) * self.deviation

    @property
    def chance(self) -> float:
        """The probability that equal times differ by so much or more, in either direction."""
        return _chance(self.difference, self.deviation, self.freedom)

    def has_at_most(self, chance: float) -> bool:
        """Whether ``self.chance`` is at most ``chance``.

        The normal distribution's chance is smaller and quicker to compute: if it is too large, so
        is that of Student's t.
        """
        normal = _chance(self.difference, self.deviation, None)
        return normal <= chance and self.chance <= chance

    def with_difference(self, difference: float) -> RatioEstimate:
        """The same uncertainty of another ``difference``."""
        return RatioEstimate(difference, self.deviation, self.freedom, self.run_variance, self.runs)

    def with_deviation(self, deviation: float, freedom: int) -> RatioEstimate:
        """The same ``difference`` with a ``deviation`` that was measured elsewhere."""
        return RatioEstimate(self.difference, deviation, freedom, self.run_variance, self.runs)

    def verdict(self, margin: float) -> RatioVerdict:
        """Judges the 95 % interval: on one side of 1, within the margin around 1, or too wide.

        ``margin`` is a share: a ratio between 1 / (1 + ``margin``) and 1 + ``margin`` is no
        difference that matters.
        """
        if self.low > 1:
            return "slower"
        if self.high < 1:
            return "faster"
        within = self.low > 1 / (1 + margin) and self.high < 1 + margin
        return "no difference" if within else "inconclusive"

    def excludes_slower_by(self, margin: float) -> bool:
        """Whether the interval contains no ratio of 1 + ``margin`` or more."""
        return self.high < 1 + margin

    def runs_needed(self, margin: float, largest_chance: float) -> int | None:
        """The number of runs of each side, above the current one, that decides at ``margin``.

        If it is slower by ``margin`` and significant by itself, but not among many cases: the
        smallest number with a ``chance`` of at most ``largest_chance``. Otherwise the smallest
        number whose interval reaches at most half of the margin to each side. Such an interval
        excludes the margin if there is no difference, and excludes 1 if the difference is the
        margin, with 97.5 % each. If the interval is already that narrow, the ratio is near the
        margin: the smallest number whose interval would exclude the margin. None for more than
        MOST_RUNS.
        """
        if self.low > 1 and self.ratio >= 1 + margin:
            return self._fewest(lambda runs: self._chance_of(runs) <= largest_chance)
        limit = math.log1p(margin)
        allowed = limit / 2
        if self._reach <= allowed:
            allowed = abs(self.difference - limit)
        return self._fewest(lambda runs: self._reach_of(runs) <= allowed)

    def _fewest(self, are_enough: Callable[[int], bool]) -> int | None:
        """The smallest number of runs above the current one that are enough.

        More runs are better while the noise is assumed, and again once it is measured, but not
        across that limit: Student's t is wider.
        """
        assumed = range(self.runs + 1, LEAST_RUNS if self.assumed else 0)
        if found := next(filter(are_enough, assumed), None):
            return found
        measured = range(max(self.runs + 1, LEAST_RUNS), MOST_RUNS + 1)
        place = bisect_left(measured, True, key=are_enough)
        return measured[place] if place < len(measured) else None

    def _reach_of(self, runs: int) -> float:
        return _quantile(_freedom(runs)) * self._deviation_of(runs)

    def _chance_of(self, runs: int) -> float:
        return _chance(self.difference, self._deviation_of(runs), _freedom(runs))

    def _deviation_of(self, runs: int) -> float:
        return math.sqrt(2 * self.run_variance / runs)


class WithInterval:
    """The base of classes with an estimate of a ratio, None if its uncertainty is unknown."""

    estimate: RatioEstimate | None

    @property
    def low(self) -> float | None:
        """The lower end of the 95 % interval of the ratio."""
        return None if self.estimate is None else self.estimate.low

    @property
    def high(self) -> float | None:
        """The upper end of the 95 % interval of the ratio."""
        return None if self.estimate is None else self.estimate.high


def ratio_estimate(
    before: Sequence[RunMedian],
    after: Sequence[RunMedian],
    noise: tuple[RunNoise | None, RunNoise | None] = (None, None),
) -> RatioEstimate | None:
    """The ratio of the times after to the times before; None if its uncertainty is unknown.

    ``noise``: of each side if either side has fewer than LEAST_RUNS runs.
    """
    sides = []
    for side, assumed in zip((before, after), noise, strict=True):
        own = []
        for time_s, samples in side:
            runs = None if assumed is None else assumed.variance(time_s)
            own.append(LogTime(math.log(time_s), samples, runs))
        sides.append(own)
    return estimate(sides[0], sides[1], freedom_of(noise))


def freedom_of(noise: Iterable[RunNoise | None]) -> int | None:
    """The degrees of freedom with which the noises were measured; None if all are assumed."""
    return min((one.freedom for one in noise if one and one.freedom is not None), default=None)


def estimate(
    before: Sequence[LogTime], after: Sequence[LogTime], noise_freedom: int | None = None
) -> RatioEstimate | None:
    """The difference of the means of two sides, as in a two-sample test.

    With at least LEAST_RUNS runs of each side, the variance of the runs' logarithms is pooled and
    Student's t is used; the variance is at least the mean variance from the samples of a run. With
    fewer runs, the variance of each run that is assumed, or was measured with ``noise_freedom``
    degrees of freedom, is added to that of its samples: two runs that happen to be alike would
    count as runs without noise. None if a required variance is unknown.
    """
    sides = (before, after)
    fewest = min(map(len, sides))
    means = [math.fsum(one.log for one in side) / len(side) for side in sides]
    difference = means[1] - means[0]
    everything = [*before, *after]
    if fewest >= LEAST_RUNS:
        freedom = len(everything) - 2
        squares = math.fsum(
            (one.log - mean) ** 2 for side, mean in zip(sides, means, strict=True) for one in side
        )
        known = [one.samples for one in everything if one.samples is not None]
        variance = max(squares / freedom, math.fsum(known) / len(known) if known else 0.0)
        error = variance * (1 / len(before) + 1 / len(after))
        return RatioEstimate(difference, math.sqrt(error), freedom, variance, fewest)
    error = 0.0
    variances = []
    for side in sides:
        for one in side:
            if one.samples is None or one.runs is None:
                return None
            variances.append(one.samples + one.runs)
            error += variances[-1] / len(side) ** 2
    mean_variance = math.fsum(variances) / len(variances)
    return RatioEstimate(difference, math.sqrt(error), noise_freedom, mean_variance, fewest)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of values above 0."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _freedom(runs: int) -> int | None:
    """The degrees of freedom of ``runs`` runs of each side; None if their noise is assumed."""
    return None if runs < LEAST_RUNS else 2 * (runs - 1)


def _chance(difference: float, deviation: float, freedom: int | None) -> float:
    if deviation == 0:
        return float(difference == 0)
    distance = abs(difference) / deviation
    if freedom is None:
        return math.erfc(distance / math.sqrt(2))
    return student_tails(distance, freedom)


def _quantile(freedom: int | None) -> float:
    return NORMAL_975 if freedom is None else student_975(freedom)


def _exp(value: float) -> float:
    """The exponential function; infinite if the result is too large for a float."""
    return math.exp(value) if value < _LARGEST_LOG else math.inf
