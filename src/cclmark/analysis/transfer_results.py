"""Evaluates the samples of transfers: bandwidths, shares of the limit, pairs that stand out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.outliers import looked_at, outliers, times_mean_little
from cclmark.analysis.statistics import median, median_half_width
from cclmark.analysis.summary import algorithm_bandwidth
from cclmark.journal.item_results import TransferResult
from cclmark.journal.schema import Header, Relation, TransferSamples, TransferSummary
from cclmark.work.transfers import Transfer

Pair = tuple[int, int]


def summarise_copies(transfer: Transfer, samples: TransferSamples) -> TransferSummary:
    """The median time of all flows together, and the bandwidths of all and of each flow."""
    slowest_s = [max(row) for row in samples.device_s]
    summary = TransferSummary(
        time_s=median(slowest_s),
        min_s=min(slowest_s),
        max_s=max(slowest_s),
        samples=len(slowest_s),
        call_s=median([max(row) for row in samples.call_s]) if samples.call_s else None,
        half_width=median_half_width(slowest_s),
        launch_s=median([max(row) for row in samples.launch_s]) if samples.launch_s else 0.0,
    )
    if transfer.measure != "latency":
        size_bytes = transfer.size_bytes
        by_flow = zip(*samples.device_s, strict=True)
        summary.flow_bytes_per_s = [
            algorithm_bandwidth(size_bytes, median(times)) for times in by_flow
        ]
        summary.bytes_per_s = algorithm_bandwidth(size_bytes * len(transfer.flows), summary.time_s)
    return summary


class LinkLimits:
    """The limits of the connections between devices, in bytes per second.

    Both directions of a link have a limit each. Copies between host devices share the bandwidth of
    the host's memory, whatever their directions.
    """

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._of = {(one.first, one.second): one.limit_bytes_per_s for one in relations}
        self._in_memory = {(one.first, one.second) for one in relations if one.kind == "MEM"}

    def of(self, pair: Pair) -> float:
        """The limit from the first device to the second, 0 if unknown."""
        return self._of.get(pair, 0.0)

    def of_all(self, flows: Sequence[Pair]) -> float:
        """The limit of simultaneous flows, 0 if unknown."""
        limits = [self.of(flow) for flow in flows]
        return max(limits) if self._in_memory.issuperset(flows) else sum(limits)


def utilisation(result: TransferResult, limits: LinkLimits) -> float | None:
    """The share of the links' limit in the used directions; None if unknown."""
    if result.summary is None or not result.summary.bytes_per_s:
        return None
    allowed = allowed_bytes_per_s(result.transfer, result.transfer.flows, limits)
    return result.summary.bytes_per_s / allowed if allowed else None


def allowed_bytes_per_s(
    transfer: Transfer, flows: Sequence[Pair], limits: LinkLimits
) -> float | None:
    """The links' limit for ``flows`` of the transfer together; None if unknown.

    It is also None for flows that share a device's links, which have no limit of their own.
    """
    if transfer.scope not in ("pairs", "all-pairs"):
        return None
    return limits.of_all(flows) or None


@dataclass(frozen=True)
class Deviation:
    """A pair whose figure is far from those of other pairs with the same kind of link.

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


_Groups = dict[tuple[Transfer, str | None], list[tuple[TransferResult, Pair, float]]]


def _groups(results: Sequence[TransferResult], relations: Sequence[Relation]) -> _Groups:
    """The figures of each matrix and class of link, None for pairs with an unknown one."""
    kinds = {(one.first, one.second): f"{one.kind}, {one.hops} hops" for one in relations}
    groups: _Groups = defaultdict(list)
    for result in results:
        if result.transfer.scope not in ("pairs", "all-pairs"):
            continue  # the device determines the order of flows that begin together
        for pair, value in figures(result):
            if value > 0:  # zero: shorter than the clock's resolution
                groups[result.transfer.series(), kinds.get(pair)].append((result, pair, value))
    return groups


def deviations(results: Sequence[TransferResult], relations: Sequence[Relation]) -> list[Deviation]:
    """The pairs that stand out, compared within one matrix and one class of link.

    The criterion is that of ``outliers``, applied to all figures of ``results`` together.
    """
    names = {(one.first, one.second): one.kind for one in relations}
    groups = [own for (_, kind), own in _groups(results, relations).items() if kind is not None]
    found = []
    of = looked_at(groups)
    for members in groups:
        usual, places = outliers([value for *_, value in members], of)
        for result, pair, value in (members[place] for place in places):
            found.append(Deviation(result.transfer, pair, names[pair], value, usual))
    return found


def wrong_flows(result: TransferResult) -> set[int]:
    """The numbers of the flows with wrong data."""
    findings = result.verification.findings if result.verification is not None else []
    return {finding.rank for finding in findings}


def figures(result: TransferResult) -> list[tuple[Pair, float]]:
    """The figures of a result by pair of devices: bandwidths, or a latency.

    Figures with wrong data are left out, because their times have no meaning.
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
    # A result with an unknown measure may have no bandwidths.
    return list(zip(transfer.flows, summary.flow_bytes_per_s, strict=False))


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

    ``compared``: the number of figures of classes of links with enough pairs for a usual value.
    ``rest``: of the other figures of pairs.
    """

    far: list[Deviation]
    compared: int
    rest: int = 0

    @property
    def worse(self) -> list[Deviation]:
        """The pairs that are slower than usual."""
        return [one for one in self.far if one.worse]


def outliers_of(results: Sequence[TransferResult], header: Header) -> Outliers:
    """The pairs that are far from others with the same kind of link.

    Empty if the run itself reports that its times are not meaningful.
    """
    if times_mean_little(header):
        return Outliers([], compared=0)
    groups = _groups(results, header.relations)
    compared = looked_at(own for (_, kind), own in groups.items() if kind is not None)
    far = sorted(
        deviations(results, header.relations),
        key=lambda one: (not one.worse, min(one.value / one.usual, one.usual / one.value)),
    )
    return Outliers(far, compared, sum(map(len, groups.values())) - compared)
