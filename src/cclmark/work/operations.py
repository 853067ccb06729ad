"""The operations: the definition of their size and the part of it that every rank transfers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cclmark.base.errors import UsageError


def _all_reduce(n: int) -> float:
    return 2 * (n - 1) / n


def _others(n: int) -> float:
    return (n - 1) / n


def _none(count: int, ranks: int, at_root: bool) -> int:
    return 0


def _all(count: int, ranks: int, at_root: bool) -> int:
    return count * ranks


def _one_at_root(count: int, ranks: int, at_root: bool) -> int:
    return count if at_root else 0


def _one_at_other(count: int, ranks: int, at_root: bool) -> int:
    return 0 if at_root else count


def _all_at_root(count: int, ranks: int, at_root: bool) -> int:
    return count * ranks if at_root else 0


@dataclass(frozen=True, kw_only=True)
class OperationInfo:
    """One row of the table of operations.

    ``summary``: a line of help. ``spans_ranks``: the size is the total of the parts of all ranks,
    as in nccl-tests. ``bus_factor``: the ratio of bus bandwidth to algorithm bandwidth for n ranks
    (nccl-tests, doc/PERFORMANCE.md), which is the share of the size that every rank must send or
    receive.

    ``outputs``: the number of elements in a rank's output, from the count, the number of ranks and
    whether the rank is the root. ``rooted``: one rank is the root. ``uneven``: parts differ; a
    matrix defines them and with them the number of elements in a rank's output.

    ``composition``: how the operation is composed for libraries without a function for it: nothing,
    an exchange or a ring of sends and receives, sends and receives in turns, or an all_reduce.
    ``staged_in_place``: in place, the input and the output overlap in a way that libraries leave
    undefined, so the engine copies the input to a separate buffer first, inside the timed region.
    The engine has these columns too (engine/collective/table.cpp).

    ``round_trip``: a message travels to the other rank and back, and the figures refer to one way.
    ``moves_data``: the operation has a size, a type and a placement. ``symmetric``: every rank does
    the same work, so a rank that differs is significant. ``pairwise``: measured between two
    devices. ``of_two``: between two devices only, so there is no command of its own.
    ``multicast``: NVLink multicast shortens it.
    """

    name: str
    summary: str
    bus_factor: Callable[[int], float] = lambda n: 1.0
    outputs: Callable[[int, int, bool], int] = lambda count, ranks, at_root: count
    reduces: bool = False
    rooted: bool = False
    spans_ranks: bool = False
    uneven: bool = False
    staged_in_place: bool = False
    composition: str = "nothing"
    round_trip: bool = False
    moves_data: bool = True
    symmetric: bool = False
    pairwise: bool = False
    of_two: bool = False
    multicast: bool = False

    @property
    def of_sends(self) -> bool:
        """Whether the operation is composed of sends and receives."""
        return self.composition in ("exchange", "ring", "turns")

    @property
    def divisible(self) -> bool:
        """Whether consecutive parts of every rank's buffers are the same operation, smaller."""
        return self.moves_data and not (self.spans_ranks or self.round_trip)


OPERATIONS: dict[str, OperationInfo] = {
    row.name: row
    for row in (
        OperationInfo(
            name="all_reduce",
            summary="Every rank gets the reduction of all ranks' data.",
            bus_factor=_all_reduce,
            reduces=True,
            symmetric=True,
            pairwise=True,
            multicast=True,
        ),
        OperationInfo(
            name="all_gather",
            summary="Every rank gets every rank's data.",
            bus_factor=_others,
            outputs=_all,
            spans_ranks=True,
            symmetric=True,
            pairwise=True,
            multicast=True,
        ),
        OperationInfo(
            name="reduce_scatter",
            summary="Every rank gets its part of the reduction.",
            bus_factor=_others,
            reduces=True,
            spans_ranks=True,
            symmetric=True,
            pairwise=True,
            multicast=True,
        ),
        OperationInfo(
            name="broadcast",
            summary="Every rank gets the root's data.",
            rooted=True,
            pairwise=True,
        ),
        OperationInfo(
            name="reduce",
            summary="The root gets the reduction.",
            outputs=_one_at_root,
            reduces=True,
            rooted=True,
            pairwise=True,
        ),
        OperationInfo(
            name="alltoall",
            summary="Every rank sends a part to every rank.",
            bus_factor=_others,
            outputs=_all,
            spans_ranks=True,
            staged_in_place=True,
            composition="exchange",
            symmetric=True,
            pairwise=True,
        ),
        OperationInfo(
            name="alltoallv",
            summary="Like alltoall, with parts of different sizes.",
            bus_factor=_others,
            outputs=_all,
            spans_ranks=True,
            uneven=True,
            staged_in_place=True,
            composition="exchange",
            pairwise=True,
        ),
        OperationInfo(
            name="gather",
            summary="The root gets every rank's data.",
            bus_factor=_others,
            outputs=_all_at_root,
            rooted=True,
            spans_ranks=True,
            composition="exchange",
        ),
        OperationInfo(
            name="scatter",
            summary="Every rank gets its part of the root's data.",
            bus_factor=_others,
            rooted=True,
            spans_ranks=True,
            composition="exchange",
        ),
        OperationInfo(
            name="sendrecv",
            summary="Every rank sends to its right neighbour in a ring.",
            staged_in_place=True,
            composition="ring",
            pairwise=True,
        ),
        OperationInfo(
            name="send",
            summary="The root sends to the other rank.",
            outputs=_one_at_other,
            rooted=True,
            composition="exchange",
            pairwise=True,
            of_two=True,
        ),
        OperationInfo(
            name="ping_pong",
            summary="A message goes to the other rank and back.",
            staged_in_place=True,
            composition="turns",
            round_trip=True,
            pairwise=True,
            of_two=True,
        ),
        OperationInfo(
            name="barrier",
            summary="Every rank waits for every other.",
            outputs=_none,
            composition="all_reduce",
            moves_data=False,
            symmetric=True,
        ),
    )
}

