"""Selects the operations that ran entirely beside other work, and computes their times.

Two streams of a rank work at the same time from the later one of their first events to the earlier
one of their last events. Only operations that begin and end within this window count. A collective
is one operation of all ranks, so it counts if it lies within the windows of all of them. A product
counts if it lies within the time of the collectives that count on its rank. The first span of a
stream never counts: ranks do not begin at exactly the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cclmark.analysis.paired import Rounds, ratio_of_rounds
from cclmark.analysis.ratio import RatioEstimate
from cclmark.base.grouping import by_key
from cclmark.base.statistics import median
from cclmark.journal.schema import Explanation
from cclmark.journal.summaries import algorithm_bandwidth, bus_factor
from cclmark.kinds.overlap.result import OverlapFigures, OverlapResult, OverlapTimes
from cclmark.work.cases import Case
from cclmark.work.computations import Compute
from cclmark.work.variants import DEFAULT, Variant


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
    groups = by_key(((case.operation, case.size_bytes), case) for case in cases)
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
    own = Rounds((one for one in results if one not in left_out), _beside_s)
    explanation = next((one.explanation for one in results if one.explanation is not None), None)
    status, reason = own.status, own.failed.reason if own.failed is not None else ""
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


def _beside_s(result: OverlapResult) -> float | None:
    return None if result.figures is None else result.figures.communication_s


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
    alone_s = {number: alone(one) for number, one in rounds.items()}
    beside_s = {number: beside(one) for number, one in rounds.items()}
    usual_s = {number: beside(one) for number, one in compared.items()}
    median_s = median(list(beside_s.values()))
    return SlowDown(
        median(list(alone_s.values())),
        median_s,
        ratio_of_rounds(beside_s.items(), alone_s),
        ratio_of_rounds(beside_s.items(), dict.fromkeys(beside_s, median_s)),
        ratio_of_rounds(beside_s.items(), usual_s),
    )


# Operations that wait for the host follow each other as fast as the host enqueues them.
_SHARE_OF_LAUNCHES = 0.85

SPANS = 24  # of a stream, at most: more events would cost time
LEAST_SPANS = 8  # of the stream with the longer operations
_LONGEST_FACTOR = 4.0
_PHASES = 3


@dataclass(frozen=True)
class CountedSpans:
    """The spans that count: the first one and the one after the last, of the collective on all
    ranks and of the compute on each rank."""

    communication: tuple[int, int]
    compute: tuple[tuple[int, int], ...]


def select(times: OverlapTimes) -> CountedSpans | None:
    """The spans that lie entirely beside the other work; None if a stream has none of them."""
    first, end = 1, math.inf
    for sent, computed in zip(times.communication_s, times.compute_s, strict=True):
        own = _inside(sent, max(sent[0], computed[0]), min(sent[-1], computed[-1]))
        first, end = max(first, own[0]), min(end, own[1])
    if first >= end:
        return None
    common = (first, int(end))
    compute = tuple(
        _inside(computed, sent[common[0]], sent[common[1]])
        for sent, computed in zip(times.communication_s, times.compute_s, strict=True)
    )
    if any(begin >= last for begin, last in compute):
        return None
    return CountedSpans(common, compute)


def _inside(marks_s: Sequence[float], begin_s: float, end_s: float) -> tuple[int, int]:
    """The spans, without the first one, between two times: a first one and one after the last."""
    inside = [
        number
        for number in range(1, len(marks_s) - 1)
        if marks_s[number] >= begin_s and marks_s[number + 1] <= end_s
    ]
    return (inside[0], inside[-1] + 1) if inside else (len(marks_s), 0)


def figures_of(
    communication: OverlapTimes, compute: OverlapTimes, together: OverlapTimes
) -> OverlapFigures | None:
    """The times of one operation alone and beside the other work, of the slowest rank each.

    None if no operation ran entirely beside the other work, or if the clock is too coarse.
    """
    selection = select(together)
    if selection is None:
        return None
    first, end = selection.communication
    sent_s = max(_mean(marks, first, end) for marks in together.communication_s)
    computed_s = max(
        _mean(marks, *span)
        for marks, span in zip(together.compute_s, selection.compute, strict=True)
    )
    sent_alone_s = _alone(communication.communication_s)
    computed_alone_s = _alone(compute.compute_s)
    if min(sent_s, computed_s, sent_alone_s, computed_alone_s) <= 0:
        return None
    return OverlapFigures(
        communication_alone_s=sent_alone_s / communication.communication_operations,
        communication_s=sent_s / together.communication_operations,
        compute_alone_s=computed_alone_s / compute.compute_operations,
        compute_s=computed_s / together.compute_operations,
        communication_evaluated=(end - first) / (len(together.communication_s[0]) - 1),
        compute_evaluated=min(
            (last - begin) / (len(marks) - 1)
            for marks, (begin, last) in zip(together.compute_s, selection.compute, strict=True)
        ),
        launch_bound=_launches_determine(communication),
        compute_launch_bound=_launches_determine(compute),
        together_launch_bound=_launches_determine(together),
    )


def _mean(marks_s: Sequence[float], first: int, end: int) -> float:
    return (marks_s[end] - marks_s[first]) / (end - first)


def _alone(by_rank: Sequence[Sequence[float]]) -> float:
    """The time of a span of the slowest rank, without the first one if there are others."""
    return max(_mean(marks, min(1, len(marks) - 2), len(marks) - 1) for marks in by_rank)


def _launches_determine(times: OverlapTimes) -> bool:
    """Whether the host took as long to enqueue the operations as the devices to execute them.

    With both streams the host enqueues the operations of both, while the devices execute either.
    """
    if not times.enqueue_s:
        return False
    return max(times.enqueue_s) >= _SHARE_OF_LAUNCHES * time_of_spans(times)


def time_of_spans(times: OverlapTimes) -> float:
    """Seconds from the first to the last event of both streams, of the slowest rank."""
    by_rank = [
        [*sent, *computed]
        for sent, computed in zip(times.communication_s, times.compute_s, strict=True)
    ]
    return max(max(marks) - min(marks) for marks in by_rank)


def phase_order(number: int) -> tuple[int, ...]:
    """The order of three phases in the round with this number, from 0.

    Every second round reverses the order of the round before it, so that a linear drift of the
    clock affects all phases alike in two rounds. Six rounds contain all orders.
    """
    first = number // 2 % _PHASES
    order = tuple((first + step) % _PHASES for step in range(_PHASES))
    return order if number % 2 == 0 else order[::-1]


@dataclass(frozen=True)
class Lengths:
    """How many spans of how many operations each stream gets."""

    communication: tuple[int, int]
    compute: tuple[int, int]


def lengths_for(communication_s: float, compute_s: float, duration_s: float) -> Lengths:
    """Spans with which each stream alone takes about ``duration_s``.

    ``communication_s`` and ``compute_s``: the time of one operation alone. The duration is longer
    if less than LEAST_SPANS of the longer operation fit.
    """
    duration_s = max(duration_s, LEAST_SPANS * max(communication_s, compute_s))
    return Lengths(_spans(duration_s / communication_s), _spans(duration_s / compute_s))


def balanced(lengths: Lengths, together: OverlapTimes) -> Lengths:
    """Spans with which both streams end at about the same time beside each other.

    ``together``: measured with ``lengths``. The stream that ended first gets more operations, at
    most _LONGEST_FACTOR times as many.
    """
    sent_s = max(marks[-1] - marks[0] for marks in together.communication_s)
    computed_s = min(marks[-1] - marks[0] for marks in together.compute_s)
    if sent_s <= 0 or computed_s <= 0:
        return lengths
    factor = sent_s / computed_s
    if factor >= 1:
        return Lengths(lengths.communication, _longer(lengths.compute, factor))
    return Lengths(_longer(lengths.communication, 1 / factor), lengths.compute)


def longer(lengths: Lengths) -> Lengths:
    """Spans with twice as many operations, so that more of them run beside the other work."""
    return Lengths(_longer(lengths.communication, 2), _longer(lengths.compute, 2))


def _longer(spans: tuple[int, int], factor: float) -> tuple[int, int]:
    return _spans(spans[0] * spans[1] * min(factor, _LONGEST_FACTOR))


def _spans(operations: float) -> tuple[int, int]:
    """At most SPANS spans with this many operations altogether, and at least LEAST_SPANS."""
    wanted = max(LEAST_SPANS, math.ceil(operations))
    each = math.ceil(wanted / SPANS)
    return math.ceil(wanted / each), each
