"""Reads logs of the plug-in that count calls (CCLMARK_PLUGIN_EVENTS=profile or counts).

engine/plugin/call_profile.hpp describes the records.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from cclmark.base.errors import UsageError
from cclmark.base.grouping import abridged
from cclmark.explain.operation import COPY_ENGINE, MESSAGES, dtype_of
from cclmark.explain.plugin_log import RECORD, PluginLog, open_plugin_log, text_of
from cclmark.profile.observed import (
    ObservedCall,
    ObservedGroup,
    ObservedOperation,
    ObservedProcess,
    nccl_version,
)
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS

_TIMES = struct.Struct("=4x4xQ5Q72x")  # the kernel times of an operation
_COMMUNICATOR, _CALLED, _OPERATION, _KERNEL_TIMES, _CALL, _PROCESS = 1, 16, 17, 18, 19, 20
_COLLECTIVE, _MESSAGE, _COPY_ENGINE, _SYMMETRIC = 2, 3, 7, 14
_NONE = (1 << 64) - 1
_ALL = 1 << 28  # records of a log at most
_OPERATIONS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AlltoAll": "alltoall",
    "AllToAll": "alltoall",
    "Gather": "gather",
    "Scatter": "scatter",
    "Send": "send",
    "Recv": "recv",
}


@dataclass
class ProfileLog:
    """A log of a process. ``log``: without its events. ``processes``: one, or one for each rank
    where a process drives several devices. ``listed``: the calls with a record of their own, of
    which ``unread`` were not read. ``unmatched``: calls that are left out, since no device of
    ``processes`` has their rank. ``captured``: calls while graphs were captured of which no launch
    was reported.
    """

    path: Path
    log: PluginLog
    processes: list[ObservedProcess] = field(default_factory=list)
    listed: int = 0
    unread: int = 0
    unmatched: int = 0
    captured: int = 0

    @property
    def calls(self) -> int:
        """The number of all calls."""
        return sum(one.calls for process in self.processes for one in process.operations)

    @property
    def members(self) -> set[tuple[str, int]]:
        """The ranks of this process in its groups: (identity, own rank)."""
        return {
            (identity, group.own_rank)
            for process in self.processes
            for identity, group in process.groups.items()
        }


@dataclass
class _Record:
    """A called record, or one of an operation, with its texts decoded."""

    rank: int
    communicator: int
    parent: int
    counted: int
    count: int
    device_ns: int
    channels: int
    is_range: bool
    function: str
    algorithm: str
    protocol: str
    datatype: str


@dataclass
class _Times:
    calls: int = 0
    total_ns: int = 0
    least_ns: int = 0
    most_ns: int = 0
    elements: int = 0


@dataclass
class _Content:
    communicators: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)
    called: dict[int, _Record] = field(default_factory=dict)
    operations: dict[int, _Record] = field(default_factory=dict)
    times: dict[int, _Times] = field(default_factory=dict)
    calls: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)
    ran: Counter[int] = field(default_factory=Counter)
    most_calls: int = _ALL
    unread: int = 0
    events: int = 0
    rank: int = -1

    def missing(self, number: int) -> int:
        """How many calls of a called record were not reported as executed.

        Calls while a graph is captured do not run; the launches of the graph do.
        """
        called = self.called[number]
        return max(0, called.counted - self.ran[number]) if called.parent == 0 else 0


def read_profile_log(path: Path, most_calls: int = _ALL) -> ProfileLog:
    """Reads a log, also of a process that was killed or still runs.

    ``most_calls``: how many of the listed calls are read, the first ones. Raises UsageError if the
    file cannot be read, is not a log, or lists events instead.
    """
    with open_plugin_log(path) as opened:
        found = ProfileLog(path, opened.log)
        content = _Content(most_calls=most_calls)
        number = 0
        for piece in opened.pieces():
            number = _read_piece(piece, number, content, found.log)
    if content.events and not (content.operations or content.called):
        raise UsageError(
            f"{path} lists events instead of counting calls: cclmark plugin {path} reads it"
        )
    found.log.count_missing(found.log.places - number)
    for one in content.operations.values():
        if one.parent in content.called:
            content.ran[one.parent] += one.counted
    if found.log.has_lost_parents:  # what was called is then among what ran without a call
        content.ran.update({number: one.counted for number, one in content.called.items()})
    found.processes, found.unmatched = _processes(content, found.log)
    found.unread = content.unread
    found.listed = len(content.calls) + content.unread
    if not any(one.calls for one in content.times.values()):
        found.captured = sum(
            one.parent
            for number, one in content.called.items()
            if content.ran[number] <= one.counted
        )
    if not all(one.is_possible for one in found.processes):
        raise UsageError(
            f"{path} is damaged: it contains numbers that are too large. Copy it again"
        )
    return found


def _read_piece(piece: bytes, number: int, content: _Content, log: PluginLog) -> int:
    for place, values in enumerate(RECORD.iter_unpack(piece)):
        number += 1
        kind, rank, communicator, time_ns, parent, sequence, count, device_ns = values[:8]
        root, channels, warps = values[8:11]
        if kind == _CALL and len(content.calls) >= content.most_calls:
            content.unread += 1
        elif kind == _CALL:
            content.calls.append((time_ns, parent, sequence, device_ns, count, root, rank))
        elif kind in (_OPERATION, _CALLED):
            records = content.operations if kind == _OPERATION else content.called
            algorithm, protocol = values[12], values[13]
            if device_ns == _SYMMETRIC and kind == _OPERATION:  # a name in both fields
                algorithm, protocol = algorithm + protocol, b""
            records[number] = _Record(
                rank,
                communicator,
                parent,
                sequence,
                count,
                device_ns,
                channels,
                warps == 1,
                text_of(values[11]),
                text_of(algorithm),
                text_of(protocol),
                text_of(values[14]),
            )
        elif kind == _KERNEL_TIMES:
            operation, *figures = _TIMES.unpack_from(piece, place * RECORD.size)
            content.times[operation] = _Times(*figures)
        elif kind == _COMMUNICATOR:
            content.communicators[communicator, rank] = (count, text_of(values[11]))
        elif kind == _PROCESS:
            content.rank = rank
        elif kind == 0:
            log.incomplete += 1
        else:
            content.events += 1
    return number


def _processes(content: _Content, log: PluginLog) -> tuple[list[ObservedProcess], int]:
    """One process, or one for each rank of the communicator with most ranks of this process.

    The number is that of the calls of other ranks: which of the devices has which rank of another
    communicator is not part of a log.
    """
    ranks_of: dict[int, set[int]] = {}
    for communicator, rank in content.communicators:
        ranks_of.setdefault(communicator, set()).add(rank)
    for record in (*content.operations.values(), *content.called.values()):
        ranks_of.setdefault(record.communicator, set()).add(record.rank)
    several = max(ranks_of.values(), key=len, default=set())
    if len(several) <= 1:
        return [_process(content, log, None)], 0
    others = sum(one.counted for one in content.operations.values() if one.rank not in several)
    others += sum(
        content.missing(number) for number, one in content.called.items() if one.rank not in several
    )
    return [_process(content, log, rank) for rank in sorted(several)], others


def _process(content: _Content, log: PluginLog, only: int | None) -> ObservedProcess:
    version = nccl_version(log.library_version)
    process = ObservedProcess(
        content.rank if only is None else only,
        log.host,
        log.pid,
        f"nccl {version}".rstrip(),
    )
    for (communicator, rank), (ranks, name) in content.communicators.items():
        if only is None or rank == only:
            identity = f"{communicator:#x}"
            process.groups[identity] = ObservedGroup(identity, name, ranks, rank)
    places: dict[int, int] = {}
    for number, record in content.operations.items():
        if only is not None and record.rank != only:
            continue
        called = content.called.get(record.parent)
        places[number] = len(process.operations)
        process.operations.append(
            _operation(record, called, content.times.get(number, _Times()), process)
        )
    for number, called in content.called.items():
        missing = content.missing(number)
        if (only is None or called.rank == only) and missing:
            operation = _operation(called, called, _Times(), process)
            operation.calls = operation.unreported = missing
            operation.bytes = missing * operation.size_bytes
            process.operations.append(operation)
    streams: dict[int, int] = {}
    for time_ns, number, sequence, begin_ns, end_ns, root, rank in content.calls:
        place = places.get(number)
        if place is None or (only is not None and rank != only):
            continue
        record = content.operations[number]
        called = content.called.get(record.parent)
        stream = streams.setdefault(called.device_ns, len(streams)) if called is not None else -1
        is_timed = begin_ns > 0 and end_ns >= begin_ns
        process.calls.append(
            ObservedCall(
                place,
                sequence,
                time_ns,
                begin_ns if is_timed else 0,
                end_ns if is_timed else 0,
                stream,
                root if record.device_ns == _MESSAGE else -1,
            )
        )
    return process


def _operation(
    record: _Record, called: _Record | None, times: _Times, process: ObservedProcess
) -> ObservedOperation:
    """The operation of a record, in the types and counts of the program's call.

    NCCL executes gathers and broadcasts as bytes; the call has the type of the elements.
    """
    group = process.groups.setdefault(
        f"{record.communicator:#x}",
        ObservedGroup(f"{record.communicator:#x}", own_rank=record.rank),
    )
    function = _OPERATIONS.get(record.function, record.function.lower())
    executed_type = dtype_of(record.datatype)
    dtype = dtype_of(called.datatype) if called is not None else executed_type
    part_bytes = record.count * DTYPE_BYTES.get(executed_type, 1)
    info = OPERATIONS.get(function)
    parts = max(1, group.ranks) if info is not None and info.spans_ranks else 1
    kind = record.device_ns if record is not called else 0
    kernel = {_COPY_ENGINE: COPY_ENGINE, _MESSAGE: MESSAGES, _SYMMETRIC: "symmetric"}.get(
        kind, record.algorithm.lower().replace("_", " ")
    )
    return ObservedOperation(
        group=group.identity,
        operation=function,
        ccl="nccl",
        dtype=dtype,
        count=part_bytes // DTYPE_BYTES.get(dtype, 1),
        size_bytes=part_bytes * parts,
        is_range=record.is_range,
        kernel=kernel,
        protocol="" if kind == _COPY_ENGINE else record.protocol,
        channels=record.channels,
        calls=record.counted,
        bytes=times.elements * DTYPE_BYTES.get(executed_type, 1) * parts,
        timed=times.calls,
        total_ns=times.total_ns,
        least_ns=0 if times.least_ns == _NONE else times.least_ns,
        most_ns=times.most_ns,
    )


def complete_groups(processes: Sequence[ObservedProcess]) -> None:
    """Sets the sizes of groups that the library did not introduce, as NCCL before 2.27 does.

    The size is the number of the processes that name the group: the sizes of operations that span
    ranks follow from it.
    """
    members: Counter[str] = Counter(name for one in processes for name in one.groups)
    for process in processes:
        unknown = {name for name, group in process.groups.items() if not group.ranks}
        for name in unknown:
            process.groups[name].ranks = members[name]
        for one in process.operations:
            info = OPERATIONS.get(one.operation)
            if one.group in unknown and info is not None and info.spans_ranks:
                one.size_bytes *= members[one.group]
                one.bytes *= members[one.group]


def number_by_process(processes: Sequence[ObservedProcess]) -> list[str]:
    """Removes the ranks of all processes if they are ambiguous. Returns a notice.

    Programs that start processes of their own hand on the RANK or SLURM_PROCID of the first one.
    """
    counts = Counter((one.host, one.rank) for one in processes)
    (host, rank), number = max(
        ((key, count) for key, count in counts.items() if key[1] >= 0),
        key=lambda entry: entry[1],
        default=(("", -1), 0),
    )
    if number < 2:
        return []
    for one in processes:
        one.rank = -1
    return [
        f"{number} processes on {host} have rank {rank} by their environment: the ranks shown are "
        "the numbers of the processes"
    ]


_SHOWN = 12  # characters of an identity
_MOST_HOSTS = 3  # in words


@dataclass
class LoggedRun:
    """The logs of one run. ``identities``: of the commands of its hosts; "" for older logs.

    ``members``: the ranks of groups that its processes have: (identity of the group, rank).
    """

    identities: list[str]
    logs: list[ProfileLog] = field(default_factory=list)
    members: set[tuple[str, int]] = field(default_factory=set)

    def add(self, logs: Sequence[ProfileLog]) -> None:
        """Adds logs of processes of this run."""
        self.logs += logs
        self.members.update(*(one.members for one in logs))

    @property
    def begin_ns(self) -> int:
        """When the first process loaded the plug-in, in nanoseconds since 1970."""
        return min(one.log.begin_realtime_ns for one in self.logs)

    @property
    def name(self) -> str:
        """By which it is chosen; empty for logs without an identity."""
        return min(self.identities)[:_SHOWN]

    @property
    def text(self) -> str:
        """What distinguishes it, in words."""
        begin = datetime.fromtimestamp(self.begin_ns / 1e9, timezone.utc)
        hosts = [*dict.fromkeys(one.log.host for one in self.logs)]
        return (
            f"{self.name or 'none'} (begun {begin:%Y-%m-%d %H:%M:%S} UTC, {len(self.logs)} "
            f"{'process' if len(self.logs) == 1 else 'processes'} on "
            f"{abridged(hosts, _MOST_HOSTS, noun='more hosts')})"
        )


def runs_of(logs: Sequence[ProfileLog]) -> list[LoggedRun]:
    """Returns the runs of logs, in the order of their begin."""
    by_identity: dict[str, LoggedRun] = {}
    for log in logs:
        identity = log.log.run
        by_identity.setdefault(identity, LoggedRun([identity])).add([log])
    runs: list[LoggedRun] = []
    for run in sorted(by_identity.values(), key=lambda one: one.begin_ns):
        partner = next((one for one in runs if _are_one(one, run)), None)
        if partner is None:
            runs.append(run)
        else:
            partner.identities += run.identities
            partner.add(run.logs)
    return runs


def _are_one(one: LoggedRun, other: LoggedRun) -> bool:
    """Whether processes of both have different ranks of the same communicators."""
    if one.members & other.members:
        return False
    groups = {identity for identity, _ in other.members}
    return any(identity in groups for identity, _ in one.members)


def is_of(run: LoggedRun, chosen: str) -> bool:
    """Whether ``chosen``, the first characters of an ID or "none", selects a run."""
    if chosen == "none":
        return "" in run.identities
    return any(identity and identity.startswith(chosen) for identity in run.identities)
