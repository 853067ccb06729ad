"""The search for the fastest variant of each size: successive halving, then neighbours of the best.

Successive halving (Karnin, Koren and Somekh, ICML 2013; Jamieson and Talwalkar, AISTATS 2016)
measures all candidates a little, discards the slower half, and spends what is saved on the others.
It assumes nothing about the shape of the response: neither that channels have a single peak, nor
that settings act independently. Sizes share what they find: the best variant of a size stays a
candidate at the sizes next to it. Afterwards, variants between the best ones and their nearest
measured neighbours compete with the best, until nothing untried lies around them.

A variant's score is the mean of the second fastest quarter of the logarithms of its ratios to the
default: outliers are slow, and a ratio may be far too fast only because the default was slow.
Scores are good enough to choose candidates and are no proof: the best of many is partly luck. See
figures.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from cclmark.analysis.paired import (
    CONTROL,
    DEFAULT,
    Batch,
    Cell,
    Times,
    deviation_of,
    order_of_round,
    typical,
)
from cclmark.analysis.ratio import RatioEstimate


@dataclass(frozen=True)
class Space:
    """``coordinates``: for each variant the index of its value of every setting.

    ``ordered``: for every setting whether its values have an order, as numbers of channels do. A
    variant without coordinates, for example the default, has no neighbours.
    """

    coordinates: Mapping[int, tuple[int, ...]]
    ordered: tuple[bool, ...]

    def around(self, variant: int, tried: Collection[int]) -> list[int]:
        """The variants to try next, near ``variant`` and different from it in one setting.

        Of a setting with an order, the value in the middle between this variant's and the nearest
        tried one, in both directions: repeated, it reaches the adjacent values. Of a setting
        without an order, all values.
        """
        if variant not in self.coordinates:
            return []
        found: list[int] = []
        for axis, ordered in enumerate(self.ordered):
            line = self._line(variant, axis)
            if not ordered:
                found += [one for one in line if one not in tried and one != variant]
                continue
            place = line.index(variant)
            for side in (line[:place][::-1], line[place + 1 :]):
                gap = _until_tried(side, tried)
                if gap:
                    found.append(gap[len(gap) // 2])
        return found

    def _line(self, variant: int, axis: int) -> list[int]:
        """The variants that differ from ``variant`` in this setting alone, in its order."""
        own = self.coordinates[variant]
        return self._lines[axis][own[:axis] + own[axis + 1 :]]

    @cached_property
    def _lines(self) -> list[dict[tuple[int, ...], list[int]]]:
        """For each setting the variants by their other coordinates, in its order."""
        found = []
        for axis in range(len(self.ordered)):
            lines: dict[tuple[int, ...], list[int]] = {}
            by_value = sorted((place[axis], one) for one, place in self.coordinates.items())
            for _, one in by_value:
                own = self.coordinates[one]
                lines.setdefault(own[:axis] + own[axis + 1 :], []).append(one)
            found.append(lines)
        return found


def _until_tried(side: Collection[int], tried: Collection[int]) -> list[int]:
    gap: list[int] = []
    for one in side:
        if one in tried:
            break
        gap.append(one)
    return gap


FINALISTS = 3  # of each size, beside the best of the sizes next to it
LEADERS = 2  # of each size: neighbours of the best two are tried
_ROUNDS_PER_RUNG = 2
_ROUNDS_OF_FINALISTS = 8

Pools = list[set[int]]  # the candidates of each size


@dataclass(frozen=True)
class Score:
    """The logarithm of a variant's time over the default's, from ``rounds`` rounds."""

    log: float
    rounds: int


@dataclass(frozen=True)
class Found:
    """The result of a search.

    ``scores``: for each size the score of each variant that was measured there and never failed.
    ``noise``: for each size the standard deviation of the logarithm of a ratio, None with fewer
    than two rounds. ``measured``: the number of cells. ``complete``: whether the search ended by
    itself, not by a deadline.
    """

    scores: Sequence[dict[int, Score]]
    noise: Sequence[float | None]
    measured: int
    complete: bool

    @property
    def best(self) -> list[int]:
        """The variant with the lowest score of each size; the default if none is faster."""
        found = []
        for scores in self.scores:
            ranked = sorted((one.log, variant) for variant, one in scores.items())
            found.append(ranked[0][1] if ranked and ranked[0][0] < 0 else DEFAULT)
        return found


def search(space: Space, first: Iterable[int], sizes: int) -> Generator[Batch, Times | None, Found]:
    """Yields batches of cells to measure, receives their times, and returns the result.

    ``first``: the variants to begin with, for example a grid over ``space``, at every one of
    ``sizes`` sizes. The caller sends None instead of times when its deadline has passed. Batches
    depend only on the times sent, so an interrupted search continues if the recorded times are sent
    again. A cell that is missing from the times counts as not measured; a variant that failed in a
    cell is no candidate at that size any more. A variant that must not be used at all has failed in
    all of its cells.
    """
    state = _Search(space, sizes)
    pools: Pools = [set(first) - {DEFAULT} for _ in range(sizes)]
    complete = True
    try:
        while any(pools):
            pools = yield from state.halve(pools)
            yield from state.finish(pools)
            pools = state.around_the_best()
    except _EndedEarly:
        complete = False
    return Found(state.scores(), state.noise(), state.measured, complete)


class _EndedEarly(Exception):  # noqa: N818
    """The deadline has passed."""


@dataclass
class _Search:
    space: Space
    sizes: int
    rounds: int = 0
    measured: int = 0
    tried: dict[Cell, int] = field(default_factory=dict)  # the rounds of each cell
    logs: dict[Cell, list[float]] = field(default_factory=dict)
    failed: set[Cell] = field(default_factory=set)
    typicals: dict[Cell, float] = field(default_factory=dict)  # until a cell gets another log

    def halve(self, pools: Pools) -> Generator[Batch, Times | None, Pools]:
        """Measures the candidates and discards the slower half of each size, down to a few."""
        largest = max(map(len, pools))
        for _ in range(max(1, math.ceil(math.log2(largest / FINALISTS)))):
            wide = [pool if len(pool) > FINALISTS else set() for pool in pools]
            yield from self._measure(wide if any(wide) else pools, _ROUNDS_PER_RUNG)
            pools = self._halved(pools)
        return pools

    def finish(self, pools: Pools) -> Generator[Batch, Times | None, None]:
        """Measures all candidates until each has enough rounds."""
        while any(lacking := [self._lacking(size, pool) for size, pool in enumerate(pools)]):
            yield from self._measure(lacking, 1)

    def around_the_best(self) -> Pools:
        """The untried variants around the best of each size, with these; empty without any.

        The best themselves, if they are candidates again, because the others' scores became worse.
        """
        pools: Pools = []
        all_tried: list[set[int]] = [set() for _ in range(self.sizes)]
        for variant, size in self.tried:
            all_tried[size].add(variant)
        for size, tried in enumerate(all_tried):
            leaders = self._ranked(size, tried)[:LEADERS]
            fresh = {one for leader in leaders for one in self.space.around(leader, tried)}
            fresh -= {DEFAULT}
            again = fresh or self._lacking(size, set(leaders))
            pools.append(fresh | set(leaders) if again else set())
        return pools

    def scores(self) -> list[dict[int, Score]]:
        found: list[dict[int, Score]] = [{} for _ in range(self.sizes)]
        for (variant, size), logs in self.logs.items():
            if variant != CONTROL and (variant, size) not in self.failed:
                found[size][variant] = Score(self._typical((variant, size)), len(logs))
        return found

    def noise(self) -> list[float | None]:
        return [deviation_of(self.logs.get((CONTROL, size), [])) for size in range(self.sizes)]

    def _measure(self, pools: Pools, rounds: int) -> Generator[Batch, Times | None, None]:
        for _ in range(rounds):
            cells = self._cells(pools)
            if not cells:
                return
            times = yield Batch(self.rounds, cells)
            if times is None:
                raise _EndedEarly
            self._record(cells, times)

    def _cells(self, pools: Pools) -> tuple[Cell, ...]:
        """The cells of a round, the sizes of a variant together."""
        alive = [
            {one for one in pool if (one, size) not in self.failed}
            for size, pool in enumerate(pools)
        ]
        return tuple(
            (variant, size)
            for variant in order_of_round(set().union(*alive), self.rounds)
            for size, pool in enumerate(alive)
            if variant in pool or (pool and variant in (DEFAULT, CONTROL))
        )

    def _record(self, cells: Sequence[Cell], times: Times) -> None:
        self.rounds += 1
        self.measured += len(cells)
        faster_default = [_faster_default(times, size) for size in range(self.sizes)]
        for cell in cells:
            variant, size = cell
            self.tried[cell] = self.tried.get(cell, 0) + 1
            if cell not in times or variant == DEFAULT:
                continue
            time_s = times[cell]
            if time_s is None:
                if variant != CONTROL:
                    self.failed.add(cell)
            elif variant == CONTROL:
                if (default_s := times.get((DEFAULT, size))) is not None:
                    self.logs.setdefault(cell, []).append(math.log(time_s / default_s))
            elif (default_s := faster_default[size]) is not None:
                self.logs.setdefault(cell, []).append(math.log(time_s / default_s))
                self.typicals.pop(cell, None)

    def _halved(self, pools: Pools) -> Pools:
        ranked = [self._ranked(size, pool) for size, pool in enumerate(pools)]
        kept: Pools = []
        for size, own in enumerate(ranked):
            near = [
                ranked[at][0] for at in (size - 1, size + 1) if 0 <= at < self.sizes and ranked[at]
            ]
            most = max(FINALISTS, math.ceil(len(own) / 2))
            kept.append({*own[:most], *near} if own else set())
        return kept

    def _ranked(self, size: int, variants: Iterable[int]) -> list[int]:
        """The variants with a score, the fastest first."""
        scored = [
            (self._typical((one, size)), one)
            for one in variants
            if one > CONTROL and (one, size) in self.logs and (one, size) not in self.failed
        ]
        return [one for _, one in sorted(scored)]

    def _typical(self, cell: Cell) -> float:
        if cell not in self.typicals:
            self.typicals[cell] = typical(self.logs[cell])
        return self.typicals[cell]

    def _lacking(self, size: int, pool: set[int]) -> set[int]:
        return {
            one
            for one in pool
            if (one, size) not in self.failed
            and self.tried.get((one, size), 0) < _ROUNDS_OF_FINALISTS
        }


def _faster_default(times: Times, size: int) -> float | None:
    """The faster one of the default and its repetition: an outlier is slow."""
    both = (times.get((DEFAULT, size)), times.get((CONTROL, size)))
    return min((time_s for time_s in both if time_s is not None), default=None)


LARGEST_LOSS = 0.02  # of a size within a rule, against the default
LEAST_COST = 0.005  # a rule must save more than this share of the time, over all its sizes
_UNKNOWN_NOISE = 0.01  # of a ratio, where fewer than two rounds were measured


def is_loss(ratio: RatioEstimate) -> bool:
    """Whether the time is longer by more than LARGEST_LOSS, by more than its standard deviation."""
    return ratio.difference - ratio.deviation > math.log1p(LARGEST_LOSS)


@dataclass(frozen=True)
class Rule:
    """Use ``variant`` from ``low_bytes`` to ``high_bytes``, both included."""

    low_bytes: int
    high_bytes: int
    variant: int

    def covers(self, size_bytes: int) -> bool:
        """Whether the rule applies to messages of this size."""
        return self.low_bytes <= size_bytes <= self.high_bytes


def rules_of(found: Found, sizes_bytes: Sequence[int]) -> list[Rule]:
    """The rules that save most, in the order of their sizes, which never overlap.

    ``sizes_bytes``: the sizes of the search, ascending. The sum of the scores' logarithms over all
    sizes is minimal, with a cost for every rule: two deviations of the noise of a ratio, so that
    neighbouring sizes share a rule if separate ones are better only within the noise. A score from
    few rounds is worth less, by its standard error. No rule covers a size where its variant was not
    measured, failed, or has a score that is slower than the default by more than LARGEST_LOSS.
    Raises ValueError for another number of sizes, or sizes that do not ascend.
    """
    if len(sizes_bytes) != len(found.scores):
        raise ValueError("a search has one size for each of its scores")
    if any(low >= high for low, high in pairwise(sizes_bytes)):
        raise ValueError("sizes ascend")
    noises = [_UNKNOWN_NOISE if noise is None else noise for noise in found.noise]
    chosen = _assigned(
        [_costs(scores, noise) for scores, noise in zip(found.scores, noises, strict=True)],
        [max(LEAST_COST, 2 * noise) for noise in noises],
    )
    return joined_rules(dict(zip(sizes_bytes, chosen, strict=True)))


def joined_rules(assigned: Mapping[int, int]) -> list[Rule]:
    """Rules of adjacent sizes with the same variant. ``assigned``: a variant for each size."""
    found: list[Rule] = []
    before = DEFAULT
    for size, variant in sorted(assigned.items()):
        if variant != DEFAULT:
            if variant == before:
                found[-1] = replace(found[-1], high_bytes=size)
            else:
                found.append(Rule(size, size, variant))
        before = variant
    return found


def _costs(scores: dict[int, Score], noise: float) -> dict[int, float]:
    """The logarithm of the time of each variant that a rule may use here, and of the default."""
    costs = {
        variant: score.log + noise / math.sqrt(score.rounds)
        for variant, score in scores.items()
        if score.log <= math.log1p(LARGEST_LOSS)
    }
    costs[DEFAULT] = 0.0
    return costs


def _assigned(costs: Sequence[dict[int, float]], rule_costs: Sequence[float]) -> list[int]:
    """The variant of each size with the smallest total cost (dynamic programming over sizes)."""
    best: dict[int, tuple[float, list[int]]] = {DEFAULT: (0.0, [])}
    for own, rule_cost in zip(costs, rule_costs, strict=True):
        cheapest = min(best.values())
        following = {}
        for variant, cost in own.items():
            change = 0.0 if variant == DEFAULT else rule_cost
            options = [(cheapest[0] + change, cheapest[1])]
            if variant in best:
                options.append(best[variant])
            total, path = min(options)
            following[variant] = (total + cost, [*path, variant])
        best = following
    return min(best.values())[1] if costs else []
