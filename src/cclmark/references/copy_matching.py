"""Selects the reference to compare a copy between two devices with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from cclmark.base.statistics import median
from cclmark.journal.item_results import TransferResult
from cclmark.journal.schema import Header, Relation, TransferSummary
from cclmark.references.match import Match, tool_difference
from cclmark.references.reference import Reference
from cclmark.references.reference_curves import SATURATED_BYTES
from cclmark.work.device_names import is_known, kind_of
from cclmark.work.items import P2P
from cclmark.work.sizes import format_size
from cclmark.work.transfers import Transfer

_HOSTS = "whether the two devices are on one host is unknown"
_SAME_LIMIT = 0.05  # of a link's specified rate, which sources round

# The median time in seconds or bandwidth in bytes per second; one of the figures; their number.
_Middle = tuple[float, Reference, int]


class CopyReferences:
    """References for the copies of one run. They are sorted once, because copies may be many."""

    def __init__(self, references: Iterable[Reference], header: Header) -> None:
        """``header``: of the run's journal."""
        self._header = header
        self._groups: dict[Reference, _Group] = {}
        for one in references:
            if one.operation == P2P and one.hosts <= 1:
                common = msgspec.structs.replace(one.series(), pair=None, size_bytes=one.size_bytes)
                self._groups.setdefault(common, _Group(common)).add(one)
        self._relations = {(one.first, one.second): one for one in header.relations}
        self._is_on_one_host: bool | None = None  # devices without hosts: whether they are on one
        if header.imported is not None and header.imported.hosts:
            self._is_on_one_host = header.imported.hosts == 1
        self._by_rank = {device.rank: device for device in header.devices}
        self._fair: dict[tuple[object, ...], list[_Group]] = {}

    def nearest(self, transfer: Transfer, summary: TransferSummary) -> Match | None:
        """The reference for a copy of the run; None if no reference is comparable.

        Both are copies between two devices of the same kinds on one host. Measure, engine,
        direction and kernel are the same as far as the source reports them, and so is the length of
        the path. Of a source with several pairs the median is used, of a user's own source the same
        pair. Sizes are equal, or both are at least 256 MiB. Latencies have the same method. Copies
        of another tool whose text names no hosts are not compared if there are several, and if
        their number is unknown that is a difference.
        """
        pair = _pair(transfer)
        if pair is None or not _is_comparable(transfer):
            return None
        own = [self._by_rank[rank] for rank in set(pair) if rank in self._by_rank]
        kinds = frozenset(kind_of(device.name) for device in own)
        if len(own) != 2 or len({device.host for device in own}) != 1:
            return None
        on_one_host = bool(own[0].host) or self._is_on_one_host
        if on_one_host is False or not all(map(is_known, kinds)):
            return None
        relation = self._relations.get(pair)
        groups = self._groups_for(transfer, kinds, relation)
        found = [_match(group, pair, transfer, summary, relation, self._header) for group in groups]
        ranked = [match for match in found if match is not None]
        if not on_one_host:
            ranked = [replace(match, differences=(*match.differences, _HOSTS)) for match in ranked]
        return min(ranked, key=_rank, default=None)

    def _groups_for(
        self, transfer: Transfer, kinds: frozenset[str], relation: Relation | None
    ) -> list[_Group]:
        """The groups that are comparable with all copies of that kind over such a path."""
        path = None if relation is None else (relation.hops, relation.limit_bytes_per_s)
        key = (transfer.series(), kinds, path)
        if key not in self._fair:
            self._fair[key] = [
                group
                for group in self._groups.values()
                if {kind for kind, _ in group.common.devices} == kinds
                and _is_of(group.common, transfer)
                and _may_be_the_path(group.common, relation)
                and group.usual(latency=transfer.measure == "latency") is not None
            ]
        return self._fair[key]


class _Group:
    """Figures that differ only in the pair of devices."""

    def __init__(self, common: Reference) -> None:
        """``common``: everything but the pair and the figures."""
        self.common = common
        self._all: list[Reference] = []
        self._own: dict[tuple[int, int], list[Reference]] = {}
        self._usual: dict[bool, _Middle | None] = {}

    def add(self, one: Reference) -> None:
        """Adds a figure."""
        self._all.append(one)
        if one.source.own and one.pair is not None:
            self._own.setdefault(one.pair, []).append(one)

    def of(self, pair: tuple[int, int], *, latency: bool) -> _Middle | None:
        """The median of the user's own figures of the pair, otherwise of all pairs."""
        return _middle(self._own.get(pair, ()), latency=latency) or self.usual(latency=latency)

    def usual(self, *, latency: bool) -> _Middle | None:
        """The median of all pairs."""
        if latency not in self._usual:
            self._usual[latency] = _middle(self._all, latency=latency)
        return self._usual[latency]


