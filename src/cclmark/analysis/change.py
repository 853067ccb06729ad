"""Change points: from which run on is a case slower or faster than it was?

A series has a point for each run, from the oldest on. All is done in logarithms, for which slower
and faster by half are alike, and with the noise from run to run that analysis.compare knows. The
method and its sources are in docs/methodology.md; tests measure its false alarms and its power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul

from cclmark.analysis.compare import LEAST_RUNS, ratio_interval, run_noise_variance

FALSE_SHARE = 0.01  # of the changes told, how many may be none
LEAST_STEP = 0.01  # what is less is not told: who looks often enough finds a hundredth of a percent
LEAST_POINTS = 2 * LEAST_RUNS

# As long as there are fewer runs on a side, the noise is taken for no less than what is assumed of
# one run: three that happen to be alike are not rare, and would pass for runs without noise.
_ENOUGH_RUNS = 5
_SHORTEST_WINDOW = 8
_MOST_PARTS = 16
_PROMISING_T = 3.0  # no t below is as unlikely as FALSE_SHARE with LEAST_POINTS or more


# A run's median in seconds, and the variance of its logarithm by its samples, None where unknown.
Point = tuple[float, float | None]


@dataclass(frozen=True)
class Change:
    """The point at ``place`` is the first of a new level.

    ``ratio`` is the new time over the old one, above 1 for slower, ``low`` and ``high`` the ends of
    its 95 % interval. ``chance`` bounds how likely noise alone looks like that anywhere in the
    series.
    """

    place: int
    ratio: float
    low: float
    high: float
    chance: float


def changes(all_series: Sequence[Sequence[Point]]) -> list[list[Change]]:
    """The changes of each series, in their order; none for fewer than LEAST_POINTS points.

    Of the series in which changes are told, FALSE_SHARE at most are expected to have none
    (Benjamini and Hochberg, 1995).
    """
    prepared = [_Series(points) if len(points) >= LEAST_POINTS else None for points in all_series]
    best = [one.best(0, one.length) if one is not None else _NO_SPLIT for one in prepared]
    tested = sum(one is not None for one in prepared)
    allowed = _allowed([split.chance for split in best], tested)
    found: list[list[Change]] = []
    for one, split in zip(prepared, best, strict=True):
        if one is None or split.chance > allowed:
            found.append([])
        else:
            found.append(_levels(one, split, allowed))
    return found


def _allowed(chances: Sequence[float], tested: int) -> float:
    """Up to which chance a series counts as changed; below 0 where none does."""
    ordered = sorted(chance for chance in chances if chance <= FALSE_SHARE)
    allowed = -1.0
    for rank, chance in enumerate(ordered, start=1):
        level = FALSE_SHARE * rank / tested
        allowed = level if chance <= level else allowed
    return allowed


@dataclass(frozen=True)
class _Split:
    """A place to cut a series in two, and how likely noise alone makes as good a one."""

    place: int
    chance: float


_NO_SPLIT = _Split(0, 1.0)


class _Series:
    """A series with what every split of every part of it needs."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = points
        self.length = len(points)
        logs = [math.log(time_s) for time_s, _ in points]
        # Far from 0 the differences of sums of squares would be all rounding.
        self._middle = middle = logs[self.length // 2]
        logs = [log - middle for log in logs]
        self._sums = list(accumulate(logs, initial=0.0))
        self._squares = list(accumulate(map(mul, logs, logs), initial=0.0))
        self._variances = list(accumulate((one or 0.0 for _, one in points), initial=0.0))

    def best(self, first: int, end: int) -> _Split:
        """The least likely split of the points from ``first`` to before ``end``.

        Of all windows of ``_windows``: a change that was taken back shows in none that holds both.
        The chance is the sum over all splits that were looked at (Bonferroni).
        """
        windows, looks = _windows(end - first)
        best = _NO_SPLIT
        for start, length in windows:
            split = self._of_window(first + start, length, looks)
            if split.chance < best.chance:
                best = split
        return best

    def _of_window(self, first: int, length: int, looks: int) -> _Split:
        end = first + length
        base = self._sums[first]
        mean = (self._sums[end] - base) / length
        # The root of what a split takes off the squares, for every size of its first part.
        sizes, weights = _splits(length)
        sums = self._sums[first + LEAST_RUNS : end - LEAST_RUNS + 1]
        roots = [
            (total - base - size * mean) * weight
            for total, size, weight in zip(sums, sizes, weights, strict=True)
        ]
        highest, lowest = max(roots), min(roots)
        root = highest if highest >= -lowest else lowest
        most = root * root
        squares = self._squares[end] - self._squares[first] - length * mean * mean
        freedom = length - 2
        samples = (self._variances[end] - self._variances[first]) / length
        variance = max((squares - most) / freedom, samples, 1e-18)
        if most < _PROMISING_T**2 * variance:
            return _NO_SPLIT
        size = LEAST_RUNS + roots.index(root)
        chance = student_tails(math.sqrt(most / variance), freedom)
        if min(size, length - size) < _ENOUGH_RUNS:
            noise = samples + run_noise_variance(math.exp(self._middle + mean))
            chance = max(chance, math.erfc(math.sqrt(most / noise / 2)))
        return _Split(first + size, min(1.0, looks * chance))


@lru_cache(maxsize=1024)
def _windows(length: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Start and length of the windows of a part of a series, and how many splits they have.

    The whole, then windows of half of it, of a quarter and so on, each half over the one before
    (seeded binary segmentation, Kovács and others, Biometrika 2023). Down to a sixteenth: in a
    window of any size a change must stand out from what surrounds it.
    """
    found = [(0, length)]
    parts = 2
    while parts <= _MOST_PARTS and (width := -(-length // parts)) >= _SHORTEST_WINDOW:
        number = 2 * parts - 1
        found += [(round(at * (length - width) / (number - 1)), width) for at in range(number)]
        parts *= 2
    looks = sum(width - LEAST_POINTS + 1 for _, width in found)
    return tuple(found), looks


@lru_cache(maxsize=1024)
def _splits(length: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The sizes that the first of two parts may have, and what makes their sums comparable."""
    sizes = tuple(range(LEAST_RUNS, length - LEAST_RUNS + 1))
    return sizes, tuple(math.sqrt(length / (size * (length - size))) for size in sizes)


def _levels(series: _Series, split: _Split, allowed: float) -> list[Change]:
    """The changes of a series whose best split is ``split``, by cutting its parts again."""
    cuts: dict[int, float] = {}
    waiting = [(0, series.length, split)]
    while waiting:
        first, end, best = waiting.pop()
        if best.chance > allowed:
            continue
        cuts[best.place] = best.chance
        for start, stop in ((first, best.place), (best.place, end)):
            if stop - start >= LEAST_POINTS:
                waiting.append((start, stop, series.best(start, stop)))
    places = sorted(cuts)
    found = []
    for before, place, after in zip(
        [0, *places], places, [*places[1:], series.length], strict=False
    ):
        change = _change(series.points[before:place], series.points[place:after], place)
        if change is not None:
            found.append(Change(place, *change, cuts[place]))
    return found


def _change(
    before: Sequence[Point], after: Sequence[Point], place: int
) -> tuple[float, float, float] | None:
    """The ratio of two levels and its interval; None where it is too small or may be none."""
    interval = ratio_interval(before, after)
    if interval is None:
        return None
    ratio, low, high, _ = interval
    if low <= 1 <= high or abs(math.log(ratio)) < math.log1p(LEAST_STEP):
        return None
    return ratio, low, high


def student_tails(t: float, freedom: int) -> float:
    """How likely Student's t with so many degrees of freedom is as far from 0 as ``t``, or further.

    By the incomplete beta function and its continued fraction (DLMF 8.17.22), by Lentz' method.
    """
    x = freedom / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if x >= (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    return _beta(x, a, b)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, for ``x`` below (a + 1) / (a + b + 2)."""
    if x <= 0:
        return 0.0
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithm + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    above, below = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = below
    for term in range(1, 300):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for numerator in (even, odd):
            below = 1 / (1 + numerator * below or tiny)
            above = 1 + numerator / above or tiny
            step = below * above
            fraction *= step
        if abs(step - 1) < 1e-12:
            break
    return front * fraction
