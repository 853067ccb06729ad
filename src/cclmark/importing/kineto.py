"""Reads torch.profiler's traces (Kineto), one for each rank, as profiles of programs.

The kernels of NCCL carry what torch called: "Collective name", "In msg nelems", "Out msg nelems",
"dtype", "Group size", "Process Group Name" and "Process Group Ranks" (torch/csrc/distributed/c10d/
ParamCommsUtils.hpp). Gloo has no kernels: its events "gloo:all_reduce" have times, and sizes if the
shapes were recorded.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec

from cclmark.errors import UsageError
from cclmark.importing.trace_events import Event, is_compressed, pieces_of, read_events
from cclmark.plan.operations import DTYPE_BYTES, OPERATIONS
from cclmark.printable import plain
from cclmark.profile.intervals import Interval, union_of
from cclmark.profile.observed import (
    MOST_RANKS,
    ObservedCall,
    ObservedGroup,
    ObservedOperation,
    ObservedProcess,
)

_DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_MOST_OF_ONE_CALL = 1 << 12  # operations
_FIRST_UNION = 1 << 18  # intervals of kernels, which may overlap
_STEP = "ProfilerStep#"
_RECORD = "record_param_comms"
_NO_OPERATIONS = frozenset({"init", "wait", "end", "monitoredBarrier", "startCoalescing"})
_NCCL_KERNEL = re.compile(r"nccl(?:Dev)?Kernel_?([A-Za-z]+)", re.ASCII)
_RANK_IN_NAME = re.compile(r"(\d+)(?!.*\d)")
_NCCL, _GLOO = "nccl", "gloo"

#: Types as torch names them, in records of collectives and of operators.
_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "uint8",
    "Int": "int32",
    "Long": "int64",
    "Float8_e4m3fn": "fp8e4m3",
    "Float8_e5m2": "fp8e5m2",
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "uint8",
}


@dataclass(frozen=True)
class _Named:
    """An operation by its name in a trace. ``is_counted_by_output``: its count is the output's."""

    operation: str
    is_counted_by_output: bool = False


_COLLECTIVES = {
    **dict.fromkeys(
        ("allreduce", "all_reduce", "allreduce_coalesced", "AllReduce", "reduce_all"),
        _Named("all_reduce"),
    ),
    "barrier": _Named("all_reduce"),  # NCCL has none: torch reduces one element
    **dict.fromkeys(
        (
            *("allgather", "_allgather_base", "all_gather", "AllGather", "allgather_base"),
            *("all_gather_into_tensor", "all_gather_into_tensor_coalesced"),
            *("allgather_into_tensor_coalesced", "allgather_coalesced"),
        ),
        _Named("all_gather"),
    ),
    **dict.fromkeys(
        (
            *("reduce_scatter", "_reduce_scatter_base", "ReduceScatter", "reduce_scatter_tensor"),
            *("reduce_scatter_tensor_coalesced", "reduce_scatter_base"),
        ),
        _Named("reduce_scatter", is_counted_by_output=True),
    ),
    **dict.fromkeys(("broadcast", "_broadcast_oop", "Broadcast"), _Named("broadcast")),
    **dict.fromkeys(("reduce", "_reduce_oop", "Reduce"), _Named("reduce")),
    **dict.fromkeys(("all_to_all", "alltoall", "alltoall_base"), _Named("alltoall")),
    **dict.fromkeys(("all_to_allv", "alltoallv"), _Named("alltoallv")),
    **dict.fromkeys(("gather", "Gather"), _Named("gather")),
    **dict.fromkeys(("scatter", "Scatter"), _Named("scatter", is_counted_by_output=True)),
    **dict.fromkeys(("send", "Send"), _Named("send")),
    **dict.fromkeys(("recv", "Recv", "recvAnySource"), _Named("recv", is_counted_by_output=True)),
    "SendRecv": _Named("sendrecv"),
}
#: Operations whose count in a trace is that of all parts of a rank, not of one.
_WHOLE_INPUT = frozenset({"alltoall", "alltoallv"})


_ARGUMENTS = msgspec.json.Decoder(dict[str, Any])


