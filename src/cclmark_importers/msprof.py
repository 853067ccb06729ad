"""Reads the timelines of msprof, Ascend's profiler: ``msprof_*.json``, a JSON array of events.

The rows "Communication" ("HCCL" before CANN 8) have operations (``hcom_broadcast__674_0_1``) and
their tasks (Memcpy, Reduce_Inline, Notify_Wait, RDMASend) with "src rank", "dst rank", "transport
type", "link type", "size(Byte)" and "bandwidth(GB/s)"; the rows "HBM" and "HCCS" are counters in
MB/s. Source: msprof's "Profile Data File Reference", and its writers (``HcclAssembler``,
``HBMAssembler``). ``trace_view.json`` of Ascend's profiler for torch has the same rows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, BinaryIO

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.profile.observed import ObservedProcess
from cclmark.trace.timeline import Counter
from cclmark_importers.device_tasks import DeviceOperation, DeviceTask, DeviceTrace
from cclmark_importers.trace_calls import (
    Named,
    TorchCalls,
    decoded,
    group_of,
    is_rank,
)
from cclmark_importers.trace_events import TraceTool, pieces_of, read_array

_TOOL = TraceTool("msprof", "msprof writes it whole, and its last character is ]")
_ROWS = ("Communication", "HCCL")
_COUNTERS = re.compile(r"(?:HBM|HCCS)\b")
_GROUP = re.compile(r"(?:Group )?(.*?) ?(?:Aicpu )?Communication(?: OP)?", re.ASCII)
_PLANE = re.compile(r"Plane (\d{1,4})", re.ASCII)
_WITHIN_DEVICE = 0xFFFFFFFF
_NO_NOTIFY = str(0xFFFFFFFFFFFFFFFF)
_MOST_US = Decimal(1 << 53)  # some 285 years
_UNKNOWN = ("", "INVALID_TYPE", "RESERVED", "N/A")
_DTYPES = {
    **{"FP64": "float64", "FP32": "float32", "FP16": "float16", "BFP16": "bfloat16"},
    **{"FP8E4M3": "fp8e4m3", "FP8E5M2": "fp8e5m2"},
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16)},
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (32, 64)},
}


class _Event(msgspec.Struct):
    """An event. ``ts`` and ``dur``: microseconds, with more digits than a float has."""

    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: Decimal | None = None
    dur: Decimal | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


_LIST = msgspec.json.Decoder(list[_Event])
_ARGUMENTS = msgspec.json.Decoder(dict[str, Any])
_Row = int | str


def is_msprof(content: bytes) -> bool:
    """Whether a file is an array of trace events."""
    head = content[: 1 << 16].lstrip()
    return head.startswith(b"[") and all(one in head for one in (b'"ph"', b'"pid"', b'"name"'))


@dataclass
class _Kept:
    """Data kept of the events, by process: names, tasks, candidates for operations, counters."""

    names: dict[_Row, str] = field(default_factory=dict)
    labels: dict[_Row, str] = field(default_factory=dict)
    threads: dict[_Row, dict[_Row, str]] = field(default_factory=dict)
    tasks: dict[_Row, list[tuple[_Row, DeviceTask]]] = field(default_factory=dict)
    operations: dict[_Row, list[tuple[_Row, DeviceOperation]]] = field(default_factory=dict)
    counters: dict[_Row, dict[str, Counter]] = field(default_factory=dict)
    damaged: int = 0

    def add(self, events: list[_Event]) -> None:
        """Adds events."""
        for event in events:
            if event.ph == "M":
                self._add_name(event)
            elif event.ph == "X" and b'"dst rank"' in bytes(event.args):
                self._add_task(event)
            elif event.ph == "X" and event.name.startswith("hcom"):
                self._add_operation(event)
            elif event.ph == "C" and b"(MB/s)" in bytes(event.args):
                self._add_counter(event)

    def _add_name(self, event: _Event) -> None:
        arguments = _arguments(event)
        name = plain(str(arguments.get("name", "")))
        if event.name == "process_name":
            self.names[event.pid] = name
        elif event.name == "process_labels":
            self.labels[event.pid] = plain(str(arguments.get("labels", "")))
        elif event.name == "thread_name":
            self.threads.setdefault(event.pid, {})[event.tid] = name

    def _add_task(self, event: _Event) -> None:
        arguments, times = _arguments(event), _times(event)
        rank, peer = _whole(arguments.get("src rank")), _whole(arguments.get("dst rank"))
        size = _whole(arguments.get("size(Byte)", 0))
        if times is None or not is_rank(rank) or peer is None or size is None:
            self.damaged += 1
            return
        assert rank is not None
        within = peer in (_WITHIN_DEVICE, rank)
        if not within and not is_rank(peer):
            self.damaged += 1
            return
        notify = str(arguments.get("notify_id", arguments.get("notify id", _NO_NOTIFY)))
        rate = arguments.get("bandwidth(GB/s)")
        task = DeviceTask(
            *(plain(event.name), 0, *times, rank, None if within else peer, size),
            link=_known(arguments.get("link type")),
            transport=_known(arguments.get("transport type")),
            dtype=_known(arguments.get("data type")),
            notify="" if notify == _NO_NOTIFY or not notify.isdecimal() else notify,
            rate_gb_per_s=rate if isinstance(rate, float) else _whole(rate),
        )
        self.tasks.setdefault(event.pid, []).append((event.tid, task))

    def _add_operation(self, event: _Event) -> None:
        arguments, times = _arguments(event), _times(event)
        if times is None:
            self.damaged += 1
            return
        one = DeviceOperation(
            *(plain(event.name), "", *times),
            dtype=_known(arguments.get("data_type")),
            count=_whole(arguments.get("count")) or 0,
            algorithm=_known(arguments.get("alg_type")),
            ranks=_whole(arguments.get("rank_size")) or 0,
        )
        self.operations.setdefault(event.pid, []).append((event.tid, one))

    def _add_counter(self, event: _Event) -> None:
        at_ns = _nanoseconds(event.ts)
        for value in _arguments(event).values():
            if at_ns is None or not isinstance(value, int | float):
                self.damaged += 1
                continue
            key = plain(event.name)
            of_row = self.counters.setdefault(event.pid, {})
            counter = of_row.setdefault(key, Counter(key, "MB/s"))
            counter.values.append((at_ns, float(value)))


def _arguments(event: _Event) -> dict[str, Any]:
    return decoded(_ARGUMENTS, event.args, {})


def _nanoseconds(time_us: Decimal | None) -> int | None:
    if time_us is None or not time_us.is_finite() or not 0 <= time_us < _MOST_US:
        return None
    return round(time_us * 1000)


def _times(event: _Event) -> tuple[int, int] | None:
    begin_ns, length_ns = _nanoseconds(event.ts), _nanoseconds(event.dur)
    return None if begin_ns is None or length_ns is None else (begin_ns, begin_ns + length_ns)


def _whole(value: object) -> int | None:
    """A number that msprof writes as a number or, in some versions, as a text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1 << 62 else None


