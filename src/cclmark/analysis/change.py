"""Change points: the runs from which on a case is slower or faster than before.

A series has a point for each run, from the oldest on. All calculations use logarithms, in which a
factor and its inverse are equally large, and the noise from run to run of analysis.run_noise.
Single runs that stand out are left out first. The method and its sources are in
docs/methodology.md; tests measure its false alarms and its power.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import mul

from cclmark.analysis.ratio import LEAST_RUNS, RunMedian, geometric_mean, ratio_estimate
from cclmark.analysis.run_noise import RunNoise
from cclmark.base.statistics import median, student_tails

FALSE_SHARE = 0.01  # the share of reported changes that may be false
THRESHOLD = 0.02  # a change that matters: equal runs of two equal machines differed by 1.9 %
LEAST_POINTS = 2 * LEAST_RUNS

# With fewer runs on a side, the noise is at least the assumed noise of one run: three runs that
# happen to be alike are not rare, and would count as runs without noise.
_ENOUGH_RUNS = 5
_SHORTEST_WINDOW = 8
_MOST_PARTS = 16
_PROMISING_T = 3.0  # no t below is as unlikely as FALSE_SHARE with LEAST_POINTS or more

# A single run stands out if it is so many standard deviations from the median of the five runs
# around it. One or two runs in a row that differ from the others stand out; three are a level.
_STANDS_OUT = 5.0
_NEIGHBOURS = 5
_FEW, _FEW_SHARE = 2, 0.1
_LEAST_DEVIATION = 1e-3  # for runs that are nearly equal
_MEDIAN_STEP = 0.6745 * math.sqrt(2)  # the median of steps between normal values, in deviations


@dataclass(frozen=True)
class Change:
    """A change: ``last`` is the last point of the old level, ``place`` the first of the new one.

    ``before_s`` and ``after_s`` are the times of the levels: geometric means, without runs that
    stand out. ``ratio`` is the new time over the old one, above 1 for slower; ``low`` and ``high``
    are the ends of its 95 % interval. ``chance`` is an upper bound of the probability that noise
    alone causes such a change anywhere in the series.
    """

    place: int
    last: int
    before_s: float
    after_s: float
    ratio: float
    low: float
    high: float
    chance: float


def changes(
    all_series: Sequence[Sequence[RunMedian]],
    noises: Sequence[RunNoise | None],
    threshold: float = THRESHOLD,
) -> list[list[Change]]:
    """The changes of each series, in their order; none for fewer than LEAST_POINTS points.

    ``threshold``: the smallest change of a time, as a share, that is reported.

    ``noises``: the noise assumed for each series while it has few runs. If it is None, as for
    processors, a level requires _ENOUGH_RUNS runs.

    At most FALSE_SHARE of the series with reported changes are expected to have no change
    (Benjamini and Hochberg, 1995).
    """
    prepared = [
        _Series(points, noise) if len(points) >= LEAST_POINTS else None
        for points, noise in zip(all_series, noises, strict=True)
    ]
    best = [one.best(0, one.length) if one is not None else _NO_SPLIT for one in prepared]
    tested = sum(one is not None for one in prepared)
    allowed = _allowed([split.chance for split in best], tested)
    found: list[list[Change]] = []
    for one, split in zip(prepared, best, strict=True):
        if one is None or split.chance > allowed:
            found.append([])
        else:
            found.append(_levels(one, split, allowed, threshold))
    return found


def _allowed(chances: Sequence[float], tested: int) -> float:
    """The largest chance with which a series counts as changed; below 0 if no series does."""
    ordered = sorted(chance for chance in chances if chance <= FALSE_SHARE)
    allowed = -1.0
    for rank, chance in enumerate(ordered, start=1):
        level = FALSE_SHARE * rank / tested
        allowed = level if chance <= level else allowed
    return allowed


@dataclass(frozen=True)
class _Split:
    """A place to cut a series in two, and the chance that noise alone gives an equally good one."""

    place: int
    chance: float


_NO_SPLIT = _Split(0, 1.0)


class _Series:
    """A series without runs that stand out, with the sums that all splits of all parts require.

    ``places``: the original places of its points.
    """

    def __init__(self, points: Sequence[RunMedian], noise: RunNoise | None) -> None:
        logs = [math.log(time_s) for time_s, _ in points]
        alone = _alone(logs)
        self.places = [at for at in range(len(points)) if at not in alone]
        points = [points[at] for at in self.places]
        logs = [logs[at] for at in self.places]
        self.points = points
        self.length = len(points)
        self._noise = noise
        # Far from 0, rounding errors would dominate the differences of sums of squares.
        self._middle = middle = logs[self.length // 2]
        logs = [log - middle for log in logs]
        self._sums = list(accumulate(logs, initial=0.0))
        self._squares = list(accumulate(map(mul, logs, logs), initial=0.0))
        self._variances = list(accumulate((one or 0.0 for _, one in points), initial=0.0))

    def best(self, first: int, end: int) -> _Split:
        """The least likely split of the points from ``first`` to before ``end``.

        It is chosen from all windows of ``_windows``: a change that was reverted later is visible
        only in a window without the reversal. The chance is the sum over all examined splits
        (Bonferroni).
        """
        best = _NO_SPLIT
        if end - first < LEAST_POINTS:
            return best
        windows, looks = _windows(end - first)
        for start, length in windows:
            split = self._of_window(first + start, length, looks)
            if split.chance < best.chance:
                best = split
        return best

    def _of_window(self, first: int, length: int, looks: int) -> _Split:
        end = first + length
        base = self._sums[first]
        mean = (self._sums[end] - base) / length
        # The root of the amount by which a split reduces the sum of squares, for every size of its
        # first part.
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
            if self._noise is None:
                return _NO_SPLIT
            noise = samples + self._noise.variance(math.exp(self._middle + mean))
            freedom_of_noise = self._noise.freedom
            by_noise = (
                math.erfc(math.sqrt(most / noise / 2))
                if freedom_of_noise is None
                else student_tails(math.sqrt(most / noise), freedom_of_noise)
            )
            chance = max(chance, by_noise)
        return _Split(first + size, min(1.0, looks * chance))


def _alone(logs: Sequence[float]) -> set[int]:
    """The places of single runs that stand out (a median filter, as Hampel's).

    The deviation of runs is the median of the steps from one run to the next, which neither a level
    change nor runs that stand out affect. Returns none if there are many of them: then the series
    itself varies so much, for example because launches have one of two levels.
    """
    steps = [abs(after - before) for before, after in pairwise(logs)]
    deviation = max(median(steps) / _MEDIAN_STEP, _LEAST_DEVIATION)
    far = _STANDS_OUT * deviation
    # A run that differs less from its predecessor stands out only together with it.
    suspects = {at for step, at in zip(steps, range(len(steps)), strict=True) if step > far}
    suspects = {near for at in suspects for near in range(at - 1, at + 3)}
    found = set()
    for at in suspects:
        if 0 <= at < len(logs):
            first = min(max(0, at - _NEIGHBOURS // 2), len(logs) - _NEIGHBOURS)
            if abs(logs[at] - median(logs[first : first + _NEIGHBOURS])) > far:
                found.add(at)
    return found if len(found) <= max(_FEW, _FEW_SHARE * len(logs)) else set()


@lru_cache(maxsize=1024)
def _windows(length: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Start and length of the windows of a part of a series, and their number of splits.

    The first window is the whole part. Then follow windows of half of it, of a quarter and so on
    down to a sixteenth, each overlapping the previous one by half (seeded binary segmentation,
    Kovács and others, Biometrika 2023). In a window of any size a change must stand out from the
    surrounding runs.
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
    """The possible sizes of the first of two parts, and the weights that make sums comparable."""
    sizes = tuple(range(LEAST_RUNS, length - LEAST_RUNS + 1))
    return sizes, tuple(math.sqrt(length / (size * (length - size))) for size in sizes)


def _levels(series: _Series, split: _Split, allowed: float, threshold: float) -> list[Change]:
    """The changes of a series whose best split is ``split``. Its parts are split again."""
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
        change = _change(series.points[before:place], series.points[place:after], threshold)
        if change is not None:
            at, last = series.places[place], series.places[place - 1]
            found.append(Change(at, last, *change, cuts[place]))
    return found


def _change(
    before: Sequence[RunMedian], after: Sequence[RunMedian], threshold: float
) -> tuple[float, float, float, float, float] | None:
    """Two levels, their ratio and its interval; None if the change is small or not significant."""
    estimate = ratio_estimate(before, after)
    if estimate is None or estimate.low <= 1 <= estimate.high:
        return None
    if abs(estimate.difference) < math.log1p(threshold):
        return None
    before_s, after_s = (geometric_mean([time_s for time_s, _ in side]) for side in (before, after))
    return before_s, after_s, estimate.ratio, estimate.low, estimate.high