def is_kineto(content: bytes) -> bool:
    """Whether a file is a trace of torch.profiler, perhaps compressed or cut off."""
    start = content
    if is_compressed(content):
        try:
            start = zlib.decompressobj(wbits=31).decompress(content, 1 << 16)
        except zlib.error:
            return False
    head = start[: 1 << 16].lstrip()
    return head.startswith(b"{") and (
        b'"traceEvents"' in head or (b'"schemaVersion"' in head and b'"deviceProperties"' in head)
    )


@dataclass
class _Kept:
    """What is kept of the events. ``kernels``: the intervals of kernels that are not NCCL's."""

    communication: list[tuple[Event, int, int]] = field(default_factory=list)
    recorded: list[tuple[Event, int, int]] = field(default_factory=list)
    kernels: list[Interval] = field(default_factory=list)
    host_steps: list[Interval] = field(default_factory=list)
    device_steps: list[Interval] = field(default_factory=list)
    has_device: bool = False
    most: int = _FIRST_UNION

    def add(self, events: list[Event]) -> None:
        """Adds events. Their arguments are copied, since they refer to a piece of the file."""
        for event, begin_ns, end_ns in _complete(events):
            if event.cat in _DEVICE_WORK:
                self.has_device = True
                if event.cat != "kernel" or "nccl" not in event.name[:16]:
                    self.kernels.append((begin_ns, end_ns))
                    continue
                self.communication.append((_copied(event), begin_ns, end_ns))
            elif event.name.startswith(_STEP):
                steps = self.device_steps if event.cat.startswith("gpu") else self.host_steps
                steps.append((begin_ns, end_ns))
            elif event.name.startswith("gloo:"):
                self.communication.append((_copied(event), begin_ns, end_ns))
            elif event.name == _RECORD:
                self.recorded.append((_copied(event), begin_ns, end_ns))
        if len(self.kernels) > self.most:
            self.kernels = union_of(self.kernels)
            self.most = max(_FIRST_UNION, 2 * len(self.kernels))


def _copied(event: Event) -> Event:
    return Event(cat=event.cat, name=event.name, args=event.args.copy())


@dataclass
class _Found:
    """What is collected of a trace."""

    process: ObservedProcess
    gloo: ObservedGroup
    kept: _Kept
    places: dict[tuple[object, ...], int] = field(default_factory=dict)
    sequences: dict[tuple[str, str, int | None], int] = field(default_factory=dict)
    streams: dict[int | str, int] = field(default_factory=dict)
    unnamed: int = 0
    unsized: int = 0
    untimed: int = 0


def read_kineto(file: BinaryIO, name: str, number: int) -> ObservedProcess:
    """Reads the trace of one rank. ``number``: of the file among those that are imported.

    The file is read piece by piece: only communication and the times of kernels are kept. Raises
    UsageError if the trace is truncated or damaged, or contains no communication.
    """
    kept = _Kept()
    members = read_events(pieces_of(file, name), name, kept.add)
    info = members.distributedInfo
    found = _Found(
        ObservedProcess(
            rank=_rank(info, name, number),
            host=plain(members.host_name),
            pid=0,
            library=_library(info),
        ),
        _group_of_gloo(info),
        kept,
    )
    for event in sorted(kept.communication, key=lambda one: one[1]):
        _add(found, *event)
    kept.communication.clear()
    if not found.process.operations:
        _add_recorded(found)
    _complete_process(found)
    if not found.process.operations:
        raise UsageError(
            f"{name} contains no communication: no kernel of NCCL, and no event of gloo. Record "
            "with ProfilerActivity.CUDA (for gloo: CPU), around the steps of training"
        )
    if not found.process.is_possible:
        raise UsageError(
            f"{name}: the trace is damaged: it contains numbers that are too large. Export it again"
        )
    return found.process


def _rank(info: dict[str, Any], name: str, number: int) -> int:
    rank = info.get("rank")
    if isinstance(rank, int) and 0 <= rank < MOST_RANKS:
        return rank
    in_name = _RANK_IN_NAME.search(name.rpartition("/")[2])
    if in_name is not None and len(in_name[1]) < 7:
        return int(in_name[1])
    return number


