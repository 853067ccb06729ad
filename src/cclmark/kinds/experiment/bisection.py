"""The smallest value of a setting that keeps a share of the best bandwidth, at all given sizes.

The bandwidth may rise and fall with the value, so a bisection of the whole range could miss the
best region, or end at an isolated value. Therefore a grid over all values is measured first. From
its best value downwards, the gap between the last value that keeps the share and the first one that
does not is bisected. Then the neighbours of the result are measured, and, where noise hides which
side of the share a value is on, the value again.

A value is measured until it is *decided*: its share is certainly below the requested one at a size,
or certainly at least as large at every size. That is tested after each of its rounds from the third
on, by its own figures only. As in action elimination (Even-Dar, Mannor and Mansour, Journal of
Machine Learning Research 7, 2006) the chance of a wrong decision, 5 %, is divided among values,
sizes, tests and looks, look k of a value having the part 6 / (pi k)². The test is that of Student's
t with the spread between rounds of all values (round_spread.py), or of the value's own rounds if
that is larger.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cclmark.analysis.paired import (
    LEAST_ROUNDS,
    Batch,
    Cell,
    Times,
    chance_of_gain,
    deviation_of,
    log_ratios,
    paired_ratio,
    typical,
)
from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.statistics import median

_EFFICIENCY = 0.37  # of the median of absolute deviations as an estimate of a standard deviation
# The largest variance of a mean without a fifth of the values at each end, in variances of the
# mean of all of them, for normal noise: that of five values.
_TRIMMED_VARIANCE = 1.14
# A value's own deviation over the pooled one. With equal noise, 2 % of three rounds have more.
_CLEARLY_MORE = 2


@dataclass(frozen=True)
class RoundSpread:
    """The standard deviation of the logarithm of one time, and its degrees of freedom."""

    deviation: float
    freedom: int

    def estimates(self, estimate: RatioEstimate) -> list[RatioEstimate]:
        """The estimate of a ratio with the pooled deviation, or with its own if that is larger.

        Of a value whose own deviation is clearly larger also the estimate itself, with the degrees
        of freedom of its rounds alone: the pooled ones are too many for a noisy value.
        A ratio has the variance of two times, and the mean of ``runs`` ratios that divided by
        ``runs``, up to _TRIMMED_VARIANCE times as large because means are trimmed.
        """
        pooled = self.deviation * math.sqrt(2 * _TRIMMED_VARIANCE / estimate.runs)
        deviation = max(pooled, estimate.deviation)
        found = [estimate.with_deviation(deviation, self.freedom)]
        return [*found, estimate] if estimate.deviation > _CLEARLY_MORE * pooled else found


class SpreadSoFar:
    """The spread between the rounds that were added, at the size with the index ``size``.

    The change of the logarithm of a value's time from one of its rounds to the next one has twice
    the variance of that logarithm (Rice, Annals of Statistics 12, 1984, for a mean that changes
    slowly). What the m values of two rounds have in common, the median of their changes, is
    subtracted, which leaves (m - 1) / m of the variance. The deviation is 1.4826 times the median
    of the absolute values, which single slow times do not move, over the square root of 2. The
    changes have m - 1 degrees of freedom in each pair of rounds, and the median of absolute values
    is as precise as a standard deviation with 37 % of them (Rousseeuw and Croux, Journal of the
    American Statistical Association 88, 1993).
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rounds = 0
        self._latest: dict[int, tuple[int, float]] = {}  # the round and the logarithm of each value
        self._found: list[float] = []
        self._freedom = 0

    def add(self, times: Times) -> None:
        """Adds the next round."""
        changes: dict[int, list[float]] = {}  # by the earlier round
        for (value, size), time_s in times.items():
            if size != self._size or time_s is None:
                continue
            log = math.log(time_s)
            if value in self._latest:
                before, earlier = self._latest[value]
                changes.setdefault(before, []).append(log - earlier)
            self._latest[value] = self._rounds, log
        for own in changes.values():
            if len(own) > 1:
                common = median(own)
                scale = math.sqrt(len(own) / (len(own) - 1) / 2)
                self._found += [(one - common) * scale for one in own]
                self._freedom += len(own) - 1
        self._rounds += 1

    @property
    def spread(self) -> RoundSpread | None:
        """None without two values in two rounds."""
        deviation = deviation_of(self._found)
        if deviation is None:
            return None
        return RoundSpread(deviation, max(1, int(_EFFICIENCY * self._freedom)))


