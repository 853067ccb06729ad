"""Checks whether the figures of a row are consistent, and which numbers of ranks they allow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from cclmark.importing.cleaned_text import MOST_RANKS, PrintedFigure
from cclmark.importing.run import ImportedRow
from cclmark.plan.operations import OPERATIONS, info_of

_POOR = 1e-3  # relative error above which a printed time is replaced
_SLACK = 1.02  # of what rounding allows: a tool may have rounded twice


def disorder(named: Sequence[tuple[str, PrintedFigure]]) -> str:
    """Describes the first figure above the next one, beyond rounding; empty if all are in order."""
    for (low, one), (high, other) in pairwise(named):
        if one.value - other.value > (one.error + other.error) * _SLACK:
            return f"{low} {one.value:g} is above {high} {other.value:g}: copy the text again"
    return ""


def time_of(row: ImportedRow) -> PrintedFigure | None:
    """Returns the time of one operation in seconds, None without a time and a bandwidth.

    It is the printed time, or the size over the algorithm bandwidth if that was printed with far
    more digits or no time was printed.
    """
    by_rate = None
    if row.algbw is not None and row.algbw.value > 0:
        value = row.size_bytes / row.algbw.value
        by_rate = PrintedFigure(value, value * row.algbw.share)
    if row.time is None or by_rate is None:
        return by_rate if row.time is None else row.time
    if row.time.share < _POOR or by_rate.share > row.time.share / 4:
        return row.time
    return by_rate if _agree(by_rate, row.time) else row.time


def is_derived(row: ImportedRow) -> bool:
    """Whether the time is derived from the bandwidth, although a time was printed."""
    return row.time is not None and time_of(row) is not row.time


def bus_factor(row: ImportedRow, operation: str, ranks: int) -> float:
    """Returns bus bandwidth over algorithm bandwidth.

    For an alltoallv, whose parts may be uneven, it is the printed ratio if even parts do not give
    it.
    """
    even = OPERATIONS[operation].bus_factor(ranks)
    if (
        not info_of(operation).uneven
        or row.busbw is None
        or row.algbw is None
        or row.algbw.value <= 0
    ):
        return even
    printed = row.busbw.value / row.algbw.value
    error = (row.busbw.error + row.algbw.error) / row.algbw.value
    return printed if error < abs(printed - even) and 0 < printed <= 1 else even


def disagreement(row: ImportedRow, operation: str, ranks: int, time: PrintedFigure) -> str:
    """Describes the printed bandwidths that contradict this time; empty if all fit."""
    rate = row.size_bytes / time.value
    expected = {
        "algorithm": (row.algbw, rate),
        "bus": (row.busbw, rate * bus_factor(row, operation, ranks)),
    }
    for name, (printed, value) in expected.items():
        if printed is not None and not _agree(printed, PrintedFigure(value, value * time.share)):
            return (
                f"{name} bandwidth {printed.value / 1e9:.6g} GB/s, but size, time and {ranks} "
                f"ranks of {operation} give {value / 1e9:.6g}"
            )
    return ""


def bandwidths_fit(row: ImportedRow, operation: str, ranks: int) -> bool:
    """Whether the printed bus bandwidth matches the printed algorithm bandwidth."""
    if row.algbw is None or row.busbw is None:
        return True
    return _agree(row.busbw, row.algbw.times(OPERATIONS[operation].bus_factor(ranks)))


def possible_ranks(operation: str, rows: Iterable[ImportedRow]) -> range:
    """Returns the numbers of ranks that are consistent with the printed bandwidths."""
    low, high = 1.0, float(MOST_RANKS)
    info = OPERATIONS[operation]
    for row in rows if info.bus_factor(2) != info.bus_factor(3) else ():
        if row.algbw is None or row.busbw is None or row.algbw.value <= row.algbw.error:
            continue
        least = (row.busbw.value - row.busbw.error) / (row.algbw.value + row.algbw.error)
        most = (row.busbw.value + row.busbw.error) / (row.algbw.value - row.algbw.error)
        low = max(low, _ranks_of(operation, least))
        high = min(high, _ranks_of(operation, most))
    if low >= MOST_RANKS:
        return range(0)  # a larger factor than with any number of ranks
    return range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)


def _ranks_of(operation: str, factor: float) -> float:
    """Returns the number of ranks with this factor, not rounded. It grows with the factor."""
    rest = 1 - factor / (2 * OPERATIONS[operation].bus_factor(2))  # one over the number of ranks
    return 1 / rest if rest > 1 / MOST_RANKS else float(MOST_RANKS)


def _agree(one: PrintedFigure, other: PrintedFigure) -> bool:
    allowed = (one.error + other.error) * _SLACK + 1e-9 * abs(other.value)
    return abs(one.value - other.value) <= allowed