def _library(info: dict[str, Any]) -> str:
    backend, version = info.get("backend"), info.get("nccl_version")
    if not isinstance(backend, str):
        return ""
    is_known = backend == _NCCL and isinstance(version, str)
    return plain(f"{backend} {version}" if is_known else backend)


def _group_of_gloo(info: dict[str, Any]) -> ObservedGroup:
    """The group of gloo's operations, whose events do not name it: known if there is only one."""
    groups = info.get("pg_config")
    only = groups[0] if isinstance(groups, list) and len(groups) == 1 else None
    ranks = only.get("ranks") if isinstance(only, dict) else None
    if not isinstance(ranks, list) or not all(isinstance(one, int) for one in ranks):
        return ObservedGroup(_GLOO)
    assert isinstance(only, dict)
    return ObservedGroup(_GLOO, plain(str(only.get("pg_desc", ""))), len(ranks), -1, ranks)


def _complete(events: list[Event]) -> Iterator[tuple[Event, int, int]]:
    """The events with a duration, and their begin and end in nanoseconds."""
    for event in events:
        if event.ph != "X":
            continue
        try:
            begin_ns = round(float(event.ts or 0.0) * 1e3)
            yield event, begin_ns, begin_ns + round(float(event.dur or 0.0) * 1e3)
        except (ValueError, OverflowError):
            continue


def _add(found: _Found, event: Event, begin_ns: int, end_ns: int) -> None:
    if event.cat in _DEVICE_WORK:
        _add_nccl(found, event, begin_ns, end_ns)
    else:
        _add_gloo(found, event, begin_ns, end_ns)