def _known(value: object) -> str:
    text = plain(str(value)) if isinstance(value, str) else ""
    return "" if text in _UNKNOWN else text


@dataclass(frozen=True)
class MsprofFile:
    """The devices of a file. ``notes``: what is missing, in words."""

    traces: list[DeviceTrace]
    notes: list[str]


def read_msprof(file: BinaryIO, name: str, number: int) -> MsprofFile:
    """Reads a file piece by piece. ``number``: its place among those that are read.

    Raises UsageError if it is cut off or damaged, or contains no communication.
    """
    kept = _Kept()
    read_array(pieces_of(file, name), name, _TOOL, _LIST, kept.add)
    devices = by_key((kept.labels.get(row, ""), row) for row in _rows_of(kept))
    traces = [
        _device(kept, label, rows, number + place)
        for place, (label, rows) in enumerate(devices.items())
    ]
    traces = [one for one in traces if one.operations or one.others]
    if not traces:
        raise UsageError(
            f"{name} contains no communication: no task with src rank and dst rank, and no "
            "operation in a row Communication or HCCL. Collect with msprof --hccl=on"
        )
    notes = []
    if kept.damaged:
        notes.append(f"{kept.damaged} events without a time, a rank or a size are left out")
    if others := sum(len(one.others) for one in traces):
        notes.append(f"{others} tasks belong to no operation of the trace")
    if not any(one.tasks for one in traces):
        notes.append("no tasks: msprof records them from --task-time=l1 on")
    if not any(one.operations for one in traces):
        rows = ", ".join(sorted({*kept.names.values()})) or "none"
        notes.append(f"no operation: no row is named Communication or HCCL (rows: {rows})")
    return MsprofFile(traces, notes)


def _rows_of(kept: _Kept) -> Iterator[_Row]:
    """The processes that have communication or counters, communication first."""
    yield from dict.fromkeys([*kept.tasks, *(row for row in kept.operations if _is_of(kept, row))])
    for row in kept.counters:
        if _COUNTERS.match(kept.names.get(row, "")) and row not in kept.tasks:
            yield row


def _is_of(kept: _Kept, row: _Row) -> bool:
    """Whether a process has operations of devices; CANN's own row names its calls alike."""
    return kept.names.get(row, "") in _ROWS


