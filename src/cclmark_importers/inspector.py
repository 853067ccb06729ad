"""Reads the logs of NCCL Inspector, NCCL's profiler plug-in (plugins/profiler/inspector).

A file is of one process; each line is JSON of one operation. Version v4.0 of the format is that of
NCCL 2.28 to 2.30, to which 2.30 added "comm_name" and "p2p_perf". With NCCL_INSPECTOR_DUMP_VERBOSE
a line has the moments of the kernels too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.profile.observed import NUMBER_LIMIT, ObservedCall, ObservedGroup, ObservedProcess
from cclmark.work.operations import OPERATIONS
from cclmark.work.profiled import MOST_RANKS
from cclmark_importers.trace_calls import ProcessCalls

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


def _prefixed(prefix: str) -> Callable[[str], str]:
    def named(field: str) -> str:
        return prefix if field == "name" else f"{prefix}_{field}"

    return named


class _Collective(msgspec.Struct, frozen=True, rename=_prefixed("coll")):
    name: str
    sn: int
    msg_size_bytes: int
    exec_time_us: int
    timing_source: str = "unknown"
    trace: _Trace = msgspec.field(default=_Trace(), name="event_trace_ts")


class _Message(msgspec.Struct, frozen=True, rename=_prefixed("p2p")):
    name: str
    sn: int
    peer: int
    msg_size_bytes: int
    exec_time_us: int
    timing_source: str = "unknown"
    trace: _Trace = msgspec.field(default=_Trace(), name="event_trace_ts")


class _Line(msgspec.Struct, frozen=True):
    header: _Communicator
    metadata: _Metadata
    coll_perf: _Collective | None = None
    p2p_perf: _Message | None = None


@dataclass(frozen=True)
class _Operation:
    """An operation of a line. ``start_us``: of its first kernel, 0 if the log is not verbose."""

    communicator: _Communicator
    work: _Collective | _Message
    start_us: int
    peer: int = -1


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
    work = line.coll_perf or line.p2p_perf
    if work is None:
        raise UsageError(f"{place}: neither coll_perf nor p2p_perf is in this line")
    starts = [one.kernel_start_ts for one in work.trace.kernel_events if one.kernel_start_ts > 0]
    start_us = min(starts, default=0)
    numbers = [work.sn, work.msg_size_bytes * communicator.n_ranks, work.exec_time_us]
    numbers.append((start_us + work.exec_time_us) * 1000)
    if min(numbers) < 0 or max(numbers) >= NUMBER_LIMIT:
        raise UsageError(f"{place}: a number is negative or too large: the line is damaged")
    peer = work.peer if isinstance(work, _Message) and work.peer < communicator.n_ranks else -1
    return _Operation(communicator, work, start_us, max(-1, peer))


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
    return by_key((one.communicator.rank, one) for one in operations)


def _process(
    operations: Sequence[_Operation], rank: int, metadata: _Metadata, note: str
) -> ObservedProcess:
    calls = ProcessCalls(ObservedProcess(rank, plain(metadata.hostname), metadata.pid, "nccl"))
    has_moments = all(one.start_us > 0 for one in operations)
    ordered = sorted(operations, key=lambda one: one.start_us) if has_moments else operations
    for one in ordered:
        _add(calls, one, has_moments=has_moments)
    sources = Counter(one.work.timing_source for one in ordered)
    calls.process.note = "; ".join(filter(None, (note, *_notes(sources, has_moments=has_moments))))
    return calls.process


def _add(calls: ProcessCalls, one: _Operation, *, has_moments: bool) -> None:
    communicator, work = one.communicator, one.work
    group = plain(communicator.id)
    name = "" if communicator.comm_name == "unknown" else plain(communicator.comm_name)
    calls.process.groups.setdefault(
        group, ObservedGroup(group, name, communicator.n_ranks, communicator.rank)
    )
    operation = _OPERATIONS.get(work.name, plain(work.name))
    info = OPERATIONS.get(operation)
    parts = communicator.n_ranks if info is not None and info.spans_ranks else 1
    is_timed = work.timing_source == _ON_DEVICE and work.exec_time_us > 0
    time_ns = work.exec_time_us * 1000 if is_timed else None
    size_bytes = work.msg_size_bytes * parts
    place = calls.count(group, operation, "nccl", "", 0, size_bytes, time_ns)
    at_ns = one.start_us * 1000
    begin_ns, end_ns = (0, 0) if time_ns is None or not has_moments else (at_ns, at_ns + time_ns)
    calls.process.calls.append(ObservedCall(place, work.sn, at_ns, begin_ns, end_ns, peer=one.peer))


def _notes(sources: Counter[str], *, has_moments: bool) -> list[str]:
    notes = ["element types are not in the log: sizes are bytes"]
    if not has_moments:
        notes.append(
            "the moments of the operations are not in the log, so that medians, waits and steps "
            "are unknown: record with NCCL_INSPECTOR_DUMP_VERBOSE=1"
        )
    others = [(count, source) for source, count in sources.items() if source != _ON_DEVICE]
    if others:
        listed = ", ".join(f"{count} by {plain(source)[:20]}" for count, source in others[:4])
        notes.append(f"times that are not of the device's clock were left out: {listed}")
    return notes
