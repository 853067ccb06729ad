"""What predictions stand on: times by size and number of nodes, from journals and tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cclmark.analysis.summary import judged_summary
from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header, HostDescription
from cclmark.kinds.registry import read_journal
from cclmark.work.cases import Case
from cclmark.work.device_names import kind_of
from cclmark.work.items import COLLECTIVE
from cclmark.work.libraries import environment_prefixes
from cclmark.work.library_settings import allows
from cclmark.work.operations import OPERATIONS, moves_data
from cclmark.work.sizes import parse_size
from cclmark_planning.scale.algorithms import ALGORITHMS, NVLS_TREE, RING, TREE, Shape
from cclmark_planning.tables import read_table, whole_number

_RDMA = ("InfiniBand", "RoCE")
_WORKS = ("active", "up")
_SHORTEST_S, _LONGEST_S = 1e-9, 1e6
_MOST_NODES, _MOST_PER_NODE = 1 << 20, 1 << 10
_FORCED = (RING, TREE, NVLS_TREE)
# Variables that name files, interfaces and levels of messages.
_OF_PLACES = ("_IFNAME", "_HCA", "_FILE", "_DEBUG", "_SUBSYS", "_PATH", "_ID", "_PORT", "_ADDR")
_UNKNOWN, _USUAL_OPERATION = "unknown", "all_reduce"
#: The columns of a table.
COLUMNS = (
    *("operation", "nodes", "gpus_per_node", "size", "busbw_gbps", "time_us"),
    *("device", "ccl", "version", "nic_gbit", "algorithm", "table", "source"),
)
_HEAD = "nodes,gpus_per_node,size,busbw_gbps"


@dataclass(frozen=True)
class MeasuredPoint:
    """A measured time. ``noise``: its standard error as a share, 0 if unknown; ``spread``: the
    interquartile range of its samples over their median."""

    size_bytes: int
    time_s: float
    noise: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True)
class MeasuredCurve:
    """The times of an operation in one run. ``seen``: the algorithms that the library was observed
    to use; ``forced``: the one that a setting allows alone. ``network_bps``: the line rate of a
    node to others, 0 if unknown. ``settings``: what else has to be the same in all runs."""

    source: str
    operation: str
    ccl: str
    version: str
    device: str
    shape: Shape
    points: tuple[MeasuredPoint, ...]
    dtype: str = ""
    placement: str = ""
    seen: frozenset[str] = field(default=frozenset())
    forced: str = ""
    has_multicast: bool = True
    network_bps: float = 0.0
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def machine(self) -> tuple[str, str, str]:
        """What all runs of a prediction have in common."""
        return self.device, self.ccl, self.version


def read_curves(path: Path) -> list[MeasuredCurve]:
    """The curves of a journal or of a table (.csv). Raises UsageError."""
    if path.suffix.lower() == ".csv":
        return _of_table(path)
    return _of_journal(path)


def _of_journal(path: Path) -> list[MeasuredCurve]:
    journal = read_journal(path)
    where = plain(str(path))
    if journal.kind != COLLECTIVE:
        raise UsageError(
            f"{where}: a journal of {journal.kind}: predictions stand on runs of collectives, such "
            "as cclmark all_reduce"
        )
    wrong = [one for one in journal.cases if one.status == "wrong"]
    if wrong:
        raise UsageError(
            f"{where}: {len(wrong)} cases have wrong data, for example "
            f"{wrong[0].case.group_words()}: nothing is predicted from a run with wrong data"
        )
    found = [*_curves(journal, str(path))]
    if not found:
        raise UsageError(f"{where}: no case has a time")
    return found


def _curves(journal: Journal, source: str) -> Iterator[MeasuredCurve]:
    """Of each operation and library the curve with most sizes; out of place before in place."""
    header = journal.header
    measured = [
        (one.case.series(), one)
        for one in journal.cases
        if one.summary is not None and one.case.pair is None and moves_data(one.case.operation)
    ]
    curves = sorted(by_key(measured).items(), key=lambda one: (-len(one[1]), one[0].in_place))
    versions = {one.name: one.version for one in header.libraries}
    taken: set[tuple[str, int, str]] = set()
    for case, results in curves:
        if (case.operation, case.ranks, case.ccl) in taken:
            continue
        taken.add((case.operation, case.ranks, case.ccl))
        seen = {
            name
            for one in results
            if one.explanation is not None
            for name in _FORCED
            if name.lower()
            in {word.strip().lower() for word in one.explanation.algorithm.split(",")}
        }
        yield MeasuredCurve(
            *(source, case.operation, case.ccl, versions.get(case.ccl, ""), _device(header)),
            _shape(header, case.ranks, source),
            tuple(_points(results)),
            dtype=case.dtype,
            placement=case.placement,
            seen=frozenset(seen),
            forced=_forced(header, case.operation),
            has_multicast=header.environment.get("NCCL_NVLS_ENABLE", "") != "0",
            network_bps=_network_bps(header),
            settings=tuple(_settings(header, case)),
        )


def _settings(header: Header, case: Case) -> Iterator[tuple[str, str]]:
    """The settings that change times, with their values."""
    yield "element type", case.dtype
    yield "placement", case.placement
    yield "timing", header.settings.timing
    for name, value in header.environment.items():
        if name.startswith(environment_prefixes()) and not name.endswith(_OF_PLACES):
            yield name, value


def _points(results: Sequence[CaseResult]) -> Iterator[MeasuredPoint]:
    """The median over cycles at each size."""
    for size_bytes, same in sorted(by_key((one.case.size_bytes, one) for one in results).items()):
        summaries = [summary for one in same if (summary := judged_summary(one)) is not None]
        if not size_bytes or not summaries:
            continue
        middle = sorted(summaries, key=lambda one: one.time_s)[len(summaries) // 2]
        if middle.time_s > 0:
            noise = (middle.half_width or 0.0) / 1.96
            yield MeasuredPoint(size_bytes, middle.time_s, noise, middle.spread or 0.0)


def _device(header: Header) -> str:
    kinds = {kind_of(one.name) for one in header.devices}
    if len(kinds) > 1:
        raise UsageError(
            f"the run has unlike devices, {', '.join(sorted(kinds))}: predictions are for devices "
            "of one kind"
        )
    return next((one for one in kinds if one.lower() != _UNKNOWN), "")


def _shape(header: Header, ranks: int, source: str) -> Shape:
    told = header.imported.hosts if header.imported is not None else 0
    by_host = Counter(one.host for one in header.devices if one.rank < ranks)
    if not told and header.imported is not None and (not by_host or "" in by_host):
        raise UsageError(
            f"{plain(source)}: the number of hosts is unknown: cclmark import --hosts N writes a "
            "journal that has it"
        )
    nodes = told or max(1, len(by_host) or len(header.hosts))
    if ranks % nodes or len(set(by_host.values()) if not told else {1}) > 1:
        raise UsageError(
            f"{plain(source)}: {ranks} ranks on {nodes} hosts: predictions are for hosts with the "
            "same number of ranks"
        )
    return Shape(nodes, ranks // nodes)


def _forced(header: Header, operation: str) -> str:
    value = header.environment.get("NCCL_ALGO", "")
    allowed = [name for name in _FORCED if allows(value, operation, name.lower())]
    return allowed[0] if len(allowed) == 1 else ""


def _network_bps(header: Header) -> float:
    """The line rate of a node, if each device of each host has a separate RDMA interface."""
    hosts = header.hosts or [HostDescription(header.machine, "", {})]
    per_host = len(header.devices) / len(hosts)
    rates = set()
    for host in hosts:
        working = [
            one.rate_bits_per_s / 8
            for one in host.machine.interfaces
            if one.kind in _RDMA and one.state in _WORKS and one.rate_bits_per_s
        ]
        rates.add(sum(working) if len(working) == per_host else 0.0)
    return rates.pop() if len(rates) == 1 else 0.0


class _Row(msgspec.Struct, frozen=True):
    operation: str
    ccl: str
    version: str
    device: str
    shape: Shape
    algorithm: str
    bits_per_s: float


def _of_table(path: Path) -> list[MeasuredCurve]:
    where = plain(str(path))
    required = ("nodes", "gpus_per_node", "size")
    read = read_table(path, where, COLUMNS, required, _HEAD, _table_row)
    curves = []
    for row, points in by_key(read).items():
        by_size = by_key((one.size_bytes, one) for one in points)
        twice = next((size for size, same in by_size.items() if len(same) > 1), None)
        if twice is not None:
            raise UsageError(
                f"{where}: {row.shape.nodes} nodes have {twice} bytes twice: write a table for "
                "each machine and setting"
            )
        forced = row.algorithm
        curves.append(
            MeasuredCurve(
                *(str(path), row.operation, row.ccl, row.version, row.device, row.shape),
                tuple(by_size[size][0] for size in sorted(by_size)),
                forced=forced,
                network_bps=row.bits_per_s / 8 * row.shape.per_node,
            )
        )
    return curves


def _table_row(cells: dict[str, str]) -> tuple[_Row, MeasuredPoint]:
    operation = cells.get("operation") or _USUAL_OPERATION
    if operation not in OPERATIONS:
        raise UsageError(f"{operation!r} is no operation; for example all_reduce")
    shape = Shape(
        whole_number(cells["nodes"], "nodes", _MOST_NODES),
        whole_number(cells["gpus_per_node"], "gpus_per_node", _MOST_PER_NODE),
    )
    algorithm = cells.get("algorithm", "")
    known = {name.lower(): name for name in ALGORITHMS.get(operation, ())}
    if algorithm and algorithm.lower() not in known:
        raise UsageError(f"algorithm {algorithm!r}: choose from {', '.join(known.values())}")
    size_bytes = parse_size(cells["size"])
    if shape.ranks < 2 or not size_bytes:
        raise UsageError("a row is of at least 2 GPUs and 1 byte")
    rate, time = cells.get("busbw_gbps", ""), cells.get("time_us", "")
    if bool(rate) == bool(time):
        raise UsageError("write either busbw_gbps or time_us")
    value = float(rate or time)
    factor = OPERATIONS[operation].bus_factor(shape.ranks)
    time_s = 0.0
    if value > 0:
        time_s = size_bytes * factor / (value * 1e9) if rate else value * 1e-6
    if not _SHORTEST_S < time_s < _LONGEST_S:
        raise UsageError(f"{rate or time} is no plausible {'bandwidth' if rate else 'time'}")
    bits_per_s = float(cells.get("nic_gbit") or 0) * 1e9
    if not 0 <= bits_per_s < math.inf:
        raise UsageError(f"nic_gbit {cells['nic_gbit']} is no line rate")
    row = _Row(
        operation=operation,
        ccl=cells.get("ccl") or "nccl",
        version=cells.get("version", ""),
        device=cells.get("device", ""),
        shape=shape,
        algorithm=known.get(algorithm.lower(), ""),
        bits_per_s=bits_per_s,
    )
    return row, MeasuredPoint(size_bytes, time_s)