def _device(kept: _Kept, label: str, rows: Sequence[_Row], number: int) -> DeviceTrace:
    trace = DeviceTrace(number, label or "NPU")
    ranks: Tally[int] = Tally()
    for row in rows:
        tasks, operations = kept.tasks.get(row, []), kept.operations.get(row, [])
        places = _places(kept.threads.get(row, {}), [tid for tid, _ in (*tasks, *operations)])
        by_group = by_key((places[tid], task) for tid, task in tasks)
        grouped: dict[str, list[DeviceTask]] = {}
        for (group, plane), own in by_group.items():
            of_plane = [replace(task, plane=plane) for task in own]
            grouped.setdefault(group, []).extend(of_plane)
            ranks.update(task.rank for task in own)
        found = by_key((places[tid][0], one) for tid, one in operations if _is_of(kept, row))
        for group, own_operations in found.items():
            own_operations.sort(key=lambda one: one.begin_ns)
            for place, one in enumerate(own_operations):
                one.group, one.number = group, place
            trace.operations += own_operations
        for group, of_group in grouped.items():
            _attribute(of_group, found.get(group, []), trace.others)
        row_name = kept.names.get(row, "")
        for counter in kept.counters.get(row, {}).values():
            # HBM 0/Read, but Rx in the row HCCS.
            if not counter.name.startswith(row_name):
                counter.name = f"{row_name} {counter.name}"
            trace.counters.append(counter)
    for one in trace.operations:
        one.tasks.sort(key=lambda task: task.begin_ns)
    for counter in trace.counters:
        counter.values.sort()
    if ranks:
        # In smaller groups a device has other ranks.
        trace.rank = ranks.most_common(1)[0][0]
    return trace


def _places(names: Mapping[_Row, str], used: Sequence[_Row]) -> dict[_Row, tuple[str, int]]:
    """Group and plane of each thread. The planes of a group follow its own thread."""
    places: dict[_Row, tuple[str, int]] = {}
    group, first = "", 0
    for tid in sorted({*names, *used}, key=lambda one: (isinstance(one, str), one)):
        name = names.get(tid, "")
        is_plane = _PLANE.fullmatch(name)
        whole = None if is_plane else _GROUP.fullmatch(name)
        if whole is not None:
            group, first = whole[1], tid if isinstance(tid, int) else 0
        plane = int(is_plane[1]) if is_plane else tid - first - 1 if isinstance(tid, int) else 0
        places[tid] = (group, max(plane, 0))
    return places


def _attribute(
    tasks: Sequence[DeviceTask], operations: Sequence[DeviceOperation], others: list[DeviceTask]
) -> None:
    """Gives each task to the operation in whose time it begins, or to ``others``."""
    begins = [one.begin_ns for one in operations]
    for task in tasks:
        place = bisect_right(begins, task.begin_ns) - 1
        if place >= 0 and task.begin_ns <= operations[place].end_ns:
            operations[place].tasks.append(task)
        else:
            others.append(task)


_OPERATIONS = {
    "allreduce": Named("all_reduce"),
    "allgather": Named("all_gather"),
    "reducescatter": Named("reduce_scatter", is_counted_by_output=True),
    "broadcast": Named("broadcast"),
    "reduce": Named("reduce"),
    "scatter": Named("scatter", is_counted_by_output=True),
    "gather": Named("gather"),
    "alltoall": Named("alltoall"),
    "alltoallv": Named("alltoallv"),
    "alltoallvc": Named("alltoallv"),
    "send": Named("send"),
    "receive": Named("recv", is_counted_by_output=True),
}
_NAME = re.compile(r"hcom_([A-Za-z]+)", re.ASCII)
_UNCOUNTED = ("alltoall", "alltoallv")  # what msprof counts there is not documented


def read_processes(file: BinaryIO, name: str, number: int) -> list[ObservedProcess]:
    """The operations of the devices of a file as calls of a program. Raises UsageError."""
    found = read_msprof(file, name, number)
    note = "; ".join(found.notes)
    if not any(one.operations for one in found.traces):
        raise UsageError(f"{name}: {note}. cclmark trace msprof shows the tasks")
    return [_process(trace, note) for trace in found.traces]


def _process(trace: DeviceTrace, note: str) -> ObservedProcess:
    calls = TorchCalls(ObservedProcess(trace.rank, "", 0, library="hccl", note=note))
    for one in sorted(trace.operations, key=lambda one: one.begin_ns):
        named = _named(one.name)
        calls.add(
            "hccl",
            named,
            group_of(one.group, "", str(one.ranks), one.ranks, []),
            _DTYPES.get(one.dtype, one.dtype),
            0 if named.operation in _UNCOUNTED else one.count,
            at_ns=one.begin_ns,
            time_ns=one.length_ns,
        )
    return calls.process


def _named(name: str) -> Named:
    """The operation of a name such as hcom_allReduce__360_1_1."""
    found = _NAME.match(name)
    kind = found[1].lower() if found is not None else ""
    return _OPERATIONS.get(kind) or Named(found[1] if found is not None else name)
