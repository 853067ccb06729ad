"""Calls of torch.distributed as torch's traces name them, and the process that they add up to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cclmark.plan.operations import DTYPE_BYTES, OPERATIONS
from cclmark.profile.observed import ObservedCall, ObservedGroup, ObservedOperation, ObservedProcess

#: Names that are recorded as calls, and move no data.
NO_OPERATIONS = frozenset({"init", "wait", "end", "monitoredBarrier", "startCoalescing"})
_RANK_IN_NAME = re.compile(r"(\d+)(?!.*\d)")
_MOST_DIGITS = 6
_MOST_OF_ONE_CALL = 1 << 12  # operations

#: Types as torch names them, in records of collectives and of operators.
DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "uint8",
    "Short": "int16",
    "UInt16": "uint16",
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
    "short int": "int16",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "uint8",
}


@dataclass(frozen=True)
class Named:
    """An operation by its name in a trace. ``is_counted_by_output``: its count is the output's."""

    operation: str
    is_counted_by_output: bool = False


COLLECTIVES = {
    **dict.fromkeys(
        ("allreduce", "all_reduce", "allreduce_coalesced", "AllReduce", "reduce_all"),
        Named("all_reduce"),
    ),
    "barrier": Named("all_reduce"),  # NCCL has none: torch reduces one element
    **dict.fromkeys(
        (
            *("allgather", "_allgather_base", "all_gather", "AllGather", "allgather_base"),
            *("all_gather_into_tensor", "all_gather_into_tensor_coalesced"),
            *("allgather_into_tensor_coalesced", "allgather_coalesced"),
        ),
        Named("all_gather"),
    ),
    **dict.fromkeys(
        (
            *("reduce_scatter", "_reduce_scatter_base", "ReduceScatter", "reduce_scatter_tensor"),
            *("reduce_scatter_tensor_coalesced", "reduce_scatter_base"),
        ),
        Named("reduce_scatter", is_counted_by_output=True),
    ),
    **dict.fromkeys(("broadcast", "_broadcast_oop", "Broadcast"), Named("broadcast")),
    **dict.fromkeys(("reduce", "_reduce_oop", "Reduce"), Named("reduce")),
    **dict.fromkeys(("all_to_all", "alltoall", "alltoall_base"), Named("alltoall")),
    **dict.fromkeys(("all_to_allv", "alltoallv"), Named("alltoallv")),
    **dict.fromkeys(("gather", "Gather"), Named("gather")),
    **dict.fromkeys(("scatter", "Scatter"), Named("scatter", is_counted_by_output=True)),
    **dict.fromkeys(("send", "Send"), Named("send")),
    **dict.fromkeys(("recv", "Recv", "recvAnySource"), Named("recv", is_counted_by_output=True)),
    "SendRecv": Named("sendrecv"),
}
#: Operations whose count in a trace is that of all parts of a rank, not of one.
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


@dataclass
class TorchCalls:
    """The calls of a process."""

    process: ObservedProcess
    places: dict[tuple[object, ...], int] = field(default_factory=dict)
    sequences: dict[tuple[str, str, int | None], int] = field(default_factory=dict)
    streams: dict[int | str, int] = field(default_factory=dict)

    def add(
        self,
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
        """Adds a call. ``count``: of all parts for operations whose input is whole.

        ``interval``: its start and end in nanoseconds; of a call that is not timed, of the host.
        ``numbered``: torch's number of the call.
        """
        process = self.process
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
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = len(process.operations)
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
        sequence = self._sequence(group.identity, operation, numbered)
        number = -1
        if isinstance(stream, int | str):
            number = self.streams.setdefault(stream, len(self.streams))
        begins_ns, ends_ns = (begin_ns, max(begin_ns, end_ns)) if is_timed else (0, 0)
        process.calls.append(
            ObservedCall(place, sequence, begin_ns, begins_ns, ends_ns, number, peer)
        )

    def _sequence(self, group: str, operation: str, numbered: object) -> int:
        """The number by which ranks match a call: torch's own, or the call's among its likes.

        Several operations of one call of torch have one number.
        """
        own = numbered if isinstance(numbered, int) and 0 <= numbered < 1 << 40 else None
        number = self.sequences.get((group, operation, own), 0)
        self.sequences[group, operation, own] = number + 1
        return number if own is None else own * _MOST_OF_ONE_CALL + number
