"""The smallest value of a setting that keeps a share of the best bandwidth, at all given sizes.

The bandwidth may rise and fall with the value, so a bisection of the whole range could miss the
best region, or end at an isolated value. Therefore a grid over all values is measured first. From
its best value downwards, the gap between the last value that keeps the share and the first one that
does not is bisected. Then the neighbours of the result are measured, and, where noise hides which
side of the share a value is on, the value again.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from cclmark.analysis.paired import (
    LEAST_ROUNDS,
    Cell,
    Times,
    chance_of_gain,
    log_ratios,
    paired_ratio,
)
from cclmark.analysis.ratio import RatioEstimate
from cclmark.tune.search import Batch

NEIGHBOURS = 2  # on each side of the result
_DECIDING_ROUNDS = 2 * LEAST_ROUNDS  # of the result and of the value below it
_MOST_ROUNDS = 4 * LEAST_ROUNDS  # of a value that noise leaves undecided
_FEWEST_ROUNDS = 2  # for an interval
_CHANCE_OF_BETTER = 0.01
_GRID_STEP = math.sqrt(2)


@dataclass(frozen=True)
class Bisected:
    """The result of a bisection.

    ``value``: the smallest value of the region around the best one in which all measured values
    keep the share; None if no value keeps it at all sizes. ``elsewhere``: smaller values that keep
    it too, although values between them and ``value`` do not. ``curve``: for each value its
    bandwidth over the best one, for each size. ``failed``: values that failed once. ``complete``:
    whether nothing is left to measure.
    """

    value: int | None
    elsewhere: Sequence[int]
    curve: Mapping[int, Sequence[RatioEstimate]]
    failed: frozenset[int]
    complete: bool


def bisect(
    values: Sequence[int], sizes: int, keep: float
) -> Generator[Batch, Times | None, Bisected]:
    """Yields batches of cells (value, index of a size), receives times and returns the result.

    ``values``: the possible ones, ascending and not negative. ``keep``: the share of the best
    bandwidth, above 0 and at most 1. As with search(), None instead of times ends it, and equal
    times lead to equal batches. A value without a time in one of its cells has failed and is not
    measured again. Raises ValueError for other values and shares.
    """
    ascending = all(low < high for low, high in pairwise(values))
    if not (values and values[0] >= 0 and ascending and 0 < keep <= 1):
        raise ValueError("a bisection needs ascending values and a share in (0, 1]")
    state = _Bisection(values, sizes, keep)
    todo, rounds = _grid(values), LEAST_ROUNDS
    complete = True
    while todo and complete:
        for _ in range(rounds):
            batch = state.batch(todo)
            times = yield batch
            if times is None:
                complete = False
                break
            state.record(batch, times)
        todo, rounds = state.following()
    return state.result(complete=complete)


@dataclass
class _Bisection:
    values: Sequence[int]
    sizes: int
    keep: float
    rounds: list[Times] = field(default_factory=list)
    failed: set[int] = field(default_factory=set)

    def batch(self, values: Iterable[int]) -> Batch:
        """One round of these values and of the best one of each size, to which ratios refer."""
        order = sorted({*values, *self._anchors()} - self.failed)
        if len(self.rounds) % 2:
            order.reverse()
        cells = [(value, size) for value in order for size in range(self.sizes)]
        return Batch(len(self.rounds), tuple(cells))

    def record(self, batch: Batch, times: Times) -> None:
        self.rounds.append(times)
        self.failed |= {cell[0] for cell in batch.cells if times.get(cell) is None}

    def following(self) -> tuple[set[int], int]:
        """The values to measure next and their rounds; none if the result is certain."""
        curve = self._curve()
        region = self._region(curve)
        if not region:
            return {value for value in curve if self._may_keep(curve[value])}, 1
        measured = {value for times in self.rounds for value, _ in times}
        least = region[0]
        place = bisect_left(self.values, least)
        below = max((value for value in measured if value < least), default=None)
        if below is not None and (gap := place - bisect_left(self.values, below)) > 1:
            return {self.values[place - (gap + 1) // 2]}, LEAST_ROUNDS
        near = self.values[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
        if fresh := set(near) - measured:
            return fresh, LEAST_ROUNDS
        return {
            value
            for value in (least, below)
            if value in curve
            and any(one.runs < _DECIDING_ROUNDS or self._undecided(one) for one in curve[value])
        }, 1

    def result(self, *, complete: bool) -> Bisected:
        curve = self._curve()
        region = self._region(curve)
        value = region[0] if region else None
        smaller = [
            one
            for one in sorted(curve)
            if value is not None and one < value and self._keeps(curve[one])
        ]
        return Bisected(value, smaller, curve, frozenset(self.failed), complete)

    def _region(self, curve: Mapping[int, Sequence[RatioEstimate]]) -> list[int]:
        """The values from the best one downwards, without a gap, that keep the share; ascending."""
        if not curve:
            return []
        best = max(curve, key=lambda value: min(one.difference for one in curve[value]))
        region: list[int] = []
        for value in sorted((*curve, *self.failed), reverse=True):
            if value > best:
                continue
            if value in self.failed or not self._keeps(curve[value]):
                break
            region.insert(0, value)
        return region

    def _keeps(self, shares: Sequence[RatioEstimate]) -> bool:
        return all(one.ratio >= self.keep for one in shares)

    def _may_keep(self, shares: Sequence[RatioEstimate]) -> bool:
        return all(one.ratio >= self.keep or self._undecided(one) for one in shares)

    def _undecided(self, share: RatioEstimate) -> bool:
        return share.low < self.keep < share.high and share.runs < _MOST_ROUNDS

    def _curve(self) -> dict[int, list[RatioEstimate]]:
        """The share of the best bandwidth of all values that have enough rounds at every size.

        The best is the anchor, unless another value is faster, by chance with at most
        _CHANCE_OF_BETTER over all values: otherwise the luckiest of many values would be the best.
        """
        anchors = self._anchors()
        times: dict[int, list[RatioEstimate]] = {}
        for value in sorted({value for one in self.rounds for value, _ in one} - self.failed):
            logs = [
                log_ratios(self.rounds, (value, size), (anchor, size))
                for size, anchor in enumerate(anchors)
            ]
            if anchors and min(map(len, logs)) >= _FEWEST_ROUNDS:
                times[value] = [paired_ratio([one]) for one in logs]
        limit = _CHANCE_OF_BETTER / max(1, len(times))
        best = [
            min(
                (
                    own[size].difference
                    for own in times.values()
                    if own[size].difference < 0 and chance_of_gain(own[size]) <= limit
                ),
                default=0.0,
            )
            for size in range(self.sizes)
        ]
        return {
            value: [
                replace(one, difference=fastest - one.difference)
                for one, fastest in zip(own, best, strict=True)
            ]
            for value, own in times.items()
        }

    def _anchors(self) -> list[int]:
        """The fastest value of each size in the first rounds, which measured the whole grid."""
        first = self.rounds[:LEAST_ROUNDS]
        values = sorted({value for times in first for value, _ in times} - self.failed)
        if len(first) < _FEWEST_ROUNDS or not values:
            return []
        return [self._fastest(first, values, size) for size in range(self.sizes)]

    @staticmethod
    def _fastest(rounds: Sequence[Times], values: Sequence[int], size: int) -> int:
        reference: Cell = (values[-1], size)

        def mean(value: int) -> float:
            logs = log_ratios(rounds, (value, size), reference)
            return paired_ratio([logs]).difference if len(logs) > 1 else math.inf

        return min(values, key=mean)


def _grid(values: Sequence[int]) -> set[int]:
    """The first and the last value, and those next to a sequence in steps of _GRID_STEP."""
    found = {values[0], values[-1]}
    wanted = float(max(1, values[0]))
    while wanted < values[-1]:
        place = bisect_left(values, wanted)
        around = values[max(0, place - 1) : place + 1]
        found.add(min(around, key=lambda value: abs(value - wanted)))
        wanted *= _GRID_STEP
    return found
