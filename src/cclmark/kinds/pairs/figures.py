"""Analyses collectives of single pairs: matrices, outliers, pairs measured at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cclmark.analysis.outliers import least_factor, looked_at, outliers, times_mean_little
from cclmark.base.statistics import median
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Header, Relation, Summary
from cclmark.work.cases import Case
from cclmark.work.pair_cases import Pair

MOST_DISTURBANCE = 0.02  # the share of a time by which simultaneous pairs may slow each other


def disturbance(alone: CaseResult, beside: CaseResult) -> float | None:
    """The time of a case beside other pairs over its time alone, if that is at most 1.02.

    None if it is more, and if one of the times is uncertain: not measured, not converged, wrong
    data, or too few samples for an interval.
    """
    if alone.summary is None or beside.summary is None:
        return None
    for result, summary in ((alone, alone.summary), (beside, beside.summary)):
        if not result.converged or summary.half_width is None or result.status == "wrong":
            return None
    if alone.summary.time_s <= 0:
        return None
    ratio = beside.summary.time_s / alone.summary.time_s
    return ratio if ratio <= 1 + MOST_DISTURBANCE else None


def places_of(case: Case) -> list[Pair]:
    """The places of a pair's case in a matrix of devices: its root's row, or both halves."""
    if case.pair is None:
        return []
    first, second = case.pair
    if case.root is None:
        return [(first, second), (second, first)]
    return [(first, second) if case.root == 0 else (second, first)]


class PairPoint:
    """The results of one series and size, by place in a matrix of devices."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.results: dict[Pair, CaseResult] = {}

    @cached_property
    def figures(self) -> dict[Pair, Summary]:
        """The figures of all measured places, without results with wrong data."""
        return {
            place: result.summary
            for place, result in self.results.items()
            if result.summary is not None and result.status != "wrong"
        }

    @cached_property
    def once(self) -> dict[Pair, Summary]:
        """The same figures without the second cell of results that have two cells."""
        return {
            place: summary
            for place, summary in self.figures.items()
            if self.results[place].case.root is not None or place == self.results[place].case.pair
        }

    @cached_property
    def time_s(self) -> float | None:
        """The median over the pairs; None if no pair was measured."""
        times_s = [summary.time_s for summary in self.once.values()]
        return median(times_s) if times_s else None

    @cached_property
    def bytes_per_s(self) -> float | None:
        """The algorithm bandwidth of the median time."""
        return self.size_bytes / self.time_s if self.time_s else None


@dataclass(frozen=True)
class PairSweep:
    """The results of one series, by ascending size."""

    series: Case
    points: list[PairPoint]

    @property
    def measured(self) -> list[PairPoint]:
        """The points with at least one figure."""
        return [point for point in self.points if point.figures]

    def ends(self) -> list[PairPoint]:
        """The smallest and the largest point with figures, or of all points if none has figures."""
        points = self.measured or self.points
        return points[:1] if len(points) == 1 else [points[0], points[-1]]


def sweeps(results: Sequence[CaseResult]) -> list[PairSweep]:
    """One sweep for each series, in the order of the run.

    Of several results of one case, a wrong one is used, otherwise the first.
    """
    found: dict[Case, dict[int, PairPoint]] = {}
    for result in results:
        by_size = found.setdefault(result.case.series(), {})
        size_bytes = result.case.size_bytes
        point = by_size.setdefault(size_bytes, PairPoint(size_bytes))
        for place in places_of(result.case):
            if place not in point.results or result.status == "wrong":
                point.results[place] = result
    return [
        PairSweep(series, [by_size[size] for size in sorted(by_size)])
        for series, by_size in found.items()
    ]


@dataclass(frozen=True)
class PairDeviation:
    """A pair whose time is far from that of pairs of the same kind of link."""

    series: Case
    size_bytes: int
    pair: Pair
    kind: str
    time_s: float
    usual_s: float


_Groups = dict[tuple[Case, int, str, int | None], list[tuple[Pair, float]]]


def _groups(found: Sequence[PairSweep], relations: Sequence[Relation]) -> _Groups:
    """The times of both ends of each sweep, for each kind of link that is known."""
    kinds = {(one.first, one.second): (one.kind, one.hops) for one in relations}
    groups: _Groups = defaultdict(list)
    for sweep in found:
        for point in sweep.ends():
            for place, summary in point.once.items():
                if place in kinds and summary.time_s > 0:
                    key = (sweep.series, point.size_bytes, *kinds[place])
                    groups[key].append((place, summary.time_s))
    return groups


def compared_pairs(found: Sequence[PairSweep], header: Header) -> tuple[int, int]:
    """The numbers of times that are compared with pairs of the same link, and of the others."""
    compared = looked_at(_groups(found, header.relations).values())
    return compared, sum(len(point.once) for sweep in found for point in sweep.ends()) - compared


def pair_deviations(
    found: Sequence[PairSweep], relations: Sequence[Relation]
) -> list[PairDeviation]:
    """The pairs that stand out at the ends of sweeps, by ``outliers`` of all sweeps together."""
    groups = _groups(found, relations)
    of = looked_at(groups.values())
    far = []
    for (series, size_bytes, kind, _), members in groups.items():
        usual_s, places = outliers([time_s for _, time_s in members], of)
        for pair, time_s in (members[place] for place in places):
            far.append(PairDeviation(series, size_bytes, pair, kind, time_s, usual_s))
    return far


def pair_outliers(found: Sequence[PairSweep], header: Header) -> list[PairDeviation]:
    """The same pairs, relatively slowest first; none if the times of the run mean little."""
    if times_mean_little(header):
        return []
    least = least_factor(header)
    far = (
        one
        for one in pair_deviations(found, header.relations)
        if max(one.time_s / one.usual_s, one.usual_s / one.time_s) >= least
    )
    return sorted(far, key=lambda one: one.usual_s / one.time_s)


@dataclass(frozen=True)
class AtOnce:
    """``kept`` cases were measured beside other pairs.

    ``median_ratio`` and ``worst_ratio``: the time of the same pairs' probes at the same time, over
    their time alone.
    """

    kept: int
    median_ratio: float
    worst_ratio: float


def at_once(results: Sequence[CaseResult]) -> AtOnce | None:
    """Summarises pairs measured at the same time; None if every pair was measured alone."""
    ratios = [result.at_once_ratio for result in results if result.at_once_ratio is not None]
    return AtOnce(len(ratios), median(ratios), max(ratios)) if ratios else None
