"""The findings of a run of copies: pairs that stand out, checks, and matches with references.

Every format uses these findings, so that no format contradicts another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cclmark.analysis.meaning import times_mean_little
from cclmark.analysis.outliers import LEAST_VALUES
from cclmark.analysis.reference_match import Match
from cclmark.analysis.transfers import Deviation, deviations, figures
from cclmark.plan.transfers import Transfer
from cclmark.results.schema import Header, TransferResult


@dataclass(frozen=True)
class Checks:
    """The numbers of transfers that are copies, that were checked, and that were wrong.

    ``unverifiable``: the number of latencies of loads and stores, which have no output to check.
    """

    copies: int
    checked: int
    wrong: int
    unverifiable: int


def checks_of(results: Sequence[TransferResult]) -> Checks:
    """Counts the results of a run."""
    copies = [one for one in results if one.transfer.method in ("", "copy")]
    return Checks(
        copies=len(copies),
        checked=sum(one.verification is not None for one in results),
        wrong=sum(one.status == "wrong" for one in results),
        unverifiable=len(results) - len(copies),
    )


@dataclass(frozen=True)
class Outliers:
    """The pairs that stand out, the worst first and better ones last.

    ``compared``: whether any class of links has enough pairs for a usual value.
    """

    far: list[Deviation]
    compared: bool

    @property
    def worse(self) -> list[Deviation]:
        """The pairs that are slower than usual."""
        return [one for one in self.far if one.worse]


def outliers_of(results: Sequence[TransferResult], header: Header) -> Outliers:
    """The pairs that are far from others with the same kind of link.

    Empty if the run itself reports that its times are not meaningful.
    """
    if times_mean_little(header):
        return Outliers([], compared=False)
    counts: dict[Transfer, int] = {}
    for result in results:
        if result.transfer.scope in ("pairs", "all-pairs"):
            series = result.transfer.series()
            counts[series] = counts.get(series, 0) + len(figures(result))
    far = sorted(
        deviations(results, header.relations),
        key=lambda one: (not one.worse, min(one.value / one.usual, one.usual / one.value)),
    )
    return Outliers(far, compared=any(count >= LEAST_VALUES for count in counts.values()))


def slowest_matches(
    results: Sequence[TransferResult],
    header: Header,
    match_of: Callable[[TransferResult, Header], Match | None],
) -> dict[Transfer, Match]:
    """The reference of the slowest pair of each series; with paths of several lengths, the match
    with the lowest share.

    ``match_of`` returns the reference of a copy.
    """
    hops = {(one.first, one.second): one.hops for one in header.relations}
    slowest: dict[tuple[Transfer, int | None], TransferResult] = {}
    for result in results:
        if result.summary is None or not result.transfer.flows:
            continue
        key = result.transfer.series(), hops.get(result.transfer.flows[0])
        other = slowest[key].summary if key in slowest else None
        if other is None or result.summary.time_s > other.time_s:
            slowest[key] = result
    found: dict[Transfer, Match] = {}
    for (series, _), result in slowest.items():
        match = match_of(result, header)
        if match is None:
            continue
        known = found.get(series)
        if known is None or (not match.exact, match.share) < (not known.exact, known.share):
            found[series] = match
    return found
