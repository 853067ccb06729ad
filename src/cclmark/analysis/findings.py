"""What a whole run shows: the few sentences that a reader wants first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.results.schema import CaseResult, Summary


@dataclass(frozen=True)
class OperationFindings:
    """The best bandwidth and the smallest message's latency of one operation with one library.

    ``name`` is the operation's, with the library's where the run has several;
    ``peak`` and ``latency`` are results; ``late_rank`` is the rank that the others waited for in
    most cases, ``slowest_rank`` the one that took longest in most, None where none stands out.
    """

    name: str
    operation: str
    peak: CaseResult
    latency: CaseResult
    slowest_rank: int | None
    late_rank: int | None


def measured(results: Sequence[CaseResult]) -> list[tuple[CaseResult, Summary]]:
    """The results that have figures, with them."""
    return [(result, result.summary) for result in results if result.summary is not None]


def findings(results: Sequence[CaseResult]) -> list[OperationFindings]:
    """One entry per operation and library that were measured, in the order of the run."""
    entries = []
    several = len({result.case.ccl for result in results}) > 1
    for operation, ccl in dict.fromkeys((one.case.operation, one.case.ccl) for one in results):
        own = measured(
            [one for one in results if (one.case.operation, one.case.ccl) == (operation, ccl)]
        )
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
                name=f"{operation} · {ccl}" if several else operation,
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
