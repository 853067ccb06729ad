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
from typing import Any

import msgspec

from cclmark.errors import UsageError
from cclmark.plan.operations import DTYPE_BYTES, OPERATIONS
from cclmark.printable import plain
from cclmark.profile.observed import (
    MOST_RANKS,
    ObservedCall,
    ObservedGroup,
    ObservedOperation,
    ObservedProcess,
)

_GZIP = b"\x1f\x8b"
_MOST_BYTES = 4 << 30  # of a trace after decompression
_DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_MOST_OF_ONE_CALL = 1 << 12  # operations
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


class _Event(msgspec.Struct):
    """An event of a trace. ``ts`` and ``dur`` are microseconds; some events lack them."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float | str | None = None
    dur: float | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class _Trace(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815 - Kineto's name
    distributedInfo: dict[str, Any] = {}  # noqa: N815 - Kineto's name
    deviceProperties: list[dict[str, Any]] = []  # noqa: N815 - Kineto's name
    host_name: str = ""


_DECODER = msgspec.json.Decoder(_Trace)
_ARGUMENTS = msgspec.json.Decoder(dict[str, Any])


def decompressed(content: bytes, name: str) -> bytes:
    """Returns the content of a file that may be compressed by gzip. Raises UsageError."""
    if not content.startswith(_GZIP):
        return content
    try:
        found = zlib.decompressobj(wbits=31)
        whole = found.decompress(content, _MOST_BYTES)
    except (OSError, zlib.error) as error:
        raise UsageError(
            f"{name}: the compressed file is damaged ({error}): copy it again"
        ) from None
    if len(whole) >= _MOST_BYTES:
        raise UsageError(f"{name}: the trace is larger than {_MOST_BYTES >> 30} GiB")
    if not found.eof:
        raise UsageError(
            f"{name}: the compressed file is cut off after {len(content)} bytes: copy it again"
        )
    return whole


def is_kineto(content: bytes) -> bool:
    """Whether a file is a trace of torch.profiler, perhaps compressed or cut off."""
    start = content
    if content.startswith(_GZIP):
        try:
            start = zlib.decompressobj(wbits=31).decompress(content, 1 << 16)
        except zlib.error:
            return False
    head = start[: 1 << 16].lstrip()
    return head.startswith(b"{") and (
        b'"traceEvents"' in head or (b'"schemaVersion"' in head and b'"deviceProperties"' in head)
    )


@dataclass
class _Found:
    """What is collected of a trace."""

    process: ObservedProcess
    gloo: ObservedGroup
    places: dict[tuple[object, ...], int] = field(default_factory=dict)
    sequences: dict[tuple[str, str, int | None], int] = field(default_factory=dict)
    streams: dict[int | str, int] = field(default_factory=dict)
    kernels: list[tuple[int, int]] = field(default_factory=list)
    host_steps: list[tuple[int, int]] = field(default_factory=list)
    device_steps: list[tuple[int, int]] = field(default_factory=list)
    recorded: list[tuple[_Event, int, int]] = field(default_factory=list)
    unnamed: int = 0
    unsized: int = 0
    untimed: int = 0
    has_device: bool = False


def read_kineto(content: bytes, name: str, number: int) -> ObservedProcess:
    """Reads the trace of one rank. ``number``: of the file among those that are imported.

    Raises UsageError if the trace is truncated or damaged, or contains no communication.
    """
    whole = decompressed(content, name)
    try:
        trace = _DECODER.decode(whole)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name} is not a trace of torch.profiler: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name}: {_damage(error, whole)}") from None
    info = trace.distributedInfo
    found = _Found(
        ObservedProcess(
            rank=_rank(info, name, number),
            host=plain(trace.host_name),
            pid=0,
            library=_library(info),
        ),
        _group_of_gloo(info),
    )
    for event in sorted(_complete(trace.traceEvents), key=lambda one: one[1]):
        _add(found, *event)
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


def _damage(error: Exception, content: bytes) -> str:
    """Describes where the JSON of a trace is cut off or damaged."""
    if "truncated" in str(error):
        line = content.count(b"\n") + 1
        return (
            f"the trace is cut off after {len(content)} bytes, in line {line}: it is complete only "
            "when export_chrome_trace has returned. Export or copy it again"
        )
    return f"the trace is damaged: {error}. Export or copy it again"


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


def _complete(events: list[_Event]) -> Iterator[tuple[_Event, int, int]]:
    """The events with a duration, and their begin and end in nanoseconds."""
    for event in events:
        if event.ph != "X":
            continue
        try:
            begin_ns = round(float(event.ts or 0.0) * 1e3)
            yield event, begin_ns, begin_ns + round(float(event.dur or 0.0) * 1e3)
        except (ValueError, OverflowError):
            continue


def _add(found: _Found, event: _Event, begin_ns: int, end_ns: int) -> None:
    if event.cat in _DEVICE_WORK:
        found.has_device = True
        if event.cat == "kernel" and "nccl" in event.name[:16]:
            _add_nccl(found, event, begin_ns, end_ns)
        else:
            found.kernels.append((begin_ns, end_ns))
    elif event.name.startswith(_STEP):
        steps = found.device_steps if event.cat.startswith("gpu") else found.host_steps
        steps.append((begin_ns, end_ns))
    elif event.name.startswith("gloo:"):
        _add_gloo(found, event, begin_ns, end_ns)
    elif event.name == _RECORD:
        found.recorded.append((event, begin_ns, end_ns))


def _arguments(event: _Event) -> dict[str, Any]:
    try:
        return _ARGUMENTS.decode(event.args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


def _add_nccl(
    found: _Found, event: _Event, begin_ns: int, end_ns: int, *, is_timed: bool = True
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
    for event, begin_ns, end_ns in found.recorded:
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


def _add_gloo(found: _Found, event: _Event, begin_ns: int, end_ns: int) -> None:
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
    if found.has_device:
        process.kernels = found.kernels
    process.steps = _steps(found.device_steps or found.host_steps)
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
