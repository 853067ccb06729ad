"""What a whole run shows: the few sentences that a reader wants first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.results.schema import CaseResult, Summary


@dataclass(frozen=True)
class OperationFindings:
    """The best bandwidth and the smallest message's latency of one operation.

    ``peak`` and ``latency`` are results; ``late_rank`` is the rank that the others waited for in
    most cases, ``slowest_rank`` the one that took longest in most, None where none stands out.
    """

    operation: str
    peak: CaseResult
    latency: CaseResult
    slowest_rank: int | None
    late_rank: int | None


def measured(results: Sequence[CaseResult]) -> list[tuple[CaseResult, Summary]]:
    """The results that have figures, with them."""
    return [(result, result.summary) for result in results if result.summary is not None]


def findings(results: Sequence[CaseResult]) -> list[OperationFindings]:
    """One entry per operation that was measured, in the order of the run."""
    entries = []
    for operation in dict.fromkeys(result.case.operation for result in results):
        own = measured([result for result in results if result.case.operation == operation])
        if not own:
            continue
        peak = max(own, key=lambda pair: pair[1].busbw_bytes_per_s)
        smallest = min(result.case.size_bytes for result, _ in own)
        latency = min(
            (pair for pair in own if pair[0].case.size_bytes == smallest),
            key=lambda pair: pair[1].time_s,
        )
        entries.append(
            OperationFindings(
                operation=operation,
                peak=peak[0],
                latency=latency[0],
                slowest_rank=_most_often([summary.slowest_rank for _, summary in own]),
                late_rank=_most_often([summary.late_rank for _, summary in own]),
            )
        )
    return entries


def _most_often(ranks: Sequence[int | None]) -> int | None:
    """The rank named in more than half of the cases."""
    named = Counter(rank for rank in ranks if rank is not None)
    if not named:
        return None
    rank, times = named.most_common(1)[0]
    return rank if 2 * times > len(ranks) else None
