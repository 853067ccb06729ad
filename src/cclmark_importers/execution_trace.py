"""Reads PyTorch execution traces (Chakra), one for each rank, as profiles of programs.

torch.profiler.ExecutionTraceObserver writes the operators of a rank in their order, without times
(torch/csrc/profiler/standalone/execution_trace_observer.cpp). Collectives of NCCL are nodes
"record_param_comms" whose attributes have the sizes and the group, since schema 1.1.0. Those of
other backends are operators of c10d, whose group is an object without a name.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec

from cclmark.base.errors import UsageError
from cclmark.profile.observed import ObservedGroup, ObservedProcess
from cclmark.work.profiled import MOST_RANKS
from cclmark_importers.trace_calls import (
    NO_OPERATIONS,
    TorchCalls,
    decoded,
    group_of,
    is_collective,
    is_rank,
    named,
    number_of,
    rank_in_name,
)
from cclmark_importers.trace_events import is_compressed, pieces_of

_MOST_BYTES = 2 << 30
_NCCL, _GLOO = "nccl", "gloo"
_RECORD = "record_param_comms"
_C10D = "c10d::"
_GROUPS = "## process_group:init ##"
_RANK_PLACE = 3  # of the inputs of a record: the peer of a message
_PEER_PLACE = 2  # of the inputs of c10d::send and c10d::recv_
#: Operators of c10d whose first input is the output.
_OUTPUT_FIRST = frozenset(
    {
        *("allgather", "_allgather_base", "reduce_scatter", "_reduce_scatter_base"),
        *("alltoall", "alltoall_base", "gather", "scatter"),
    }
)
_TENSOR_TYPE = re.compile(r"Tensor\(([^()\[\],]+)\)")
_TENSOR_WORDS = 6  # of a tensor's value: id, storage, offset, elements, their size, device
_ELEMENTS = 3
# Of protobuf: the first and the second field as text or message, the first one as a number.
_TEXT_1, _TEXT_2, _NUMBER_1 = 0x0A, 0x12, 0x08


class _Inputs(msgspec.Struct):
    values: list[Any] = []
    types: list[Any] = []


class _Attribute(msgspec.Struct):
    name: str = ""
    value: Any = None


class _Node(msgspec.Struct):
    name: str = ""
    id: int = 0
    inputs: msgspec.Raw = msgspec.Raw(b"{}")
    attrs: msgspec.Raw = msgspec.Raw(b"[]")


class _Trace(msgspec.Struct):
    nodes: list[_Node]
    schema: str = ""


_TRACE = msgspec.json.Decoder(_Trace)
_INPUTS = msgspec.json.Decoder(_Inputs)
_ATTRIBUTES = msgspec.json.Decoder(list[_Attribute])
_CONFIGURATION = msgspec.json.Decoder(list[dict[str, Any]])


def is_execution_trace(content: bytes) -> bool:
    """Whether a file begins as an execution trace, perhaps compressed, or as a converted one.

    The reader refuses the latter with the reason.
    """
    start = _start_of(content)
    head = start[:1024].lstrip()
    is_json = head.startswith(b"{") and b'"schema"' in head and b'"nodes"' in head
    return is_json or _is_converted(start)


def _start_of(content: bytes) -> bytes:
    """The begin of a file, decompressed; empty if that fails."""
    if not is_compressed(content):
        return content
    try:
        return zlib.decompressobj(wbits=31).decompress(content, 1 << 16)
    except zlib.error:
        return b""


def _is_converted(start: bytes) -> bool:
    """Whether a file begins as Chakra's protobuf form (.et), which its converter writes.

    Messages with their lengths before them (mlcommons/chakra, schema/protobuf/et_def.proto): one
    GlobalMetadata (version: 1, attr: 2), then Nodes (id: 1, name: 2, others).
    """
    size, place = _varint(start, 0)
    end = place + size
    if size < 0 or end >= len(start):
        return False
    while place < end:
        if start[place] not in (_TEXT_1, _TEXT_2):
            return False
        size, place = _varint(start, place + 1)
        place += size
        if size < 0 or place > end:
            return False
    size, place = _varint(start, end)
    end = place + size
    if start[place : place + 1] == bytes([_NUMBER_1]):
        place = _varint(start, place + 1)[1]
    if start[place : place + 1] != bytes([_TEXT_2]):  # a node without a name
        return False
    size, place = _varint(start, place + 1)
    name = start[place : place + size]
    return 0 < size == len(name) and place + size <= end and name.isascii() and min(name) >= 32


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """The number at ``place`` and the place after it; -1 if there is none."""
    number = 0
    for shift in range(0, 64, 7):
        if place >= len(content):
            return -1, place
        number |= (content[place] & 0x7F) << shift
        place += 1
        if content[place - 1] < 0x80:
            return number, place
    return -1, place


@dataclass
class _Found(TorchCalls):
    """Data collected from a trace. ``groups``: by name, as far as the trace describes them."""

    groups: dict[str, ObservedGroup] = field(default_factory=dict)
    unsized: int = 0


def read_execution_trace(file: BinaryIO, name: str, number: int) -> ObservedProcess:
    """Reads the trace of one rank. ``number``: of the file among those that are imported.

    Raises UsageError if the trace is damaged, cut off or larger than 2 GiB, or contains no
    communication.
    """
    trace = _decoded(file, name)
    found = _Found(ObservedProcess(rank_in_name(name, number), "", 0))
    for node in trace.nodes:
        if node.name == _GROUPS:
            _add_groups(found, _inputs(node))
    nodes = sorted(trace.nodes, key=lambda one: one.id)
    records = [node for node in nodes if node.name == _RECORD]
    if records:
        found.process.library = _NCCL
        for node in records:
            _add_record(found, node)
    else:
        found.process.library = _GLOO
        for node in nodes:
            if node.name.startswith(_C10D):
                _add_operator(found, node)
    process = found.process
    if not process.operations:
        raise UsageError(
            f"{name} contains no communication: neither records of NCCL nor operators "
            "of torch.distributed. Start the observer before the steps of training"
        )
    if not process.is_possible:
        raise UsageError(
            f"{name}: the trace is damaged: it contains numbers that are too large. Record it again"
        )
    notes = ["an execution trace has no times"]
    if found.unsized:
        notes.append(
            f"{found.unsized} calls without attributes, as torch before 2.5 records them: their "
            "sizes are unknown"
        )
    process.note = "; ".join(notes)
    return process


def _decoded(file: BinaryIO, name: str) -> _Trace:
    content = bytearray()
    for piece in pieces_of(file, name):
        if not content and _is_converted(piece):
            raise UsageError(
                f"{name} is a Chakra trace in protobuf form, which is converted from traces of "
                "PyTorch and not supported: import the JSON execution trace of each rank, as "
                "torch.profiler.ExecutionTraceObserver writes it"
            )
        content += piece
        if len(content) > _MOST_BYTES:
            raise UsageError(
                f"{name}: the trace is larger than {_MOST_BYTES >> 30} GiB: record fewer steps"
            )
    try:
        return _TRACE.decode(content)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name} is not an execution trace of torch: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        lines = content.count(b"\n") + 1
        if "truncated" in str(error):
            raise UsageError(
                f"{name}: the trace is cut off after {len(content)} bytes, in line {lines}: it is "
                "complete only when the observer is unregistered. Record or copy it again"
            ) from None
        raise UsageError(
            f"{name}: the trace is damaged: {error}. Record or copy it again"
        ) from None


def _inputs(node: _Node) -> _Inputs:
    return decoded(_INPUTS, node.inputs, _Inputs())


def _add_groups(found: _Found, inputs: _Inputs) -> None:
    """Notes the groups of the process: an empty list of ranks means all."""
    text = inputs.values[0] if inputs.values else None
    groups = decoded(_CONFIGURATION, text, []) if isinstance(text, str) else []
    for one in groups:
        name, size, ranks = str(one.get("pg_name", "")), one.get("group_size"), one.get("ranks")
        if not isinstance(ranks, list) or not all(is_rank(rank) for rank in ranks):
            ranks = []
        if not ranks and is_rank(size):
            ranks = [*range(number_of(size))]
        found.groups[name] = _group(name, str(one.get("pg_desc", "")), ranks)


def _group(name: str, described: str, ranks: list[int]) -> ObservedGroup:
    return group_of(name, described, f"{ranks} {len(ranks)}", len(ranks), ranks)


def _add_record(found: _Found, node: _Node) -> None:
    attributes = {one.name: one.value for one in decoded(_ATTRIBUTES, node.attrs, [])}
    values = _inputs(node).values
    name = attributes.get("collective_name")
    if not isinstance(name, str) or not name:
        name = next(filter(is_collective, values), "")
        found.unsized += bool(name)
    if not name or name in NO_OPERATIONS:
        return
    collective = named(name)
    side = "out" if collective.is_counted_by_output else "in"
    found.add(
        _NCCL,
        collective,
        _group_of(found, attributes),
        str(attributes.get("dtype", "")),
        number_of(attributes.get(f"{side}_msg_nelems")),
        peer=values[_RANK_PLACE] if len(values) > _RANK_PLACE else None,
    )


def _group_of(found: _Found, attributes: dict[str, Any]) -> ObservedGroup:
    name = str(attributes.get("pg_name", ""))
    if name in found.groups:
        return found.groups[name]
    size = number_of(attributes.get("pg_size"))
    start, stride = attributes.get("global_rank_start"), attributes.get("global_rank_stride")
    ranks: list[int] = []
    if is_rank(start) and is_rank(stride) and 0 < size < MOST_RANKS:
        ranks = [number_of(start) + number * number_of(stride) for number in range(size)]
        if len(set(ranks)) < size:
            ranks = []
    group = _group(name, str(attributes.get("pg_desc", "")), ranks)
    group.ranks = group.ranks or min(size, MOST_RANKS)
    found.groups[name] = group
    return group


def _add_operator(found: _Found, node: _Node) -> None:
    """Adds an operator of c10d, whose sizes are those of its tensors."""
    name = node.name.removeprefix(_C10D).removesuffix("_")
    if name == "barrier":
        return  # backends meet in their own ways
    collective, inputs = named(name), _inputs(node)
    place = int(name in _OUTPUT_FIRST and not collective.is_counted_by_output)
    values = inputs.values
    count = sum(_tensors(values[place])) if len(values) > place else 0
    types = inputs.types[place] if len(inputs.types) > place else ""
    dtype = _TENSOR_TYPE.search(str(types))
    only = next(iter(found.groups.values())) if len(found.groups) == 1 else ObservedGroup(_GLOO)
    found.add(
        _GLOO,
        collective,
        only,
        "" if dtype is None else dtype[1],
        number_of(count),
        peer=values[_PEER_PLACE] if len(values) > _PEER_PLACE else None,
    )


def _tensors(value: object) -> Iterator[int]:
    """The elements of the tensors in a value, which may be nested lists."""
    left = [value]
    while left:
        one = left.pop()
        if not isinstance(one, list):
            continue
        if len(one) == _TENSOR_WORDS and isinstance(one[-1], str):
            yield number_of(one[_ELEMENTS])
        else:
            left += one
