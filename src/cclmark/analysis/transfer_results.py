"""What the samples of transfers say: bandwidths, shares of the limit, pairs that stand out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cclmark.analysis.outliers import looked_at, outliers
from cclmark.analysis.statistics import median, median_half_width
from cclmark.plan.transfers import Transfer
from cclmark.results.kinds import TransferResult
from cclmark.results.schema import Relation, TransferSamples, TransferSummary

Pair = tuple[int, int]


def summarise_copies(transfer: Transfer, samples: TransferSamples) -> TransferSummary:
    """Median time and bandwidth of each flow, and of all of them together."""
    slowest_s = [max(row) for row in samples.device_s]
    summary = TransferSummary(
        time_s=median(slowest_s),
        min_s=min(slowest_s),
        max_s=max(slowest_s),
        samples=len(slowest_s),
        call_s=median([max(row) for row in samples.call_s]),
        half_width=median_half_width(slowest_s),
    )
    if transfer.measure != "latency":
        size_bytes = transfer.size_bytes
        by_flow = zip(*samples.device_s, strict=True)
        summary.flow_bytes_per_s = [_rate(size_bytes, median(times)) for times in by_flow]
        summary.bytes_per_s = _rate(size_bytes * len(transfer.flows), summary.time_s)
    return summary


def _rate(size_bytes: int, time_s: float) -> float:
    return size_bytes / time_s if time_s > 0 else 0.0


def utilisation(result: TransferResult, limits: Mapping[Pair, float]) -> float | None:
    """The share of what the pair's links carry in the directions used, None where unknown."""
    if result.summary is None or not result.summary.bytes_per_s:
        return None
    allowed = allowed_bytes_per_s(result.transfer, result.transfer.flows, limits)
    return result.summary.bytes_per_s / allowed if allowed else None


def allowed_bytes_per_s(
    transfer: Transfer, flows: Sequence[Pair], limits: Mapping[Pair, float]
) -> float | None:
    """What the links carry of ``flows`` of the transfer together, None where unknown.

    Flows that share a device's links have no limit of their own: None too.
    """
    if transfer.scope not in ("pairs", "all-pairs"):
        return None
    return sum(limits.get(flow, 0.0) for flow in flows) or None


@dataclass(frozen=True)
class Deviation:
    """A pair whose figure is far from what pairs of the same kind of link reach.

    ``value`` and ``usual`` (the median) are bytes per second, or seconds for a latency.
    """

    transfer: Transfer
    pair: Pair
    kind: str
    value: float
    usual: float

    @property
    def worse(self) -> bool:
        """Whether it is slower than usual."""
        if self.transfer.measure == "latency":
            return self.value > self.usual
        return self.value < self.usual


def deviations(results: Sequence[TransferResult], relations: Sequence[Relation]) -> list[Deviation]:
    """The pairs that stand out, compared within one matrix and one class of link.

    What stands out is as in ``outliers``, among all that ``results`` say.
    """
    kinds = {(one.first, one.second): f"{one.kind}, {one.hops} hops" for one in relations}
    names = {(one.first, one.second): one.kind for one in relations}
    groups: dict[tuple[Transfer, str], list[tuple[TransferResult, Pair, float]]] = defaultdict(list)
    for result in results:
        if result.transfer.scope not in ("pairs", "all-pairs"):
            continue  # a device takes up flows that begin together in an order of its own
        for pair, value in figures(result):
            kind = kinds.get(pair)
            if kind is not None and value > 0:  # zero: shorter than a clock can tell
                groups[result.transfer.series(), kind].append((result, pair, value))
    found = []
    of = looked_at(groups.values())
    for members in groups.values():
        usual, places = outliers([value for *_, value in members], of)
        for result, pair, value in (members[place] for place in places):
            found.append(Deviation(result.transfer, pair, names[pair], value, usual))
    return found


def wrong_flows(result: TransferResult) -> set[int]:
    """The numbers of the flows of which wrong data arrived."""
    findings = result.verification.findings if result.verification is not None else []
    return {finding.rank for finding in findings}


def figures(result: TransferResult) -> list[tuple[Pair, float]]:
    """What a result says of pairs of devices: bandwidths, or a latency.

    Nothing where wrong data arrived: how fast that was means nothing.
    """
    summary, transfer = result.summary, result.transfer
    if summary is None or transfer.host_memory:
        return []
    wrong = wrong_flows(result)
    if wrong and transfer.scope == "all-pairs":
        known = enumerate(zip(transfer.flows, summary.flow_bytes_per_s, strict=False))
        return [figure for number, figure in known if number not in wrong]
    if result.status == "wrong":
        return []
    if transfer.measure == "latency":
        return [(transfer.flows[0], summary.time_s)]
    if transfer.scope in ("pairs", "local"):
        return [(transfer.flows[0], summary.bytes_per_s)]
    # What measures something unknown may tell no bandwidths.
    return list(zip(transfer.flows, summary.flow_bytes_per_s, strict=False))
