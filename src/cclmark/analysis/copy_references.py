"""Which reference a copy from one device to another is to be held against."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.analysis.reference_curves import SATURATED_BYTES
from cclmark.analysis.reference_match import Match
from cclmark.analysis.references import kinds_of
from cclmark.analysis.statistics import median
from cclmark.plan.device_names import is_known
from cclmark.plan.sizes import format_size
from cclmark.plan.transfers import Transfer
from cclmark.results.reference import P2P, Reference
from cclmark.results.schema import Header, Relation, TransferSummary

_SAME_LIMIT = 0.05  # of a link's specified rate, which sources round


def nearest_transfer(
    references: Sequence[Reference], transfer: Transfer, summary: TransferSummary, header: Header
) -> Match | None:
    """The reference for a copy of the journal that begins with ``header``; None without a fair one.

    Both are copies between two devices of that kind on one host, of the same measure, engine,
    direction and kernel as far as the source tells them, over paths of the same length; of a
    source with several pairs it is their median, and of a user's own the same pair.
    Sizes are the same, or both are 256 MiB at least; latencies are taken by the same method.
    """
    pair = _pair(transfer)
    if pair is None or not _is_comparable(transfer):
        return None
    kinds = kinds_of(header, pair)
    relation = next((one for one in header.relations if (one.first, one.second) == pair), None)
    hosts = {device.host for device in header.devices if device.rank in pair}
    if not all(map(is_known, kinds)) or sum(kinds.values()) != 2 or len(hosts) != 1:
        return None
    groups: dict[Reference, list[Reference]] = {}
    for one in references:
        if (
            {kind for kind, _ in one.devices} == set(kinds)
            and _is_of(one, transfer)
            and _may_be_the_path(one, relation)
        ):
            groups.setdefault(_group(one), []).append(one)
    found = [_match(group, pair, transfer, summary, relation) for group in groups.values()]
    ranked = [match for match in found if match is not None]
    return min(ranked, key=_rank, default=None)


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
    """Whether both are the same kind of copy, as far as the source tells."""
    if one.operation != P2P or one.hosts > 1 or one.measure != transfer.measure:
        return False
    for told, own in (
        (one.direction, transfer.direction),
        (one.engine, transfer.engine),
        (one.kernel, transfer.kernel),
    ):
        if told and told != own:
            return False
    if transfer.measure == "latency":
        return one.method == transfer.method and one.time_s is not None
    large = min(one.size_bytes or SATURATED_BYTES, transfer.size_bytes) >= SATURATED_BYTES
    return bool(one.busbw_bytes_per_s) and (large or one.size_bytes == transfer.size_bytes)


def _may_be_the_path(one: Reference, relation: Relation | None) -> bool:
    """Whether the pair's path can be like the reference's: unknown ones are, and it is named."""
    if relation is None:
        return True
    if one.limit_bytes_per_s:
        return abs(relation.limit_bytes_per_s / one.limit_bytes_per_s - 1) <= _SAME_LIMIT
    return one.hops is None or relation.hops is None or one.hops == relation.hops


def _group(one: Reference) -> Reference:
    return msgspec.structs.replace(one.series(), pair=None, size_bytes=one.size_bytes)


def _match(
    group: Sequence[Reference],
    pair: tuple[int, int],
    transfer: Transfer,
    summary: TransferSummary,
    relation: Relation | None,
) -> Match | None:
    first = group[0]
    cells = [one for one in group if one.source.own and one.pair == pair] or list(group)
    if transfer.measure == "latency":
        time_s = median([one.time_s for one in cells if one.time_s is not None])
        bandwidth, share = 0.0, time_s / summary.time_s if summary.time_s > 0 else 0.0
    else:
        bandwidth = median([one.busbw_bytes_per_s for one in cells if one.busbw_bytes_per_s])
        share = summary.bytes_per_s / bandwidth
        time_s = transfer.size_bytes * len(transfer.flows) / bandwidth
    if share <= 0:
        return None
    return Match(
        reference=cells[0],
        share=share,
        bandwidth=bandwidth,
        time_s=time_s,
        size=_what(first, len(cells)),
        alike=True,
        differences=tuple(_differences(first, transfer, relation)),
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
        found.append("how was copied is not told there")
    if one.limit_bytes_per_s:
        known = relation is not None and relation.limit_bytes_per_s > 0
    else:
        known = one.hops is not None and relation is not None and relation.hops is not None
    if not known:
        found.append("whether the paths are alike is not told")
    if one.approximate:
        found.append("it is rounded or read off a plot")
    if one.kind == "floor":
        found.append("it is a floor, no measurement")
    return found


def _rank(match: Match) -> tuple[object, ...]:
    one = match.reference
    return (len(match.differences), not one.source.own, not one.engine, not one.kernel)
