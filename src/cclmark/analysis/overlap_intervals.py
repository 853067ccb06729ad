"""Selects the operations that ran entirely beside other work, and computes their times.

Two streams of a rank work at the same time from the later one of their first events to the earlier
one of their last events. Only operations that begin and end within this window count. A collective
is one operation of all ranks, so it counts if it lies within the windows of all of them. A product
counts if it lies within the time of the collectives that count on its rank. The first span of a
stream never counts: ranks do not begin at exactly the same time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.kinds.overlap.result import OverlapFigures, OverlapTimes

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
