"""The same measured twice: how much longer it took, and whether that is more than the noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.plan.cases import Case
from cclmark.plan.transfers import Transfer
from cclmark.results.schema import CaseResult, Summary, TransferResult, TransferSummary


@dataclass(frozen=True)
class Repeat:
    """A thing in a cycle of both runs. ``ratio``: the second median time over the first.

    ``apart``: whether the 95 % confidence intervals of the medians have nothing in common; None
    where one of the runs had too few samples for an interval.
    """

    thing: Case | Transfer
    cycle: int
    ratio: float
    apart: bool | None


def repeats(
    first: Sequence[CaseResult | TransferResult], second: Sequence[CaseResult | TransferResult]
) -> list[Repeat]:
    """What has figures in both, in the order of the second."""
    before = _by_thing(first)
    found = []
    for (thing, cycle), now in _by_thing(second).items():
        then = before.get((thing, cycle))
        if then is not None and then.time_s > 0:
            found.append(Repeat(thing, cycle, now.time_s / then.time_s, _apart(then, now)))
    return found


def _by_thing(
    results: Sequence[CaseResult | TransferResult],
) -> dict[tuple[Case | Transfer, int], Summary | TransferSummary]:
    found: dict[tuple[Case | Transfer, int], Summary | TransferSummary] = {}
    for result in results:
        if result.summary is None:
            continue
        if isinstance(result, CaseResult):
            found[result.case, result.cycle] = result.summary
        else:
            found[result.transfer, 0] = result.summary
    return found


def _apart(one: Summary | TransferSummary, other: Summary | TransferSummary) -> bool | None:
    if one.half_width is None or other.half_width is None:
        return None
    between_s = abs(one.time_s - other.time_s)
    return between_s > one.time_s * one.half_width + other.time_s * other.half_width