def round_spread(rounds: Iterable[Times], size: int) -> RoundSpread | None:
    """The spread between these rounds, at one size; None without two values in two rounds."""
    so_far = SpreadSoFar(size)
    for times in rounds:
        so_far.add(times)
    return so_far.spread


NEIGHBOURS = 2  # on each side of the result
_DECIDING_ROUNDS = 2 * LEAST_ROUNDS  # of the result and of the value below it, unless decided
_MOST_ROUNDS = 4 * LEAST_ROUNDS  # of a value that noise leaves undecided
LEAST_ROUNDS_TO_DECIDE = 3  # two slow times of a value in a row are not rare enough
_FEWEST_ROUNDS = 2  # for an interval
_CHANCE_OF_BETTER = 0.01
_CHANCE_OF_ERROR = 0.05  # that any value is decided wrongly
_TESTS = 2  # of a value in a look: against the share, and whether it may be the best one
_BETTER = 0.5  # of the loss that is allowed: what may be faster by more may be the best value
_GRID_STEP = math.sqrt(2)


@dataclass(frozen=True)
class Bisected:
    """The result of a bisection.

    ``value``: the smallest value of the region around the best one in which all measured values
    keep the share; None if no value keeps it at all sizes. ``elsewhere``: smaller values that keep
    it too, although values between them and ``value`` do not. ``curve``: for each value its
    bandwidth over the best one, for each size. ``below``: the measured values that certainly do not
    keep the share; ``above``: those that certainly do, none while another value may turn out to be
    the best one by more than the share allows. All of them are right with a probability of about
    95 %: which value is the best one is chosen from the same times.
    ``failed``: values that failed once. ``complete``: whether nothing is left to measure.
    """

    value: int | None
    elsewhere: Sequence[int]
    curve: Mapping[int, Sequence[RatioEstimate]]
    below: Sequence[int]
    above: Sequence[int]
    failed: frozenset[int]
    complete: bool


def bisect(
    values: Sequence[int],
    sizes: int,
    keep: float,
    chance_of_error: float = _CHANCE_OF_ERROR,
) -> Generator[Batch, Times | None, Bisected]:
    """Yields batches of cells (value, index of a size), receives times and returns the result.

    ``values``: the possible ones, ascending and not negative. ``keep``: the share of the best
    bandwidth, above 0 and at most 1. ``chance_of_error``: the largest one that any value is decided
    wrongly; with 0 no value is decided before it has all rounds. As with search(), None instead of
    times ends it, and equal times lead to equal batches. A value without a time in one of its cells
    has failed and is not measured again. Raises ValueError for other values and shares.
    """
    ascending = all(low < high for low, high in pairwise(values))
    if not (values and values[0] >= 0 and ascending and 0 < keep <= 1):
        raise ValueError("a bisection needs ascending values and a share in (0, 1]")
    todo = _grid(values)
    most_values = min(len(values), len(todo) + len(values).bit_length() + 2 * NEIGHBOURS)
    state = _Bisection(values, sizes, keep, chance_of_error, most_values)
    while todo:
        batch = state.batch(todo)
        times = yield batch
        if times is None:
            return state.result(complete=False)
        state.record(batch, times)
        todo = state.following()
    return state.result(complete=True)


@dataclass
class _Ratio:
    """The logarithms of a ratio in the first ``rounds`` rounds, and its estimate from these."""

    rounds: int = 0
    logs: list[float] = field(default_factory=list)
    estimate: RatioEstimate | None = None


