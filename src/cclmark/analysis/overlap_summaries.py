"""The slow-downs of a collective and of a compute beside each other, by variant and case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cclmark.analysis.paired import paired_ratio
from cclmark.analysis.ratio import RatioEstimate
from cclmark.analysis.statistics import median
from cclmark.analysis.summary import algorithm_bandwidth, bus_factor
from cclmark.plan.cases import Case
from cclmark.kinds.overlap.plan import Compute
from cclmark.plan.variants import DEFAULT, Variant
from cclmark.kinds.overlap.result import OverlapResult
from cclmark.results.schema import Explanation
from cclmark.kinds.overlap.result import OverlapFigures

_LEAST_ROUNDS = 2


@dataclass(frozen=True)
class SlowDown:
    """The time of one operation alone and beside other work, in seconds: medians over the rounds.

    ``estimate``: the ratio of the two with its interval, from the ratios of the rounds.
    ``scatter``: the times beside other work over their median. ``against_usual``: the ratio of
    these times to those of the compared variant in the same rounds, see OverlapSummary. All are
    None with fewer than two rounds.
    """

    alone_s: float
    beside_s: float
    estimate: RatioEstimate | None
    scatter: RatioEstimate | None = None
    against_usual: RatioEstimate | None = None

    @property
    def ratio(self) -> float:
        """The time beside the other work over the time alone."""
        return self.beside_s / self.alone_s if self.estimate is None else self.estimate.ratio


@dataclass(frozen=True)
class OverlapSummary:
    """All rounds of a variant in one case.

    ``communication`` and ``compute`` are None without figures, for ``reason``. ``status``: ok, or
    the first other one of the rounds. ``evaluated``: the smallest shares of the operations of the
    collective and of the compute that ran entirely beside the other work. ``launch_bound``,
    ``compute_launch_bound`` and ``together_launch_bound``: whether launches set the times of the
    collective alone, of the compute alone and of both at once in most rounds. ``attempts``: the
    most in a round. ``left_out``: the number of ``rounds`` without figures, because no operation
    ran entirely beside the other work; ``status`` is that of the others. ``alone_operations``: the
    number of collectives in a row of which the time alone is the mean, the least of the rounds.
    ``implementation`` and its path: the software that computes. ``explanation``:
    what ran. ``usual``: the variant that others are compared with, the default if it was measured.
    """

    variant: Variant
    case: Case
    work: Compute
    status: str
    reason: str
    communication: SlowDown | None
    compute: SlowDown | None
    evaluated: tuple[float, float] = (0.0, 0.0)
    launch_bound: bool = False
    compute_launch_bound: bool = False
    together_launch_bound: bool = False
    attempts: int = 1
    implementation: str = ""
    implementation_path: str = ""
    explanation: Explanation | None = None
    usual: Variant | None = None
    rounds: int = 0
    left_out: int = 0
    alone_operations: int = 0

    @property
    def busbw_alone(self) -> float | None:
        """The bus bandwidth of the collective alone, in bytes per second."""
        return None if self.communication is None else self._busbw(self.communication.alone_s)

    @property
    def busbw_beside(self) -> float | None:
        """The bus bandwidth of the collective beside the compute, in bytes per second."""
        return None if self.communication is None else self._busbw(self.communication.beside_s)

    @property
    def busbw_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of ``busbw_beside``; None with fewer than two rounds."""
        found = self.communication
        if found is None or found.scatter is None:
            return None
        low, high = min(1.0, found.scatter.low), max(1.0, found.scatter.high)
        return self._busbw(found.beside_s * high), self._busbw(found.beside_s * low)

    @property
    def rate_alone(self) -> float | None:
        """The rate of the compute alone: floating-point operations or bytes per second."""
        return None if self.compute is None else self.work.work / self.compute.alone_s

    @property
    def remaining_compute(self) -> float | None:
        """The share of the compute's rate that remains beside the collective."""
        return None if self.compute is None else 1 / self.compute.ratio

    @property
    def combined_rate(self) -> float | None:
        """The sum of the shares of both rates that remain: 1 if the two were executed in turns."""
        if self.communication is None or self.compute is None:
            return None
        return 1 / self.communication.ratio + 1 / self.compute.ratio

    @property
    def ran(self) -> str:
        """What the library ran, with the channels; empty if unknown."""
        return "" if self.explanation is None else self.explanation.choice_with_channels

    def _busbw(self, time_s: float) -> float:
        return algorithm_bandwidth(self.case.size_bytes, time_s) * bus_factor(self.case)


