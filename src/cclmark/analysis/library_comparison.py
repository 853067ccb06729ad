"""Compares the times of several libraries for the same cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cclmark.analysis.statistics import median
from cclmark.plan.cases import Case
from cclmark.results.item_results import CaseResult


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
    """The sweeps that at least two libraries measured alike, in the order of the run.

    Wrong results are left out, because their times have no meaning.
    """
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
