"""The operations: what their size means and which part of it crosses the busiest link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cclmark.errors import UsageError


@dataclass(frozen=True)
class OperationInfo:
    """One row of the table of operations.

    ``spans_ranks``: the size counts the parts of all ranks together, as nccl-tests counts it.
    ``bus_factor``: bus bandwidth over algorithm bandwidth for n ranks (nccl-tests,
    doc/PERFORMANCE.md): the share of the size that every rank must send or receive.
    ``round_trip``: a message goes there and back between two ranks, and the figures are of one way.
    ``staged_in_place``: in place, input and output overlap in a way that libraries leave undefined:
    the engine copies the input aside first, inside the timed region (engine/collective/table.cpp).
    """

    name: str
    reduces: bool
    rooted: bool
    spans_ranks: bool
    bus_factor: Callable[[int], float]
    round_trip: bool = False
    staged_in_place: bool = False


def _all_reduce(n: int) -> float:
    return 2 * (n - 1) / n


def _others(n: int) -> float:
    return (n - 1) / n


def _once(n: int) -> float:
    return 1.0


OPERATIONS: dict[str, OperationInfo] = {
    row.name: row
    for row in (
        OperationInfo("all_reduce", True, False, False, _all_reduce),
        OperationInfo("all_gather", False, False, True, _others),
        OperationInfo("reduce_scatter", True, False, True, _others),
        OperationInfo("broadcast", False, True, False, _once),
        OperationInfo("reduce", True, True, False, _once),
        OperationInfo("alltoall", False, False, True, _others, staged_in_place=True),
        OperationInfo("alltoallv", False, False, True, _others, staged_in_place=True),
        OperationInfo("gather", False, True, True, _others),
        OperationInfo("scatter", False, True, True, _others),
        OperationInfo("sendrecv", False, False, False, _once, staged_in_place=True),
        OperationInfo(
            "ping_pong", False, False, False, _once, round_trip=True, staged_in_place=True
        ),
        OperationInfo("barrier", False, False, False, _once),
    )
}

# A ping-pong is between two: it has no command of its own.
COLLECTIVES = [name for name, row in OPERATIONS.items() if not row.round_trip]


def is_staged_in_place(operation: str) -> bool:
    """Whether the operation's in-place time includes the engine's copy of the input.

    False for an operation that is not in the table, which a journal of a newer version may hold.
    """
    row = OPERATIONS.get(operation)
    return row is not None and row.staged_in_place


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
    if operation == "barrier":
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
