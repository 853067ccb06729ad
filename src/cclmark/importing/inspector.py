"""Reads the logs of NCCL Inspector, NCCL's profiler plug-in (plugins/profiler/inspector).

A file is of one process; each line is JSON of one operation. Version v4.0 of the format is that of
NCCL 2.28 to 2.30, to which 2.30 added "comm_name" and "p2p_perf". With NCCL_INSPECTOR_DUMP_VERBOSE
a line has the moments of the kernels too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import msgspec

from cclmark.errors import UsageError
from cclmark.plan.operations import OPERATIONS
from cclmark.plan.profiled import MOST_RANKS
from cclmark.printable import plain
from cclmark.profile.observed import (
    NUMBER_LIMIT,
    ObservedCall,
    ObservedGroup,
    ObservedOperation,
    ObservedProcess,
)

_MARK = b'"inspector_output_format_version"'
_HEAD_BYTES = 1 << 12
_KNOWN_VERSION = "v4.0"
_ON_DEVICE = "kernel_gpu"

_OPERATIONS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "All2All": "alltoall",
    "SendRecv": "sendrecv",
    "Send": "send",
    "Recv": "recv",
}


class _Communicator(msgspec.Struct, frozen=True):
    """The communicator of a line, and the rank in it that writes."""

    id: str
    rank: int
    n_ranks: int
    nnodes: int = 0
    comm_name: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    inspector_output_format_version: str
    hostname: str = ""
    pid: int = 0


class _Moments(msgspec.Struct, frozen=True):
    """The moments of a kernel on one channel, in microseconds of the host's clock."""

    kernel_start_ts: int = 0
    kernel_stop_ts: int = 0


class _Trace(msgspec.Struct, frozen=True):
    kernel_events: list[_Moments] = []


class _Collective(msgspec.Struct, frozen=True):
    coll: str
    coll_sn: int
    coll_msg_size_bytes: int
    coll_exec_time_us: int
    coll_timing_source: str = "unknown"
    event_trace_ts: _Trace = _Trace()


class _Message(msgspec.Struct, frozen=True):
    p2p: str
    p2p_sn: int
    p2p_peer: int
    p2p_msg_size_bytes: int
    p2p_exec_time_us: int
    p2p_timing_source: str = "unknown"
    event_trace_ts: _Trace = _Trace()


class _Line(msgspec.Struct, frozen=True):
    header: _Communicator
    metadata: _Metadata
    coll_perf: _Collective | None = None
    p2p_perf: _Message | None = None


@dataclass(frozen=True)
class _Operation:
    """An operation of a line. ``start_us``: 0 if the log is not verbose."""

    communicator: _Communicator
    name: str
    sequence: int
    size_bytes: int
    time_us: int
    source: str
    start_us: int
    peer: int = -1


@dataclass
class _Found:
    """One rank. ``communicators``: by identity."""

    process: ObservedProcess
    places: dict[tuple[str, str, int], int] = field(default_factory=dict)
    sources: Counter[str] = field(default_factory=Counter)
    are_timed: bool = False


_DECODER = msgspec.json.Decoder(_Line)


def is_inspector(content: bytes) -> bool:
    """Whether a file is a log of NCCL Inspector, perhaps cut off."""
    head = content[:_HEAD_BYTES].lstrip()
    return head.startswith(b"{") and _MARK in head.partition(b"\n")[0]


def read_inspector(file: BinaryIO, name: str, number: int) -> Sequence[ObservedProcess]:
    """Reads the log of one process, which has one rank, or one for each of its devices.

    ``number``: of the file among those that are imported. Raises UsageError for a line that cannot
    be read.
    """
    operations: list[_Operation] = []
    metadata: _Metadata | None = None
    is_cut = False
    for place, line in enumerate(file):
        if not line.strip():
            continue
        try:
            found = _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if operations and not line.endswith(b"\n"):
                is_cut = True
                continue
            raise UsageError(
                f"{name}:{place + 1}: this line is no operation of NCCL Inspector: {error}. Copy "
                "the file again"
            ) from None
        operations.append(_checked(found, f"{name}:{place + 1}"))
        metadata = metadata or found.metadata
        if found.metadata.pid != metadata.pid or found.metadata.hostname != metadata.hostname:
            raise UsageError(
                f"{name}:{place + 1}: process {found.metadata.pid} of "
                f"{plain(found.metadata.hostname)} here, process {metadata.pid} of "
                f"{plain(metadata.hostname)} above: import the file of each process, not all in one"
            )
    if metadata is None:
        raise UsageError(f"{name} contains no complete operation")
    note = "the last line is cut off and was left out" if is_cut else ""
    version = metadata.inspector_output_format_version
    if version != _KNOWN_VERSION:
        unknown = f"the format is {plain(version)[:20]}, newer than {_KNOWN_VERSION}"
        note = "; ".join(filter(None, (note, unknown)))
    return [_process(own, rank, metadata, note) for rank, own in _by_rank(operations, name).items()]


