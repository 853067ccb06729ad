"""The operations: what their size means and which part of it crosses the busiest link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cclmark.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class OperationInfo:
    """One row of the table of operations.

    ``summary``: what it does, a line of the help. ``spans_ranks``: the size counts the parts of all
    ranks together, as nccl-tests counts it. ``bus_factor``: bus bandwidth over algorithm bandwidth
    for n ranks (nccl-tests, doc/PERFORMANCE.md): the share of the size that every rank must send or
    receive.

    ``outputs``: elements in a rank's output, from the count, the number of ranks, and whether the
    rank is the root. ``rooted``: one rank is the root. ``uneven``: parts differ, as a matrix says,
    which then says how many elements a rank's output has.

    ``composition``: what libraries without a function for it make it of: nothing, an exchange or a
    ring of sends and receives, sends and receives in turns, or an all_reduce.
    ``staged_in_place``: in place, input and output overlap in a way that libraries leave undefined:
    the engine copies the input aside first, inside the timed region.
    These columns are the engine's too (engine/collective/table.cpp).

    ``round_trip``: a message goes there and back between two ranks, and the figures are of one way.
    ``moves_data``: it has a size, a type and a placement. ``symmetric``: every rank does the same
    work, so that a rank that differs says something. ``pairwise``: it is measured between two
    devices. ``multicast``: NVLink's multicast shortens it.
    """

    name: str
    summary: str
    bus_factor: Callable[[int], float]
    outputs: Callable[[int, int, bool], int]
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
    multicast: bool = False

    @property
    def of_sends(self) -> bool:
        """Whether it is made of sends and receives."""
        return self.composition in ("exchange", "ring", "turns")


def _all_reduce(n: int) -> float:
    return 2 * (n - 1) / n


def _others(n: int) -> float:
    return (n - 1) / n


def _once(n: int) -> float:
    return 1.0


def _none(count: int, ranks: int, at_root: bool) -> int:
    return 0


def _one(count: int, ranks: int, at_root: bool) -> int:
    return count


def _all(count: int, ranks: int, at_root: bool) -> int:
    return count * ranks


def _one_at_root(count: int, ranks: int, at_root: bool) -> int:
    return count if at_root else 0


def _all_at_root(count: int, ranks: int, at_root: bool) -> int:
    return count * ranks if at_root else 0


OPERATIONS: dict[str, OperationInfo] = {
    row.name: row
    for row in (
        OperationInfo(
            name="all_reduce",
            summary="Every rank gets the reduction of all ranks' data.",
            bus_factor=_all_reduce,
            outputs=_one,
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
            outputs=_one,
            reduces=True,
            spans_ranks=True,
            symmetric=True,
            pairwise=True,
            multicast=True,
        ),
        OperationInfo(
            name="broadcast",
            summary="Every rank gets the root's data.",
            bus_factor=_once,
            outputs=_one,
            rooted=True,
            pairwise=True,
        ),
        OperationInfo(
            name="reduce",
            summary="The root gets the reduction.",
            bus_factor=_once,
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
            summary="The same with parts of different sizes.",
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
            outputs=_one,
            rooted=True,
            spans_ranks=True,
            composition="exchange",
        ),
        OperationInfo(
            name="sendrecv",
            summary="Every rank sends to its right neighbour in a ring.",
            bus_factor=_once,
            outputs=_one,
            staged_in_place=True,
            composition="ring",
            pairwise=True,
        ),
        OperationInfo(
            name="ping_pong",
            summary="A message goes to the other rank and back.",
            bus_factor=_once,
            outputs=_one,
            staged_in_place=True,
            composition="turns",
            round_trip=True,
            pairwise=True,
        ),
        OperationInfo(
            name="barrier",
            summary="Every rank waits for every other.",
            bus_factor=_once,
            outputs=_none,
            composition="all_reduce",
            moves_data=False,
            symmetric=True,
        ),
    )
}

# A ping-pong is between two: it has no command of its own.
COLLECTIVES = [name for name, row in OPERATIONS.items() if not row.round_trip]
# Those that two devices do, in the order in which they are measured.
PAIR_OPERATIONS = tuple(
    sorted(
        (name for name, row in OPERATIONS.items() if row.pairwise),
        key=lambda name: (OPERATIONS[name].round_trip, name),
    )
)
_UNKNOWN = OperationInfo(name="", summary="", bus_factor=_once, outputs=_none)


def info_of(operation: str) -> OperationInfo:
    """The operation's row; one with the default of every column for an operation that is not in the
    table, which a journal of a newer version may hold.
    """
    return OPERATIONS.get(operation, _UNKNOWN)


def moves_data(operation: str) -> bool:
    """Whether the operation has a size, a type and a placement: a barrier has none."""
    return info_of(operation).moves_data


DTYPE_BYTES: dict[str, int] = {
    "int8": 1,
    "uint8": 1,
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

# How users of nccl-tests, hccl_test and torch write the same types.
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

# Bytes to which parts of an operation that spans ranks are rounded down, as nccl-tests does it.
_PART_ALIGNMENT_BYTES = 16


def parse_dtypes(text: str) -> list[str]:
    """Dtypes named by ``text``: a name, several with commas, or ``all``.

    Raises UsageError for an unknown one.
    """
    return _parse_names(
        text, list(DTYPE_BYTES), lambda name: _DTYPE_ALIASES.get(name, name), "dtype"
    )


def parse_reductions(text: str) -> list[str]:
    """Reductions named by ``text``: a name, several with commas, or ``all``."""
    return _parse_names(text, list(REDUCTIONS), lambda name: name, "reduction")


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
    """Elements that the library is asked for, for a message of at most ``size_bytes``.

    Operations that span ranks round each part down to 16 bytes, as nccl-tests does, so that the
    same ``-b`` measures the same thing; the result can be 0.
    """
    if not moves_data(operation):
        return 0
    width = DTYPE_BYTES[dtype]
    if not OPERATIONS[operation].spans_ranks:
        return size_bytes // width
    step = max(1, _PART_ALIGNMENT_BYTES // width)
    return size_bytes // width // ranks // step * step


def size_for_count(operation: str, count: int, dtype: str, ranks: int) -> int:
    """The size in bytes that the figures of a case with ``count`` elements refer to."""
    parts = ranks if OPERATIONS[operation].spans_ranks else 1
    return count * parts * DTYPE_BYTES[dtype]
