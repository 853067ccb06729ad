"""The calls of a process as traces describe them, and the names that torch's traces use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from cclmark.base.printable import plain
from cclmark.profile.observed import (
    MESSAGES,
    ObservedCall,
    ObservedGroup,
    ObservedOperation,
    ObservedProcess,
)
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS
from cclmark.work.profiled import MOST_RANKS

_Decoded = TypeVar("_Decoded")
#: Names that are recorded as calls, and move no data.
NO_OPERATIONS = frozenset({"init", "wait", "end", "monitoredBarrier", "startCoalescing"})
_RANK_IN_NAME = re.compile(r"(\d+)(?!.*\d)")
_MOST_DIGITS = 6
_MOST_OF_ONE_CALL = 1 << 12  # operations

# Types as torch names them, in records of collectives and of operators.
_DTYPES = {
    name: dtype
    for dtype, names in {
        "float64": ("Double", "double"),
        "float32": ("Float", "float"),
        "float16": ("Half", "c10::Half"),
        "bfloat16": ("BFloat16", "c10::BFloat16"),
        "fp8e4m3": ("Float8_e4m3fn",),
        "fp8e5m2": ("Float8_e5m2",),
        "int64": ("Long", "long int", "long"),
        "int32": ("Int", "int"),
        "int16": ("Short", "short int", "short"),
        "uint16": ("UInt16", "unsigned short"),
        "int8": ("Char", "signed char"),
        "uint8": ("Byte", "Bool", "unsigned char", "bool"),
    }.items()
    for name in names
}


@dataclass(frozen=True)
class Named:
    """An operation by its name in a trace. ``is_counted_by_output``: its count is the output's."""

    operation: str
    is_counted_by_output: bool = False


_ALIKE = (
    (
        Named("all_reduce"),
        *("allreduce", "all_reduce", "allreduce_coalesced", "AllReduce", "reduce_all"),
        "barrier",  # NCCL has none: torch reduces one element
    ),
    (
        Named("all_gather"),
        *("allgather", "_allgather_base", "all_gather", "AllGather", "allgather_base"),
        *("all_gather_into_tensor", "all_gather_into_tensor_coalesced"),
        *("allgather_into_tensor_coalesced", "allgather_coalesced"),
    ),
    (
        Named("reduce_scatter", is_counted_by_output=True),
        *("reduce_scatter", "_reduce_scatter_base", "ReduceScatter", "reduce_scatter_tensor"),
        *("reduce_scatter_tensor_coalesced", "reduce_scatter_base"),
    ),
    (Named("broadcast"), "broadcast", "_broadcast_oop", "Broadcast"),
    (Named("reduce"), "reduce", "_reduce_oop", "Reduce"),
    (Named("alltoall"), "all_to_all", "alltoall", "alltoall_base"),
    (Named("alltoallv"), "all_to_allv", "alltoallv"),
    (Named("gather"), "gather", "Gather"),
    (Named("scatter", is_counted_by_output=True), "scatter", "Scatter"),
    (Named("send"), "send", "Send"),
    (Named("recv", is_counted_by_output=True), "recv", "Recv", "recvAnySource"),
    (Named("sendrecv"), "SendRecv"),
)
_COLLECTIVES = {name: named for named, *names in _ALIKE for name in names}
# Operations whose count in a trace is that of all parts of a rank, not of one.
_WHOLE_INPUT = frozenset({"alltoall", "alltoallv"})


def rank_in_name(name: str, number: int) -> int:
    """The last number in the name of a file; ``number`` if there is none."""
    found = _RANK_IN_NAME.search(name.rpartition("/")[2])
    if found is not None and len(found[1]) <= _MOST_DIGITS:
        return int(found[1])
    return number


def number_of(value: object) -> int:
    """A number of elements or ranks; 0 for anything else."""
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


def is_rank(value: object) -> bool:
    """Whether a value of a trace is the number of a rank."""
    return isinstance(value, int) and 0 <= value < MOST_RANKS


def is_collective(name: object) -> bool:
    """Whether torch's traces name a collective so."""
    return isinstance(name, str) and name in _COLLECTIVES


