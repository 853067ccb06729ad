"""What collectives of single pairs say: matrices, pairs that stand out, pairs measured at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from cclmark.analysis.statistics import median, outliers
from cclmark.plan.cases import Case
from cclmark.results.schema import CaseResult, Relation, Summary

Pair = tuple[int, int]


def series_of(case: Case) -> Case:
    """What all cases of one sweep over sizes and pairs share."""
    return msgspec.structs.replace(case, size_bytes=0, count=0, pair=None, root=None, matrix=())


def places_of(case: Case) -> list[Pair]:
    """Where in a matrix of devices a case of a pair belongs: its root's row, else both halves."""
    if case.pair is None:
        return []
    first, second = case.pair
    if case.root is None:
        return [(first, second), (second, first)]
    return [(first, second) if case.root == 0 else (second, first)]


@dataclass
class PairSweep:
    """The results of one series: by size, then by place in a matrix of devices."""

    series: Case
    by_size: dict[int, dict[Pair, CaseResult]] = field(default_factory=dict)

    def measured(self, size_bytes: int) -> dict[Pair, Summary]:
        """The figures of one size; what is wrong has none, however fast it was."""
        return {
            place: result.summary
            for place, result in self.by_size.get(size_bytes, {}).items()
            if result.summary is not None and result.status != "wrong"
        }

    @property
    def sizes(self) -> list[int]:
        """Those of which anything was measured, rising."""
        return sorted(size for size in self.by_size if self.measured(size))

    def median_bytes_per_s(self, size_bytes: int) -> float | None:
        """Algorithm bandwidth, the median over the pairs."""
        values = [one.algbw_bytes_per_s for one in self.measured(size_bytes).values()]
        return median(values) if values else None


def sweeps(results: Sequence[CaseResult]) -> list[PairSweep]:
    """One for each series, in the order of the run."""
    found: dict[Case, PairSweep] = {}
    for result in results:
        series = series_of(result.case)
        sweep = found.setdefault(series, PairSweep(series))
        by_place = sweep.by_size.setdefault(result.case.size_bytes, {})
        by_place.update(dict.fromkeys(places_of(result.case), result))
    return list(found.values())


@dataclass(frozen=True)
class PairDeviation:
    """A pair whose time is far from that of pairs of the same kind of link."""

    series: Case
    size_bytes: int
    pair: Pair
    kind: str
    time_s: float
    usual_s: float


def pair_deviations(sweep: PairSweep, relations: Sequence[Relation]) -> list[PairDeviation]:
    """The pairs that stand out at the smallest and at the largest size, as in ``outliers``."""
    kinds = {(one.first, one.second): one for one in relations}
    found = []
    for size_bytes in dict.fromkeys([*sweep.sizes[:1], *sweep.sizes[-1:]]):
        groups: dict[tuple[str, int | None], list[tuple[Pair, float]]] = defaultdict(list)
        for place, result in sweep.by_size[size_bytes].items():
            relation, summary = kinds.get(place), sweep.measured(size_bytes).get(place)
            once = result.case.root is not None or place == result.case.pair
            if relation is not None and summary is not None and summary.time_s > 0 and once:
                groups[relation.kind, relation.hops].append((place, summary.time_s))
        for (kind, _), members in groups.items():
            usual_s, far = outliers([time_s for _, time_s in members])
            found += [
                PairDeviation(sweep.series, size_bytes, *_entry(members[number], kind), usual_s)
                for number in far
            ]
    return found


def _entry(member: tuple[Pair, float], kind: str) -> tuple[Pair, str, float]:
    return member[0], kind, member[1]


@dataclass(frozen=True)
class AtOnce:
    """How several pairs at once compare with each alone.

    Of ``later`` cases of the rounds after the first ``kept`` were measured at once. The ratios are
    of the first round's times at once over those alone, for the largest size of each series: of
    those that were kept and of the others, the median and the largest; None where there are none.
    """

    kept: int
    later: int
    undisturbed: tuple[float, float] | None
    disturbed: tuple[float, float] | None


def at_once(results: Sequence[CaseResult]) -> AtOnce | None:
    """None where only one pair was measured at a time, by choice or for want of more."""
    ratios: dict[Case, dict[int, list[float]]] = defaultdict(dict)
    first_round: set[Pair] = set()
    for result in results:
        if result.at_once_ratio is not None and result.case.pair is not None:
            by_size = ratios[series_of(result.case)]
            by_size.setdefault(result.case.size_bytes, []).append(result.at_once_ratio)
            first_round.add(result.case.pair)
    if not ratios:
        return None
    later = [result for result in results if result.case.pair not in first_round]
    kept = [result.case for result in later if result.beside > 0]
    known = {(series_of(case), case.size_bytes) for case in kept}
    largest = {(series, max(by_size)): by_size[max(by_size)] for series, by_size in ratios.items()}
    return AtOnce(
        kept=len(kept),
        later=len(later),
        undisturbed=_middle_and_most([largest[key] for key in largest if key in known]),
        disturbed=_middle_and_most([largest[key] for key in largest if key not in known]),
    )


def _middle_and_most(groups: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    values = [value for group in groups for value in group]
    return (median(values), max(values)) if values else None