@dataclass
class _Bisection:
    values: Sequence[int]
    sizes: int
    keep: float
    chance_of_error: float
    most_values: int  # that are measured, at most
    rounds: list[Times] = field(default_factory=list)
    ratios: dict[tuple[Cell, Cell], _Ratio] = field(default_factory=dict)  # to a reference
    spreads: list[RoundSpread | None] = field(default_factory=list)  # of each size
    spreads_so_far: list[SpreadSoFar] = field(init=False)  # from which these are computed
    failed: set[int] = field(default_factory=set)
    anchors: list[int] = field(default_factory=list)  # the best value of each size
    grid_rounds: int | None = None  # None until the grid is measured

    def __post_init__(self) -> None:
        self.spreads_so_far = [SpreadSoFar(size) for size in range(self.sizes)]

    def batch(self, values: Iterable[int]) -> Batch:
        """One round of these values and of the best one of each size, to which ratios refer."""
        order = sorted({*values, *self.anchors} - self.failed)
        if len(self.rounds) % 2:
            order.reverse()
        cells = [(value, size) for value in order for size in range(self.sizes)]
        return Batch(len(self.rounds), tuple(cells))

    def record(self, batch: Batch, times: Times) -> None:
        self.rounds.append(times)
        failed = {value for value, size in batch.cells if times.get((value, size)) is None}
        if self.grid_rounds is None or failed - self.failed:
            self.failed |= failed
            self.anchors = self._fastest_values()
        for own in self.spreads_so_far:
            own.add(times)
        self.spreads = [own.spread for own in self.spreads_so_far]

    def following(self) -> set[int]:
        """The values to measure in the next round; none if the result is certain."""
        curve = self._curve()
        decided = self._settled(curve)
        counts = self._counts(self.rounds)
        few = {value for value, count in counts.items() if count < LEAST_ROUNDS}
        unsettled = few - decided - set(self.anchors)
        if self.grid_rounds is None:
            if unsettled:
                return unsettled
            self.grid_rounds = len(self.rounds)
        region = self._region(curve)
        if not region:
            return unsettled or {
                value
                for value, shares in curve.items()
                if value not in decided and self._may_keep(shares)
            }
        least = region[0]
        place = bisect_left(self.values, least)
        measured = {*counts, *self.failed}
        below = max((value for value in measured if value < least), default=None)
        gap = 1 if below is None else place - bisect_left(self.values, below)
        if gap > 1:
            # The neighbours of the result, wherever in a narrow gap it is, are all of its values.
            inner = self.values[place - gap + 1 : place]
            return unsettled or set(inner if gap <= NEIGHBOURS + 1 else [inner[(gap - 1) // 2]])
        near = self.values[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
        unconfirmed = {
            value
            for value in (least, below)
            if value in curve
            and value not in decided
            and any(one.runs < _DECIDING_ROUNDS or self._undecided(one) for one in curve[value])
        }
        return unsettled | (set(near) - measured) | unconfirmed

    def result(self, *, complete: bool) -> Bisected:
        curve = self._curve()
        region = self._region(curve)
        value = region[0] if region else None
        smaller = [
            one
            for one in sorted(curve)
            if value is not None and one < value and self._keeps(curve[one])
        ]
        below, above = self._decided(curve)
        if not self._is_reference_certain(curve):
            above = set()
        return Bisected(
            value, smaller, curve, sorted(below), sorted(above), frozenset(self.failed), complete
        )

    def _counts(self, rounds: Sequence[Times]) -> dict[int, int]:
        """The number of these rounds with each value that has not failed."""
        counts: dict[int, int] = {}
        for times in rounds:
            for value in {value for value, _ in times} - self.failed:
                counts[value] = counts.get(value, 0) + 1
        return counts

    def _settled(self, curve: Mapping[int, Sequence[RatioEstimate]]) -> set[int]:
        """The decided values; while the grid is measured, not those that may be the best one."""
        below, above = self._decided(curve)
        if self.grid_rounds is None:
            limit = 1 + (1 - self.keep) * _BETTER
            above = {value for value in above if set(self._sides(curve[value], limit)) == {-1}}
            above -= set(self.anchors)
        return below | above

    def _decided(self, curve: Mapping[int, Sequence[RatioEstimate]]) -> tuple[set[int], set[int]]:
        """The values that certainly do not keep the share, and those that certainly do."""
        sides = {value: self._sides(shares, self.keep) for value, shares in curve.items()}
        below = {value for value, found in sides.items() if -1 in found}
        return below, {value for value, found in sides.items() if set(found) == {1}}

    def _is_reference_certain(self, curve: Mapping[int, Sequence[RatioEstimate]]) -> bool:
        """Whether no value may be so much faster that the best value would not keep the share."""
        limit = 1 / self.keep
        return all(
            set(self._sides(shares, limit)) == {-1}
            for value, shares in curve.items()
            if value not in self.anchors
        )

    def _sides(self, shares: Sequence[RatioEstimate], limit: float) -> list[int]:
        """For each size 1 if a share is certainly at least ``limit``, -1 if below, 0 if neither."""
        log = math.log(limit)
        return [
            (1 if share.difference >= log else -1) if self._is_certain(spread, share, log) else 0
            for spread, share in zip(self.spreads, shares, strict=True)
        ]

    def _is_certain(self, spread: RoundSpread | None, share: RatioEstimate, log: float) -> bool:
        """Whether it is certain on which side of ``log`` the share's logarithm is."""
        if share.deviation == 0 and share.difference == 0:  # the best value itself
            return True
        if spread is None or share.runs < LEAST_ROUNDS_TO_DECIDE:
            return False
        chance = 2 * self._chance(share.runs)
        return all(
            one.deviation == 0 or one.has_at_most(chance)
            for one in spread.estimates(share.with_difference(share.difference - log))
        )

    def _chance(self, runs: int) -> float:
        """The largest chance of a wrong decision on one value at one size, after ``runs`` rounds.

        The sum over all looks, 6 / (pi k)² of look k, is 1.
        """
        look = runs - LEAST_ROUNDS_TO_DECIDE + 1
        own = self.chance_of_error / (_TESTS * self.most_values * self.sizes)
        return own * 6 / (math.pi * look) ** 2

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
        times: dict[int, list[RatioEstimate]] = {}
        for value in sorted({value for one in self.rounds for value, _ in one} - self.failed):
            estimates = [
                self._estimate((value, size), (anchor, size))
                for size, anchor in enumerate(self.anchors)
            ]
            known = [one for one in estimates if one is not None]
            if known and len(known) == len(estimates):
                times[value] = known
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
                one.with_difference(fastest - one.difference)
                for one, fastest in zip(own, best, strict=True)
            ]
            for value, own in times.items()
        }

    def _estimate(self, cell: Cell, reference: Cell) -> RatioEstimate | None:
        """The ratio of two times over all rounds; None if too few rounds measured both."""
        ratio = self.ratios.setdefault((cell, reference), _Ratio())
        if fresh := log_ratios(self.rounds[ratio.rounds :], cell, reference):
            ratio.logs += fresh
            if len(ratio.logs) >= _FEWEST_ROUNDS:
                ratio.estimate = paired_ratio([ratio.logs])
        ratio.rounds = len(self.rounds)
        return ratio.estimate

    def _fastest_values(self) -> list[int]:
        """For each size the fastest value, of those measured in all rounds of the grid.

        One value for all sizes if it is the fastest as far as the spread between rounds tells: each
        further value is measured in every round.
        """
        first = self.rounds[: self.grid_rounds]
        counts = self._counts(first)
        most = max(counts.values(), default=0)
        if most < _FEWEST_ROUNDS:
            return []
        values = sorted(value for value, count in counts.items() if count == most)
        slower = [self._slower(first, values, size) for size in range(self.sizes)]
        joint = min(values, key=lambda value: max(own[value] for own in slower))
        reach = [
            spread.deviation * math.sqrt(2 / most) if (spread := round_spread(first, size)) else 0.0
            for size in range(self.sizes)
        ]
        if all(own[joint] <= limit for own, limit in zip(slower, reach, strict=True)):
            return [joint] * self.sizes
        return [min(own, key=own.__getitem__) for own in slower]

    @staticmethod
    def _slower(rounds: Sequence[Times], values: Sequence[int], size: int) -> dict[int, float]:
        """The logarithm of the time of each value over that of the fastest one.

        Times refer to the median of their round, as no value is free of slow times.
        """
        logs: dict[int, list[float]] = {value: [] for value in values}
        for times in rounds:
            own = {
                value: math.log(time_s) for value in values if (time_s := times.get((value, size)))
            }
            common = median(list(own.values())) if own else 0.0
            for value, log in own.items():
                logs[value].append(log - common)
        means = {value: typical(found) for value, found in logs.items()}
        least = min(means.values())
        return {value: mean - least for value, mean in means.items()}


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
