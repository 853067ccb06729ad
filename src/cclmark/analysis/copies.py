"""The findings of a run of copies: pairs that stand out, and checks.

Every format uses these findings, so that no format contradicts another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.outliers import LEAST_VALUES, times_mean_little
from cclmark.analysis.transfer_results import Deviation, deviations, figures
from cclmark.plan.transfers import Transfer
from cclmark.results.item_results import TransferResult
from cclmark.results.schema import Header


@dataclass(frozen=True)
class Checks:
    """The numbers of transfers with an output, that were checked, and that were wrong.

    ``messages``: how many of the former are messages between hosts, the others are copies.
    ``unverifiable``: the number of latencies of loads and stores, which have no output to check.
    """

    copies: int
    messages: int
    checked: int
    wrong: int
    unverifiable: int


def checks_of(results: Sequence[TransferResult]) -> Checks:
    """Counts the results of a run."""
    copies = [one for one in results if one.transfer.has_output]
    return Checks(
        copies=len(copies),
        messages=sum(bool(one.transfer.ccl) for one in copies),
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
