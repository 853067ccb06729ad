"""Converts cases, transfers and flows of journals to points, which thresholds judge."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import msgspec

from cclmark.analysis.device_time import judged_summary
from cclmark.analysis.limits import link_limit
from cclmark.analysis.pair_results import places_of
from cclmark.analysis.transfer_results import LinkLimits, allowed_bytes_per_s, figures
from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.plan.pair_cases import Pair
from cclmark.plan.thresholds import Threshold
from cclmark.plan.transfers import Transfer
from cclmark.results.journal import Journal
from cclmark.results.item_results import CaseResult, TransferResult


@dataclass(frozen=True)
class Point:
    """A case, or a flow of a transfer.

    Two points of the same case or flow have the same ``key``. ``figures`` contains all metrics that
    apply, with None if they were not measured or if data was wrong. ``limit_bytes_per_s``: the
    limit of its links, None if unknown.
    """

    key: Hashable
    words: str
    thing: Case | Transfer
    pairs: list[Pair]
    status: str
    reason: str = ""
    figures: dict[str, float | None] = field(default_factory=dict)
    limit_bytes_per_s: float | None = None

    def fits(self, threshold: Threshold) -> bool:
        """Whether the threshold applies to this point."""
        if threshold.metric.name not in self.figures:
            return False
        if threshold.pairs and not set(threshold.pairs) & set(self.pairs):
            return False
        if any(getattr(self.thing, name) not in values for name, values in threshold.where):
            return False
        sizes = threshold.sizes
        return sizes is None or self.thing.is_between(sizes.least_bytes, sizes.most_bytes)


def points_of(journal: Journal, *, device_times: bool = True) -> list[Point]:
    """All points, in the order of the run.

    ``device_times``: cases whose time launches determine have the figures of the device instead of
    the cost of a call.
    """
    limits = LinkLimits(journal.header.relations)
    points = [_of_case(result, journal, limits, device_times) for result in journal.cases]
    for result in journal.transfers:
        points += _of_transfer(result, limits)
    return points


def _of_case(result: CaseResult, journal: Journal, limits: LinkLimits, device_times: bool) -> Point:
    case = result.case
    of_device = device_times and result.device is not None
    summary = judged_summary(result) if of_device else result.summary
    if summary is None or result.status == "wrong":
        values: dict[str, float | None] = dict.fromkeys(("busbw", "algbw", "time"))
    else:
        values = {
            "busbw": summary.busbw_bytes_per_s,
            "algbw": summary.algbw_bytes_per_s,
            "time": summary.time_s,
        }
    if not moves_data(case.operation):
        values = {"time": values["time"]}
    pairs = places_of(case)
    own = min((limits.of(pair) for pair in pairs), default=0.0)
    return Point(
        key=case,
        words=f"{case.describe()}, {case.ccl}{' (device time)' if of_device else ''}",
        thing=case,
        pairs=pairs,
        status=result.status,
        reason=result.reason,
        figures=values,
        limit_bytes_per_s=own or link_limit(journal.header.links, journal.header.hosts),
    )


def _of_transfer(result: TransferResult, limits: LinkLimits) -> Iterator[Point]:
    """One point for each flow with its own figure: both directions together have one."""
    transfer = result.transfer
    metric = "latency" if transfer.measure == "latency" else "bandwidth"
    together = transfer.scope in ("pairs", "local", "host")
    known = dict(_figures(result))
    for flow in transfer.flows[:1] if together else transfer.flows:
        flows = transfer.flows if together else (flow,)
        yield Point(
            key=(transfer, flow),
            words=msgspec.structs.replace(transfer, flows=flows).describe()
            + ("" if together else f" ({transfer.scope})"),
            thing=transfer,
            pairs=list(flows),
            status=result.status,
            reason=result.reason,
            figures={metric: known.get(flow)},
            limit_bytes_per_s=allowed_bytes_per_s(transfer, flows, limits),
        )


def _figures(result: TransferResult) -> list[tuple[Pair, float]]:
    """The figures of pairs, and of copies from and to the host."""
    if not result.transfer.host_memory:
        return figures(result)
    if result.summary is None or result.status == "wrong":
        return []
    return [(result.transfer.flows[0], result.summary.bytes_per_s)]
