"""The main findings of a whole run, and the times of several libraries for the same cases."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cclmark.analysis.summary import largest_launch_bound
from cclmark.base.grouping import by_key
from cclmark.base.statistics import median
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Summary
from cclmark.work.cases import Case
from cclmark.work.operations import info_of


@dataclass(frozen=True)
class OperationFindings:
    """The best bandwidth and the smallest message's latency of one operation with one library.

    ``name`` contains the operation, and the library and the number of ranks if there are several.
    ``peak`` is the result with the highest bus bandwidth, converged or not, ``latency`` that of the
    smallest message. Both are results without cclmark's copy of the input (is_staged) if there are
    any. ``half_peak_bytes`` (n_1/2 of Hockney, "The science of computer benchmarking", 1996) is the
    smallest size from which on all bus bandwidths of the peak's curve are at least half of the
    peak. It is None if that is the curve's first size, and if a message larger than the peak's has
    less. ``largest_bytes`` is the size of the largest message.
    ``late`` is the rank that the others waited for in most cases, ``slowest`` the rank that took
    longest in most, with the share of these cases; None if no rank stands out. ``launch_bound`` is
    the largest case whose time launches determine, None if there is no such case.
    ``average_bytes_per_s`` is the mean bus bandwidth of all cases, as nccl-tests prints it.
    Of several ``cycles`` the figures are medians, see ``settled``.
    """

    name: str
    operation: str
    peak: CaseResult
    latency: CaseResult
    largest_bytes: int
    average_bytes_per_s: float
    slowest: tuple[int, float] | None
    late: tuple[int, float] | None
    launch_bound: CaseResult | None = None
    half_peak_bytes: int | None = None
    cycles: int = 1


def measured(results: Sequence[CaseResult]) -> list[tuple[CaseResult, Summary]]:
    """The results with figures, and these figures. Results with wrong data are left out."""
    return [
        (result, result.summary)
        for result in results
        if result.summary is not None and result.status != "wrong"
    ]


def is_staged(result: CaseResult) -> bool:
    """Whether the time of a measured case includes cclmark's copy of the input.

    Times of another tool, whose route is unknown, do not include it.
    """
    return (
        result.summary is not None
        and result.case.in_place
        and result.route != ""
        and info_of(result.case.operation).staged_in_place
    )


def settled(results: Sequence[CaseResult]) -> list[CaseResult]:
    """For each case, the cycle with the median time of all cycles with figures, in their order."""
    cycles = by_key(
        (result.case, (result.summary.time_s, place))
        for place, result in enumerate(results)
        if result.summary is not None and result.status != "wrong"
    )
    return [results[sorted(found)[(len(found) - 1) // 2][1]] for found in cycles.values()]


def findings(results: Sequence[CaseResult]) -> list[OperationFindings]:
    """One entry per operation, library and number of ranks, in the order of the run."""
    entries = []
    of_key = by_key((_key(one), one) for one in settled(results))
    cycles = by_key((_key(one), one.cycle) for one, _ in measured(results))
    keys = dict.fromkeys(_key(one) for one in results)
    libraries, counts = ({key[part] for key in keys} for part in (1, 2))
    for key in keys:
        own = measured(of_key.get(key, []))
        if not own:
            continue
        plain = [pair for pair in own if not is_staged(pair[0])] or own
        peak = max(plain, key=lambda pair: pair[1].busbw_bytes_per_s)
        smallest = min(result.case.size_bytes for result, _ in plain)
        latency = min(
            (pair for pair in plain if pair[0].case.size_bytes == smallest),
            key=lambda pair: pair[1].time_s,
        )
        operation, ccl, ranks = key
        words = [operation, ccl if len(libraries) > 1 else ""]
        words.append(f"{ranks} ranks" if len(counts) > 1 else "")
        entries.append(
            OperationFindings(
                name=" · ".join(filter(None, words)),
                operation=operation,
                peak=peak[0],
                latency=latency[0],
                largest_bytes=max(result.case.size_bytes for result, _ in own),
                average_bytes_per_s=math.fsum(one.busbw_bytes_per_s for _, one in own) / len(own),
                slowest=_most_often([summary.slowest_rank for _, summary in own]),
                late=_most_often([summary.late_rank for _, summary in own]),
                launch_bound=largest_launch_bound([result for result, _ in own]),
                half_peak_bytes=_half_peak_bytes(peak, own),
                cycles=len({*cycles[key]}),
            )
        )
    return entries


def _half_peak_bytes(
    peak: tuple[CaseResult, Summary], own: Sequence[tuple[CaseResult, Summary]]
) -> int | None:
    at, best = peak
    curve = sorted(
        (one.case.size_bytes, summary.busbw_bytes_per_s)
        for one, summary in own
        if one.case.series() == at.case.series()
    )
    below = [size for size, rate in curve if 2 * rate < best.busbw_bytes_per_s]
    above = [size for size, _ in curve if below and below[-1] < size <= at.case.size_bytes]
    return above[0] if above else None


def _key(result: CaseResult) -> tuple[str, str, int]:
    return result.case.operation, result.case.ccl, result.case.ranks


def _most_often(ranks: Sequence[int | None]) -> tuple[int, float] | None:
    """The rank of more than half of the cases with its share; None if there is none."""
    named = Counter(rank for rank in ranks if rank is not None)
    if not named:
        return None
    rank, times = named.most_common(1)[0]
    return (rank, times / len(ranks)) if 2 * times > len(ranks) else None


@dataclass(frozen=True)
class LibraryComparison:
    """One sweep over sizes that several libraries measured.

    ``case`` represents the sweep; its size, count and library have no meaning. ``rows``: for each
    size in bytes the seconds of each of ``ccls``, None without a time; medians over the cycles.
    """

    case: Case
    ccls: list[str]
    rows: list[tuple[int, list[float | None]]]


def comparisons(results: Sequence[CaseResult]) -> list[LibraryComparison]:
    """The sweeps of several libraries, without wrong results, whose times have no meaning."""
    found: dict[Case, dict[tuple[int, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    ccls: dict[Case, dict[str, None]] = defaultdict(dict)
    for result in results:
        if result.summary is None or result.status != "ok":
            continue
        case = result.case
        sweep = msgspec.structs.replace(case, ccl="", size_bytes=0, count=0, matrix=())
        ccls[sweep][case.ccl] = None
        found[sweep][case.size_bytes, case.ccl].append(result.summary.time_s)
    return [
        LibraryComparison(sweep, list(ccls[sweep]), _rows(times, list(ccls[sweep])))
        for sweep, times in found.items()
        if len(ccls[sweep]) > 1
    ]


def _rows(
    times: dict[tuple[int, str], list[float]], ccls: Sequence[str]
) -> list[tuple[int, list[float | None]]]:
    return [
        (size, [median(times[size, ccl]) if (size, ccl) in times else None for ccl in ccls])
        for size in sorted({size for size, _ in times})
    ]