def _middle(figures: Sequence[Reference], *, latency: bool) -> _Middle | None:
    """The median of the figures; None without figures."""
    known = [
        (value, one)
        for one in figures
        if (value := one.time_s if latency else one.busbw_bytes_per_s)
    ]
    if not known:
        return None
    return median([value for value, _ in known]), known[0][1], len(known)


def _pair(transfer: Transfer) -> tuple[int, int] | None:
    """The device that copies, and its peer."""
    start, end = transfer.flows[0] if transfer.flows else (0, 0)
    return None if start == end else transfer.row_and_column((start, end))


def _is_comparable(transfer: Transfer) -> bool:
    flows = 2 if transfer.measure == "bidirectional" else 1
    return (
        transfer.scope == "pairs"
        and len(transfer.flows) == flows
        and not transfer.host_memory
        and transfer.peer_access
        and transfer.blocks == 0
    )


def _is_of(one: Reference, transfer: Transfer) -> bool:
    """Whether both are the same kind of copy, as far as the source reports it."""
    if one.measure != transfer.measure:
        return False
    for told, own in (
        (one.direction, transfer.direction),
        (one.engine, transfer.engine),
        (one.kernel, transfer.kernel),
    ):
        if told and told != own:
            return False
    if transfer.measure == "latency":
        return one.method == transfer.method
    large = min(one.size_bytes or SATURATED_BYTES, transfer.size_bytes) >= SATURATED_BYTES
    return large or one.size_bytes == transfer.size_bytes


def _may_be_the_path(one: Reference, relation: Relation | None) -> bool:
    """Whether the pair's path can be like the reference's. An unknown path can, and is reported."""
    if relation is None:
        return True
    if one.limit_bytes_per_s:
        return abs(relation.limit_bytes_per_s / one.limit_bytes_per_s - 1) <= _SAME_LIMIT
    return one.hops is None or relation.hops is None or one.hops == relation.hops


def _match(
    group: _Group,
    pair: tuple[int, int],
    transfer: Transfer,
    summary: TransferSummary,
    relation: Relation | None,
    header: Header,
) -> Match | None:
    latency = transfer.measure == "latency"
    known = group.of(pair, latency=latency)
    if known is None:
        return None
    value, one, cells = known
    if latency:
        time_s, bandwidth = value, 0.0
        share = time_s / summary.time_s if summary.time_s > 0 else 0.0
    else:
        bandwidth, share = value, summary.bytes_per_s / value
        time_s = transfer.size_bytes * len(transfer.flows) / bandwidth
    if share <= 0:
        return None
    return Match(
        reference=one,
        share=share,
        bandwidth=bandwidth,
        time_s=time_s,
        size=_what(one, cells),
        alike=True,
        differences=(*_differences(one, transfer, relation), *tool_difference(one, header)),
    )


def _what(one: Reference, cells: int) -> str:
    words = [
        one.measure,
        one.direction,
        f"{one.engine} {one.kernel}".strip(),
        format_size(one.size_bytes) if one.size_bytes and one.measure != "latency" else "",
    ]
    of = f", the median of {cells} pairs" if cells > 1 else ""
    return " ".join(filter(None, words)) + of


def _differences(one: Reference, transfer: Transfer, relation: Relation | None) -> list[str]:
    found = []
    if not one.engine or (transfer.measure != "latency" and not one.size_bytes):
        found.append("the copy method there is unknown")
    if one.limit_bytes_per_s:
        known = relation is not None and relation.limit_bytes_per_s > 0
    else:
        known = one.hops is not None and relation is not None and relation.hops is not None
    if not known:
        found.append("whether the paths are alike is unknown")
    if one.approximate:
        found.append("it is rounded or read off a plot")
    if one.kind == "floor":
        found.append("it is a floor, no measurement")
    return found


def _rank(match: Match) -> tuple[object, ...]:
    one = match.reference
    return (len(match.differences), not one.source.own, not one.engine, not one.kernel)


def slowest_matches(
    results: Sequence[TransferResult],
    header: Header,
    match_of: Callable[[TransferResult, Header], Match | None],
) -> dict[Transfer, Match]:
    """By series, the reference of its slowest pair: of paths of several lengths, the lowest share.

    ``match_of`` gives the reference of a copy.
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