def summaries_of(results: Iterable[OverlapResult]) -> list[OverlapSummary]:
    """A summary for each variant and case, in the order of the plan: by case, then by variant."""
    by_place: dict[tuple[Variant, Case, Compute], list[OverlapResult]] = {}
    for result in results:
        overlap = result.overlap
        place = (overlap.variant, overlap.case, overlap.compute)
        by_place.setdefault(place, []).append(result)
    variants = list(dict.fromkeys(variant for variant, _, _ in by_place))
    cases = dict.fromkeys(case for _, case, _ in by_place)
    order = {case: number for number, case in enumerate(_by_size(cases))}
    places = sorted(by_place, key=lambda one: (order[one[1]], variants.index(one[0])))
    usual = next((one for one in variants if one.is_default), variants[0] if variants else DEFAULT)
    by_case = {
        (case, work): _figures_by_round(own)
        for (variant, case, work), own in by_place.items()
        if variant == usual
    }
    by_unplaced = {(_unplaced(case), work): figures for (case, work), figures in by_case.items()}

    def compared(place: tuple[Variant, Case, Compute]) -> dict[int, OverlapFigures]:
        variant, case, work = place
        if variant == usual:
            return {}
        other = by_unplaced.get((_unplaced(case), work), {})
        return by_case.get((case, work), other)

    return [_summary(place, by_place[place], usual, compared(place)) for place in places]


def _unplaced(case: Case) -> Case:
    """The case without its placement, which a variant may set."""
    return msgspec.structs.replace(case, in_place=False)


def _figures_by_round(results: Iterable[OverlapResult]) -> dict[int, OverlapFigures]:
    return {one.overlap.round: one.figures for one in results if one.figures is not None}


def _by_size(cases: Iterable[Case]) -> list[Case]:
    """The cases with those of one series and size together, whatever their placement."""
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.operation, case.size_bytes), []).append(case)
    return [case for group in groups.values() for case in group]


def _summary(
    place: tuple[Variant, Case, Compute],
    results: Sequence[OverlapResult],
    usual: Variant,
    compared: Mapping[int, OverlapFigures],
) -> OverlapSummary:
    """``compared``: the figures of ``usual`` in this case by round, empty for itself."""
    variant, case, work = place
    by_round = _figures_by_round(results)
    measured = list(by_round.values())
    left_out = [one for one in results if measured and one.status == "skipped"]
    bad = next((one for one in results if one.status != "ok" and one not in left_out), None)
    explanation = next((one.explanation for one in results if one.explanation is not None), None)
    status, reason = ("ok", "") if bad is None else (bad.status, bad.reason)
    if not measured:
        return OverlapSummary(
            variant, case, work, status, reason, None, None, explanation=explanation
        )
    return OverlapSummary(
        variant,
        case,
        work,
        status,
        reason,
        _slow_down(
            by_round,
            compared,
            lambda one: one.communication_alone_s,
            lambda one: one.communication_s,
        ),
        _slow_down(by_round, compared, lambda one: one.compute_alone_s, lambda one: one.compute_s),
        (
            min(one.communication_evaluated for one in measured),
            min(one.compute_evaluated for one in measured),
        ),
        _mostly(one.launch_bound for one in measured),
        _mostly(one.compute_launch_bound for one in measured),
        _mostly(one.together_launch_bound for one in measured),
        max(one.attempts for one in results),
        next(one.implementation for one in results if one.figures is not None),
        next(one.implementation_path for one in results if one.figures is not None),
        explanation,
        usual,
        len(results),
        len(left_out),
        min(_alone_operations(one) for one in results if one.figures is not None),
    )


def _alone_operations(result: OverlapResult) -> int:
    times = result.communication_alone
    if times is None or not times.communication_s:
        return 0
    return times.communication_operations * max(0, len(times.communication_s[0]) - 1)


def _mostly(rounds: Iterable[bool]) -> bool:
    values = list(rounds)
    return 2 * sum(values) > len(values)


def _slow_down(
    rounds: Mapping[int, OverlapFigures],
    compared: Mapping[int, OverlapFigures],
    alone: Callable[[OverlapFigures], float],
    beside: Callable[[OverlapFigures], float],
) -> SlowDown:
    """``compared``: the rounds of the variant to compare with, if any."""
    figures = list(rounds.values())
    beside_s = median([beside(one) for one in figures])
    return SlowDown(
        median([alone(one) for one in figures]),
        beside_s,
        _ratio([beside(one) / alone(one) for one in figures]),
        _ratio([beside(one) / beside_s for one in figures]),
        _ratio(
            [beside(one) / beside(compared[at]) for at, one in rounds.items() if at in compared]
        ),
    )


def _ratio(ratios: Sequence[float]) -> RatioEstimate | None:
    logs = [math.log(one) for one in ratios]
    return paired_ratio([logs]) if len(logs) >= _LEAST_ROUNDS else None