def _checked(line: _Line, place: str) -> _Operation:
    """Returns the operation of a line. Raises UsageError for an impossible one."""
    communicator = line.header
    if not 0 <= communicator.rank < communicator.n_ranks <= MOST_RANKS:
        raise UsageError(
            f"{place}: rank {communicator.rank} of {communicator.n_ranks}: the line is damaged"
        )
    if line.coll_perf is not None:
        one = line.coll_perf
        found = _Operation(
            communicator,
            one.coll,
            one.coll_sn,
            one.coll_msg_size_bytes,
            one.coll_exec_time_us,
            one.coll_timing_source,
            _start_us(one.event_trace_ts),
        )
    elif line.p2p_perf is not None:
        message = line.p2p_perf
        found = _Operation(
            communicator,
            message.p2p,
            message.p2p_sn,
            message.p2p_msg_size_bytes,
            message.p2p_exec_time_us,
            message.p2p_timing_source,
            _start_us(message.event_trace_ts),
            message.p2p_peer if 0 <= message.p2p_peer < communicator.n_ranks else -1,
        )
    else:
        raise UsageError(f"{place}: neither coll_perf nor p2p_perf is in this line")
    numbers = (found.sequence, found.size_bytes * communicator.n_ranks)
    times = ((found.start_us + found.time_us) * 1000, found.time_us)
    if min(*numbers, *times, found.start_us) < 0 or max(*numbers, *times) >= NUMBER_LIMIT:
        raise UsageError(f"{place}: a number is negative or too large: the line is damaged")
    return found


def _start_us(trace: _Trace) -> int:
    """The first moment of a kernel on any channel, 0 if it is unknown."""
    known = [one.kernel_start_ts for one in trace.kernel_events if one.kernel_start_ts > 0]
    return min(known, default=0)


def _by_rank(operations: Sequence[_Operation], name: str) -> dict[int, list[_Operation]]:
    """Returns the operations of each rank of the program: that of the largest communicator.

    A process with several devices has a communicator with several ranks. They are distinct only
    if it has no other communicator.
    """
    ranks: dict[str, set[int]] = {}
    for one in operations:
        ranks.setdefault(one.communicator.id, set()).add(one.communicator.rank)
    if max(map(len, ranks.values())) == 1:
        largest = max((one.communicator for one in operations), key=lambda own: own.n_ranks)
        return {largest.rank: list(operations)}
    if len(ranks) > 1:
        raise UsageError(
            f"{name}: this process has several ranks and several communicators, so that the "
            "communicators of a rank are unknown: profile with one process for each device"
        )
    found: dict[int, list[_Operation]] = {}
    for one in operations:
        found.setdefault(one.communicator.rank, []).append(one)
    return found


def _process(
    operations: Sequence[_Operation], rank: int, metadata: _Metadata, note: str
) -> ObservedProcess:
    process = ObservedProcess(rank, plain(metadata.hostname), metadata.pid, "nccl")
    found = _Found(process, are_timed=all(one.start_us > 0 for one in operations))
    ordered = sorted(operations, key=lambda one: one.start_us) if found.are_timed else operations
    for one in ordered:
        _add(found, one)
    process.note = "; ".join(filter(None, (note, *_notes(found))))
    return process


def _add(found: _Found, one: _Operation) -> None:
    process, communicator = found.process, one.communicator
    identity = plain(communicator.id)
    name = "" if communicator.comm_name == "unknown" else plain(communicator.comm_name)
    process.groups.setdefault(
        identity, ObservedGroup(identity, name, communicator.n_ranks, communicator.rank)
    )
    operation = _OPERATIONS.get(one.name, plain(one.name))
    info = OPERATIONS.get(operation)
    parts = communicator.n_ranks if info is not None and info.spans_ranks else 1
    size_bytes = one.size_bytes * parts
    key = (identity, operation, size_bytes)
    place = found.places.get(key)
    if place is None:
        place = found.places[key] = len(process.operations)
        process.operations.append(ObservedOperation(identity, operation, "nccl", "", 0, size_bytes))
    known = process.operations[place]
    known.calls += 1
    known.bytes += size_bytes
    found.sources[one.source] += 1
    time_ns = one.time_us * 1000
    is_timed = one.source == _ON_DEVICE and one.time_us > 0
    if is_timed:
        known.least_ns = min(known.least_ns, time_ns) if known.timed else time_ns
        known.most_ns = max(known.most_ns, time_ns)
        known.timed += 1
        known.total_ns += time_ns
    begin_ns = one.start_us * 1000
    has_interval = is_timed and found.are_timed
    process.calls.append(
        ObservedCall(
            place,
            one.sequence,
            begin_ns,
            begin_ns if has_interval else 0,
            begin_ns + time_ns if has_interval else 0,
            peer=one.peer,
        )
    )


def _notes(found: _Found) -> list[str]:
    notes = ["element types are not in the log: sizes are bytes"]
    if not found.are_timed:
        notes.append(
            "the moments of the operations are not in the log, so that medians, waits and steps "
            "are unknown: record with NCCL_INSPECTOR_DUMP_VERBOSE=1"
        )
    others = [(count, source) for source, count in found.sources.items() if source != _ON_DEVICE]
    if others:
        listed = ", ".join(f"{count} by {plain(source)[:20]}" for count, source in others[:4])
        notes.append(f"times that are not of the device's clock were left out: {listed}")
    return notes
