"""Execution traces of MLCommons Chakra, for ASTRA-sim 2 and other simulators.

The format is schema/protobuf/et_def.proto of mlcommons/chakra 1.0.0 (package ChakraProtoMsg): each
file is a stream of messages with their lengths before them, one GlobalMetadata and then the Nodes.
Only numbers, texts and messages occur, two wire types of protobuf, so they are encoded here; a
library would be an extra and several times this code. The attributes are those that ASTRA-sim 2.2
reads (astra-sim/workload/Workload.cc).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby, pairwise
from typing import NamedTuple

from cclmark.base.errors import UsageError
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header
from cclmark.kinds.registry import report_kind
from cclmark.work.cases import Case
from cclmark.work.operations import DTYPE_BYTES, info_of
from cclmark_programs.replay.program_step import step_of

SCHEMA = "1.0.0"
GROUPS_FILE, NETWORK_FILE = "comm_group.json", "network.yml"

# NodeType and CollectiveCommType of the schema.
_COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = 4, 5, 6, 7
_COMM_TYPES = {
    **{"all_reduce": 0, "reduce": 1, "all_gather": 2, "gather": 3, "scatter": 4, "broadcast": 5},
    **{"alltoall": 6, "reduce_scatter": 7, "barrier": 9},
}
#: Workload::issue_coll_comm ends the simulation at all others.
_SIMULATED = frozenset({"all_reduce", "all_gather", "alltoall", "reduce_scatter"})
_REPLAYED = frozenset({"broadcast"})
_RING = "ring"  # the composition of an operation that is a message to the next rank
#: The size is the sum of all ranks' inputs, of which ASTRA-sim has each rank's own.
_OWN_PART = frozenset({"all_gather", "gather"})
# The number of the value in AttributeProto, by the type that the generator of Chakra gives it.
_BOOL, _INT32, _INT64, _STRING = 27, 7, 9, 29
_ATTRIBUTES = {
    **{"is_cpu_op": _BOOL, "comm_type": _INT64, "comm_size": _INT64, "pg_name": _STRING},
    **dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), _INT32),
}
_NS = 1e9
_GIB = 1 << 30


class TraceNode(NamedTuple):
    """A node of a trace. ``dependencies``: the ids of nodes that complete before it starts."""

    id: int
    name: str
    type: int
    dependencies: Sequence[int]
    begin_us: int
    duration_us: int
    attributes: Mapping[str, int | str] = {}


class _Call(NamedTuple):
    """A call of a rank. ``size_bytes``: as the measuring commands count it.

    ``matrix``: bytes from rank i to rank j of the group at ``[i * ranks + j]``, of messages.
    ``begin_ns``, ``end_ns``: in the step, or only the order of the calls. ``beside_ns``: how long
    other kernels ran meanwhile, 0 if unknown.
    """

    name: str
    operation: str
    group: int
    size_bytes: int
    matrix: tuple[int, ...]
    begin_ns: int
    end_ns: int
    duration_us: int
    beside_ns: int = 0


@dataclass(frozen=True)
class Traces:
    """The traces of a run: ``calls`` by rank, which ``are_timed`` if kernels' times are known.

    ``groups``: the ranks of each communicator. ``hosts``: of each rank, empty if unknown.
    ``remarks``: what is missing, in words.
    """

    header: Header
    calls: Sequence[Sequence[_Call]]
    are_timed: Sequence[bool]
    groups: Sequence[Sequence[int]]
    hosts: Sequence[str]
    remarks: list[str] = field(default_factory=list)

    def nodes(self, rank: int) -> list[TraceNode]:
        """The nodes of a rank: at least one, because ASTRA-sim refuses an empty trace."""
        found = _nodes(rank, self.calls[rank], self.groups, is_timed=self.are_timed[rank])
        return found or [TraceNode(1, "no calls", _COMPUTE, (), 0, 0)]

    def files(self, name: str) -> Iterator[tuple[str, bytes]]:
        """The names and contents of all files."""
        for rank in range(len(self.calls)):
            yield f"{name}.{rank}.et", encoded(self.header.run_id, self.nodes(rank))
        groups = {str(number): list(own) for number, own in enumerate(self.groups, start=1)}
        yield GROUPS_FILE, (json.dumps(groups) + "\n").encode()
        yield NETWORK_FILE, network(self.header, self.hosts, len(self.calls)).encode()


def traces_of(journal: Journal, name: str) -> Traces:
    """The traces of a profile's step, or of the cases of a run. ``name``: of the file, in messages.

    Raises UsageError for other kinds, for a step that cannot be repeated, and for a single rank.
    """
    if journal.profile is not None:
        found = _of_profile(journal, name)
    elif cases := [one for one in journal.cases if one.case.pair is None]:
        found = _of_cases(journal.header, cases, name)
    else:
        raise UsageError(
            f"{name} contains {report_kind(journal.kind).noun}, without calls of a library: chakra "
            "requires a profile (cclmark profile, imported traces) or a run of collectives"
        )
    if len(found.calls) < 2:
        raise UsageError(f"{name}: a single rank communicates with no other: nothing to simulate")
    operations = {
        one.operation
        for own in found.calls
        for one in own
        if not one.matrix and info_of(one.operation).composition != _RING
    }
    if unknown := operations - {*_COMM_TYPES}:
        raise UsageError(
            f"{name}: {', '.join(sorted(unknown))}: not part of Chakra's collectives, and the "
            "journal does not contain the sizes of its messages"
        )
    if replayed := operations & _REPLAYED:
        found.remarks.append(
            f"ASTRA-sim 2.2 gives {', '.join(replayed)} the recorded time instead of simulating it"
        )
    if others := operations - _SIMULATED - _REPLAYED:
        found.remarks.append(
            f"ASTRA-sim 2.2 ends with an error at {', '.join(sorted(others))}: Chakra's schema has "
            "them, its simulation does not"
        )
    return found


def _of_profile(journal: Journal, name: str) -> Traces:
    """The step that ``cclmark replay`` repeats, with the time between and beside the calls."""
    found = step_of(journal, name)
    profile, step = journal.profile, found.step
    assert profile is not None
    calls, are_timed = [], []
    for own, window in zip(step.calls, profile.window, strict=True):
        is_timed = all(one.time_s > 0 for one in own)
        has_beside = is_timed and all(one.beside_s is not None for one in window)
        are_timed.append(is_timed)
        listed = []
        for place, one in enumerate(own):
            begin_ns = round(one.begin_s * _NS) if is_timed else place
            end_ns = begin_ns + max(1, round(one.time_s * _NS) if is_timed else 1)
            operation = step.operations[one.operation]
            listed.append(
                _Call(
                    "messages" if one.matrix else operation.describe(),
                    *(one.collective, one.group, operation.size_bytes),
                    tuple(count * DTYPE_BYTES[one.dtype] for count in one.matrix),
                    *(begin_ns, end_ns, _us(end_ns) - _us(begin_ns) if is_timed else 0),
                    round(one.beside_s * _NS) if has_beside else 0,
                )
            )
        calls.append(listed)
    remarks = [f"as in cclmark replay: {text}" for text in found.remarks]
    if not all(are_timed):
        remarks.append("times of kernels are unknown: no compute nodes between the calls")
    numbers = [*range(len(calls))]
    if [one.rank for one in profile.processes] != numbers:
        remarks.append("ranks of the program repeat or are missing: numbers are of its processes")
    hosts = [one.host for one in profile.processes]
    return Traces(journal.header, calls, are_timed, step.groups, hosts, remarks)


def _of_cases(header: Header, results: Sequence[CaseResult], name: str) -> Traces:
    """Each measured case once, one after the other, between all ranks."""
    wrong = [one for one in results if one.status == "wrong"]
    if wrong:
        raise UsageError(
            f"{name}: {len(wrong)} cases have wrong data, for example "
            f"{wrong[0].case.group_words()}: no trace is made of their times"
        )
    measured: dict[Case, CaseResult] = {}
    for result in results:
        if result.summary is not None:
            measured.setdefault(result.case, result)
    if not measured:
        raise UsageError(f"{name}: no case was measured")
    sizes = sorted({one.case.ranks for one in measured.values()})
    if len(sizes) > 1:
        raise UsageError(
            f"{name}: its cases have {' and '.join(map(str, sizes))} ranks, but a trace has one "
            "number of ranks"
        )
    calls = []
    for place, result in enumerate(measured.values()):
        case, summary = result.case, result.summary
        assert summary is not None
        width_bytes = DTYPE_BYTES.get(case.dtype, 0)
        matrix = tuple(count * width_bytes for count in case.matrix if width_bytes)
        time_us = max(0, round(summary.time_s * 1e6))
        words = f"{case.describe()} {case.ccl}"
        calls.append(
            _Call(words, case.operation, 0, case.size_bytes, matrix, place, place + 1, time_us)
        )
    [ranks] = sizes
    by_rank = sorted(header.devices, key=lambda one: one.rank)
    hosts = [one.host for one in by_rank] if len(by_rank) == ranks else []
    return Traces(header, [calls] * ranks, [False] * ranks, [range(ranks)], hosts)


def _us(time_ns: int) -> int:
    # Durations are differences of rounded moments, so that what is rounded does not add up.
    return (time_ns + 500) // 1000


def _nodes(
    rank: int, calls: Sequence[_Call], groups: Sequence[Sequence[int]], *, is_timed: bool
) -> list[TraceNode]:
    """The nodes of a rank's calls, numbered in the order of the calls.

    A call depends on those that ended before it began, without the ones on which these depend. The
    time from their end to its begin is a compute node; these nodes follow each other, because a
    device has one at a time in ASTRA-sim. So is the time of other kernels beside a call that
    overlaps no other call.
    """
    parts = [(call, own) for call in calls if (own := [*_communication(rank, call, groups)])]
    order = sorted(range(len(parts)), key=lambda place: (parts[place][0].begin_ns, place))
    alone = _alone([parts[place][0] for place in order])
    firsts, next_id = [], 1
    for _, own in parts:
        firsts.append(next_id)
        next_id += len(own) + 2  # with the compute nodes before and beside
    found: list[TraceNode] = []
    running: list[tuple[int, int, int]] = []
    ended: dict[int, int] = {}  # those on which a call depends, and their ends
    ids: dict[int, list[int]] = {}
    latest_ns, computed_ns, computed = -1, 0, 0
    for number, place in enumerate(order):
        call, own = parts[place]
        while running and running[0][0] <= call.begin_ns:
            end_ns, begin_ns, other = heappop(running)
            ended[other] = end_ns
            latest_ns = max(latest_ns, begin_ns)
        needed_ns = max(latest_ns, computed_ns)
        ended = {other: end_ns for other, end_ns in ended.items() if end_ns > needed_ns}
        before = [one for other in sorted(ended) for one in ids[other]]
        if computed and latest_ns < computed_ns:
            before.append(computed)
        ready_ns = max([*ended.values(), computed_ns])
        gap_us = _us(call.begin_ns) - _us(ready_ns)
        first = firsts[place]
        if is_timed and gap_us > 0:
            found.append(TraceNode(first, "compute", _COMPUTE, before, _us(ready_ns), gap_us))
            computed_ns, computed, before = call.begin_ns, first, [first]
        begin_us = _us(call.begin_ns) if is_timed else 0
        own_nodes = [
            TraceNode(first + one, call.name, type_, before, begin_us, call.duration_us, attributes)
            for one, (type_, attributes) in enumerate(own, start=1)
        ]
        if (beside_us := _us(call.beside_ns)) and alone[number]:
            beside = first + len(own) + 1
            own_nodes.append(
                TraceNode(beside, "compute beside", _COMPUTE, before, begin_us, beside_us)
            )
        found += own_nodes
        ids[place] = [one.id for one in own_nodes]
        heappush(running, (call.end_ns, call.begin_ns, place))
    return sorted(found)


def _alone(calls: Sequence[_Call]) -> list[bool]:
    """Whether calls, in the order of their begins, overlap no other one."""
    latest_ns, found = 0, [True] * len(calls)
    for place, (one, other) in enumerate(pairwise(calls)):
        latest_ns = max(latest_ns, one.end_ns)
        if other.begin_ns < latest_ns:
            found[place + 1] = False
        if other.begin_ns < one.end_ns:
            found[place] = False
    return found


def _communication(
    rank: int, call: _Call, groups: Sequence[Sequence[int]]
) -> Iterator[tuple[int, Mapping[str, int | str]]]:
    """The types and attributes of a call's nodes; none for a communicator of one rank."""
    members = groups[call.group]
    ranks, own = len(members), members.index(rank)
    if ranks < 2:
        return
    sent: Mapping[int, int] = {}
    received: Mapping[int, int] = {}
    if call.matrix:
        sent = dict(enumerate(call.matrix[own * ranks : (own + 1) * ranks]))
        received = dict(enumerate(call.matrix[own::ranks]))
    elif info_of(call.operation).composition == _RING:
        sent, received = ({(own + by) % ranks: call.size_bytes} for by in (1, ranks - 1))
    else:
        parts = ranks if call.operation in _OWN_PART else 1
        yield (
            _COLLECTIVE,
            {
                "comm_type": _COMM_TYPES[call.operation],
                "comm_size": call.size_bytes // parts,
                "pg_name": str(call.group + 1),
            },
        )
    for type_, sizes in ((_SEND, sent), (_RECEIVE, received)):
        for peer, size_bytes in sizes.items():
            if size_bytes and peer != own:
                ends = (rank, members[peer]) if type_ == _SEND else (members[peer], rank)
                yield (
                    type_,
                    {
                        **{"comm_src": ends[0], "comm_dst": ends[1]},
                        **{"comm_size": size_bytes, "comm_tag": call.group + 1},
                    },
                )


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _field(number: int, value: int | str | bytes) -> bytes:
    """A field of a message: a number that is not negative, or a text, a message or packed ones."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode(errors="replace") if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _attribute(name: str, value: int | str, kind: int) -> bytes:
    return _field(1, name) + _field(kind, value)


def encoded(run_id: str, nodes: Sequence[TraceNode]) -> bytes:
    """The content of a file. Ids, sizes and times are below 2^63 and not negative."""
    source = _attribute("cclmark_run_id", run_id, _STRING)
    found = [_field(1, SCHEMA) + _field(2, source)]
    for node in nodes:
        fields = [_field(1, node.id), _field(2, node.name), _field(3, node.type)]
        if node.dependencies:
            fields.append(_field(5, b"".join(map(_varint, node.dependencies))))
        fields += [_field(6, node.begin_us), _field(7, node.duration_us)]
        fields += [
            _field(10, _attribute(name, value, _ATTRIBUTES[name]))
            for name, value in {"is_cpu_op": 0, **node.attributes}.items()
        ]
        found.append(b"".join(fields))
    return b"".join(_varint(len(one)) + one for one in found)


def network(header: Header, hosts: Sequence[str], ranks: int) -> str:
    """The network of ASTRA-sim's analytical backend, as far as the header describes it.

    A dimension of the devices of a host and one of the hosts. A line with something unknown is a
    comment with question marks, which the user replaces. ``hosts``: of each rank, empty if unknown.
    """
    blocks = [(host, len([*own])) for host, own in groupby(hosts)]
    sizes = {size for _, size in blocks}
    is_known = all(hosts) and len({host for host, _ in blocks}) == len(blocks) and len(sizes) == 1
    counts, rates = [ranks], [0.0]
    words = "The hosts of the ranks are unknown, or do not have equal numbers of consecutive ranks."
    if is_known:
        inside = min(sizes)
        counts = [inside, len(blocks)]
        rates = [_device_rate(header, ranks), _host_rate(header, len(blocks)) / inside]
        words = f"Hosts: {len(blocks)}, with {inside} devices each."
    used = [(count, rate / _GIB) for count, rate in zip(counts, rates, strict=True) if count > 1]
    rates_text = ", ".join(f"{rate:.4g}" if rate > 0 else "?" for _, rate in used)
    unknown = ", ".join("?" * len(used))
    return "\n".join(
        [
            f"# Run {header.run_id}, by cclmark {header.cclmark_version}, for ASTRA-sim's backend",
            f"# 'analytical'. Replace each question mark and remove the # before it. {words}",
            "# A switch is assumed in each dimension; Ring and FullyConnected are the others.",
            f"topology: [ {', '.join(['Switch'] * len(used))} ]",
            f"npus_count: [ {', '.join(str(count) for count, _ in used)} ]",
            "# 2^30 bytes per second, as the backend computes, of a device in one direction: its",
            "# links within a host, its share of the active InfiniBand and RoCE ports of the host.",
            f"{'# ' * ('?' in rates_text)}bandwidth: [ {rates_text} ]",
            "# Nanoseconds; no run contains the latency of its links.",
            f"# latency: [ {unknown} ]",
            "",
        ]
    )


def _device_rate(header: Header, ranks: int) -> float:
    """Of the links of the slowest device in bytes/s; by PCIe without others; 0 if unknown."""
    rates = [[0.0, 0.0] for _ in range(ranks)]
    for link in header.links:
        if 0 <= link.device < ranks:
            rates[link.device][link.kind == "PCIe"] += link.count * link.rate_bytes_per_s
    return min(own or by_pcie for own, by_pcie in rates)


def _host_rate(header: Header, hosts: int) -> float:
    """Of the active InfiniBand and RoCE ports of the slowest host in bytes/s; 0 if unknown."""
    if len(header.hosts) != hosts:
        return 0.0
    return min(
        sum(
            one.rate_bits_per_s / 8
            for one in host.machine.interfaces
            if one.kind in ("InfiniBand", "RoCE") and one.state.lower() in ("active", "up")
        )
        for host in header.hosts
    )