def named(name: str) -> Named:
    """The operation with this name in torch's traces; unknown ones keep their names."""
    return _COLLECTIVES.get(name) or Named(plain(name))


def decoded(
    decoder: msgspec.json.Decoder[_Decoded], content: bytes | msgspec.Raw | str, default: _Decoded
) -> _Decoded:
    """A part of a trace; ``default`` if it is not of the expected form."""
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return default


def group_of(
    name: str, described: str, of: str, ranks: int, members: Sequence[int]
) -> ObservedGroup:
    """A group of torch. ``of``: identifies it among those with the same name."""
    shown = described if described not in ("", "undefined") else name
    return ObservedGroup(plain(f"{name} {of}"), plain(shown), ranks, -1, list(members))


@dataclass
class ProcessCalls:
    """The calls of a process, and the places of its operations by their properties."""

    process: ObservedProcess
    places: dict[tuple[object, ...], int] = field(default_factory=dict)

    def count(
        self,
        group: str,
        operation: str,
        ccl: str,
        dtype: str,
        count: int,
        size_bytes: int,
        time_ns: int | None,
    ) -> int:
        """Counts a call of an operation with these properties, and returns its place.

        ``time_ns``: None if it is unknown.
        """
        alike = (group, operation, ccl, dtype, count, size_bytes)
        operations = self.process.operations
        place = self.places.setdefault(alike, len(operations))
        if place == len(operations):
            operations.append(ObservedOperation(*alike))
        one = operations[place]
        one.calls += 1
        one.bytes += size_bytes
        if time_ns is not None:
            one.least_ns = min(one.least_ns, time_ns) if one.timed else time_ns
            one.most_ns = max(one.most_ns, time_ns)
            one.timed += 1
            one.total_ns += time_ns
        return place


@dataclass
class TorchCalls(ProcessCalls):
    """The calls of a process of torch."""

    sequences: dict[tuple[str, str, int | None], int] = field(default_factory=dict)
    streams: dict[int | str, int] = field(default_factory=dict)

    def add(
        self,
        ccl: str,
        named: Named,
        group: ObservedGroup,
        dtype: str,
        count: int,
        *,
        at_ns: int = 0,
        time_ns: int | None = None,
        stream: object = None,
        peer: object = None,
        numbered: object = None,
    ) -> None:
        """Adds a call. ``count``: of all parts for operations whose input is whole.

        ``dtype``: torch's name of it. ``time_ns``: from ``at_ns`` on, None if it is unknown.
        ``peer``: the other rank of a message. ``numbered``: torch's number of the call.
        """
        process, operation = self.process, named.operation
        known = process.groups.setdefault(group.identity, group)
        if process.rank in known.members:
            known.own_rank = known.members.index(process.rank)
        dtype = _DTYPES.get(dtype, plain(dtype).lower())
        size_bytes = count * DTYPE_BYTES.get(dtype, 0)
        info = OPERATIONS.get(operation)
        if operation in _WHOLE_INPUT:
            count //= max(1, known.ranks)
        elif info is not None and info.spans_ranks:
            size_bytes *= max(1, known.ranks)
        place = self.count(group.identity, operation, ccl, dtype, count, size_bytes, time_ns)
        number = -1
        if isinstance(stream, int | str):
            number = self.streams.setdefault(stream, len(self.streams))
        begin_ns, end_ns = (0, 0) if time_ns is None else (at_ns, at_ns + time_ns)
        sequence = self._sequence(group.identity, operation, numbered)
        other = number_of(peer) if operation in MESSAGES and is_rank(peer) else -1
        process.calls.append(ObservedCall(place, sequence, at_ns, begin_ns, end_ns, number, other))

    def _sequence(self, group: str, operation: str, numbered: object) -> int:
        """The number by which ranks match a call: torch's own, or the call's among its likes.

        Several operations of one call of torch have one number.
        """
        own = numbered if isinstance(numbered, int) and 0 <= numbered < 1 << 40 else None
        number = self.sequences.get((group, operation, own), 0)
        self.sequences[group, operation, own] = number + 1
        return number if own is None else own * _MOST_OF_ONE_CALL + number