COLLECTIVES = [name for name, row in OPERATIONS.items() if not row.of_two]
# The operations measured between two devices, in the order of measurement.
PAIR_OPERATIONS = tuple(
    sorted(
        (name for name, row in OPERATIONS.items() if row.pairwise),
        key=lambda name: (OPERATIONS[name].round_trip, name),
    )
)
_UNKNOWN = OperationInfo(name="", summary="", outputs=_none)


def info_of(operation: str) -> OperationInfo:
    """The row of an operation, with the default of every column for an unknown operation.

    A journal of a newer version may contain unknown operations.
    """
    return OPERATIONS.get(operation, _UNKNOWN)


def moves_data(operation: str) -> bool:
    """Whether the operation has a size, a type and a placement; a barrier has none."""
    return info_of(operation).moves_data


DTYPE_BYTES: dict[str, int] = {
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "fp8e4m3": 1,
    "fp8e5m2": 1,
}

REDUCTIONS = ("sum", "prod", "min", "max", "avg")

# The spellings of these types in nccl-tests, hccl_test and torch.
_DTYPE_ALIASES = {
    "half": "float16",
    "fp16": "float16",
    "float": "float32",
    "fp32": "float32",
    "double": "float64",
    "fp64": "float64",
    "bf16": "bfloat16",
    "bfp16": "bfloat16",
    "f8e4m3": "fp8e4m3",
    "fp8_e4m3": "fp8e4m3",
    "float8_e4m3": "fp8e4m3",
    "f8e5m2": "fp8e5m2",
    "fp8_e5m2": "fp8e5m2",
    "float8_e5m2": "fp8e5m2",
}

# The parts of an operation that spans ranks are rounded down to a multiple, as in nccl-tests.
_PART_ALIGNMENT_BYTES = 16


def parse_dtypes(text: str) -> list[str]:
    """Parses names of dtypes separated by commas, or ``all``. Raises UsageError."""
    return _parse_names(
        text, list(DTYPE_BYTES), lambda name: _DTYPE_ALIASES.get(name, name), "dtype"
    )


def parse_reductions(text: str) -> list[str]:
    """Parses names of reductions separated by commas, or ``all``. Raises UsageError."""
    return _parse_names(text, list(REDUCTIONS), lambda name: name, "reduction")


#: ``-r all``.
ALL_ROOTS = -1


def parse_root(text: str) -> int:
    """Parses a rank, ``all`` or -1, which both are ALL_ROOTS. Raises UsageError."""
    if text in ("all", "-1"):
        return ALL_ROOTS
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(f"unknown root {text!r}: choose the number of a rank, or all")
    return int(text)


def _parse_names(
    text: str, known: list[str], canonical: Callable[[str], str], what: str
) -> list[str]:
    if text.strip().lower() == "all":
        return known
    names = [canonical(part.strip().lower()) for part in text.split(",") if part.strip()]
    for name in names:
        if name not in known:
            raise UsageError(f"unknown {what} {name!r}: choose from {', '.join(known)} or all")
    if not names:
        raise UsageError(f"no {what} given: choose from {', '.join(known)} or all")
    return list(dict.fromkeys(names))


def count_for_size(operation: str, size_bytes: int, dtype: str, ranks: int) -> int:
    """The number of elements passed to the library for a message of at most ``size_bytes``.

    Operations that span ranks round each part down to a multiple of 16 bytes, as nccl-tests does,
    so that the same ``-b`` measures the same message. The result can be 0.
    """
    if not moves_data(operation):
        return 0
    width = DTYPE_BYTES[dtype]
    if not OPERATIONS[operation].spans_ranks:
        return size_bytes // width
    step = max(1, _PART_ALIGNMENT_BYTES // width)
    return size_bytes // width // ranks // step * step


def least_size(operation: str, dtype: str, ranks: int) -> int:
    """The smallest size in bytes with an element, of an operation that moves data."""
    width = DTYPE_BYTES[dtype]
    return ranks * max(width, _PART_ALIGNMENT_BYTES) if OPERATIONS[operation].spans_ranks else width


def size_for_count(operation: str, count: int, dtype: str, ranks: int) -> int:
    """The size in bytes to which the figures of a case with ``count`` elements refer."""
    parts = ranks if OPERATIONS[operation].spans_ranks else 1
    return count * parts * DTYPE_BYTES[dtype]