def _arguments(event: Event) -> dict[str, Any]:
    try:
        return _ARGUMENTS.decode(event.args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


def _add_nccl(
    found: _Found, event: Event, begin_ns: int, end_ns: int, *, is_timed: bool = True
) -> None:
    arguments = _arguments(event)
    name = arguments.get("Collective name")
    if not isinstance(name, str) or not name:
        kernel = _NCCL_KERNEL.match(event.name)
        name = kernel[1] if kernel is not None else "unknown"
        found.unnamed += 1
    named = _COLLECTIVES.get(name, _Named(plain(name)))
    group = _group(arguments)
    dtype = str(arguments.get("dtype", ""))
    side = "Out" if named.is_counted_by_output else "In"
    _add_call(
        found,
        _NCCL,
        named.operation,
        group,
        _DTYPES.get(dtype, plain(dtype).lower()),
        _number(arguments.get(f"{side} msg nelems")),
        (begin_ns, end_ns),
        arguments.get("stream"),
        _peer(named.operation, arguments),
        arguments.get("Seq"),
        is_timed=is_timed,
    )


def _add_recorded(found: _Found) -> None:
    """Adds the calls of a trace without kernels, whose times are unknown."""
    for event, begin_ns, end_ns in sorted(found.kept.recorded, key=lambda one: one[1]):
        name = _arguments(event).get("Collective name")
        if isinstance(name, str) and name and name not in _NO_OPERATIONS:
            _add_nccl(found, event, begin_ns, end_ns, is_timed=False)
            found.untimed += 1


def _peer(operation: str, arguments: dict[str, Any]) -> int:
    side = {"send": "Dst Rank", "recv": "Src Rank"}.get(operation)
    value = arguments.get(side) if side is not None else None
    return value if isinstance(value, int) and 0 <= value < MOST_RANKS else -1


def _group(arguments: dict[str, Any]) -> ObservedGroup:
    name = plain(str(arguments.get("Process Group Name", "")))
    described = plain(str(arguments.get("Process Group Description", "")))
    text = str(arguments.get("Process Group Ranks", ""))
    size = _number(arguments.get("Group size"))
    members: list[int] = []
    if "..." not in text:  # torch shortens long lists
        members = [int(one) for one in re.findall(r"\d{1,7}", text)]
    if size and len(members) != size:
        members = []
    shown = described if described not in ("", "undefined") else name
    return ObservedGroup(plain(f"{name} {text} {size}"), shown, size or len(members), -1, members)


def _add_gloo(found: _Found, event: Event, begin_ns: int, end_ns: int) -> None:
    arguments = _arguments(event)
    name = event.name.removeprefix("gloo:")
    named = _COLLECTIVES.get(name, _Named(plain(name)))
    dimensions, types = arguments.get("Input Dims"), arguments.get("Input type")
    count, dtype = 0, ""
    if isinstance(dimensions, list) and dimensions and isinstance(dimensions[0], list):
        count = 1
        for one in dimensions[0]:
            count = _number(count * _number(one))
        if isinstance(types, list) and types:
            dtype = _DTYPES.get(str(types[0]), plain(str(types[0])))
    else:
        found.unsized += 1
    _add_call(
        found,
        _GLOO,
        named.operation,
        found.gloo,
        dtype,
        count,
        (begin_ns, end_ns),
        None,
        -1,
    )


def _add_call(
    found: _Found,
    ccl: str,
    operation: str,
    group: ObservedGroup,
    dtype: str,
    count: int,
    interval: tuple[int, int],
    stream: object,
    peer: int,
    numbered: object = None,
    *,
    is_timed: bool = True,
) -> None:
    process = found.process
    known = process.groups.setdefault(group.identity, group)
    if process.rank in known.members:
        known.own_rank = known.members.index(process.rank)
    size_bytes = count * DTYPE_BYTES.get(dtype, 0)
    info = OPERATIONS.get(operation)
    if operation in _WHOLE_INPUT:
        count //= max(1, known.ranks)
    elif info is not None and info.spans_ranks:
        size_bytes *= max(1, known.ranks)
    key = (ccl, operation, group.identity, dtype, count)
    place = found.places.get(key)
    if place is None:
        place = found.places[key] = len(process.operations)
        process.operations.append(
            ObservedOperation(group.identity, operation, ccl, dtype, count, size_bytes)
        )
    one = process.operations[place]
    begin_ns, end_ns = interval
    time_ns = max(0, end_ns - begin_ns)
    if is_timed:
        one.least_ns = min(one.least_ns, time_ns) if one.timed else time_ns
        one.most_ns = max(one.most_ns, time_ns)
        one.timed += 1
        one.total_ns += time_ns
    one.calls += 1
    one.bytes += size_bytes
    sequence = _sequence(found, group.identity, operation, numbered)
    number = -1
    if isinstance(stream, int | str):
        number = found.streams.setdefault(stream, len(found.streams))
    begins_ns, ends_ns = (begin_ns, max(begin_ns, end_ns)) if is_timed else (0, 0)
    process.calls.append(ObservedCall(place, sequence, begin_ns, begins_ns, ends_ns, number, peer))


def _sequence(found: _Found, group: str, operation: str, numbered: object) -> int:
    """The number by which ranks match a call: torch's own, or the call's among its likes.

    Several operations of one call of torch have one number.
    """
    own = numbered if isinstance(numbered, int) and 0 <= numbered < 1 << 40 else None
    number = found.sequences.get((group, operation, own), 0)
    found.sequences[group, operation, own] = number + 1
    return number if own is None else own * _MOST_OF_ONE_CALL + number


def _complete_process(found: _Found) -> None:
    process = found.process
    kept = found.kept
    if kept.has_device:
        process.kernels = union_of(kept.kernels)
    process.steps = _steps(kept.device_steps or kept.host_steps)
    notes = []
    if found.unnamed:
        notes.append(
            f"{found.unnamed} kernels of NCCL without a description of the collective, as torch "
            "before 2.4 records them: their sizes are unknown"
        )
    if found.unsized:
        notes.append(
            f"{found.unsized} operations of gloo without sizes: record with record_shapes=True"
        )
    if found.untimed:
        notes.append(
            f"{found.untimed} calls without kernels, so that their times are unknown: record with "
            "ProfilerActivity.CUDA"
        )
    process.note = "; ".join(notes)


def _steps(marked: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The steps, each up to the begin of the next one: the last one up to its own end."""
    ordered = sorted(marked)
    ends = [begin for begin, _ in ordered[1:]] + [end for _, end in ordered[-1:]]
    return [(begin, end) for (begin, _), end in zip(ordered, ends, strict=True) if end > begin]
