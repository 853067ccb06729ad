"""Checks whether the figures of a row are consistent, and which numbers of ranks they allow."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.work.operations import OPERATIONS, info_of
from cclmark_importers.cleaned_text import MOST_RANKS, PrintedFigure, Text
from cclmark_importers.run import Given, ImportedRow, RankCount

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


_SPLIT = "so the text has several runs: split it before line {} and import the parts one by one"
_Shown = tuple[ImportedRow, range]


def no_number(operation: str, rows: Sequence[ImportedRow], text: Text) -> UsageError:
    """Returns the error for rows whose bandwidths no single number of ranks gives.

    It has the line of the first row that contradicts most of the others, or of the second run.
    """
    shown = [
        (row, possible_ranks(operation, [row]))
        for row in rows
        if row.algbw is not None and row.busbw is not None and row.algbw.value > row.algbw.error
    ]
    number, unfit = _most_common(shown)
    run = _second_run(shown, unfit) if number else None
    if run is not None:
        return _several_runs(operation, [row for row, _ in shown], run, text)
    fit = len(shown) - len(unfit)
    if not number or not 0 < len(unfit) < fit:
        advice = "check --operation" if rows[0].operation is None else "copy the text again"
        return text.refuse(
            rows[0].line, f"no number of ranks of {operation} gives these bandwidths: {advice}"
        )
    row = unfit[0]
    assert row.algbw is not None
    assert row.busbw is not None
    more = f", {len(unfit) - 1} more do not" if len(unfit) > 1 else ""
    return text.refuse(
        row.line,
        f"bus bandwidth {row.busbw.value / 1e9:.6g} and algorithm bandwidth "
        f"{row.algbw.value / 1e9:.6g} GB/s do not match {number} ranks of {operation}; "
        f"{fit} other rows do{more}: copy the text again, or set --ranks {number}",
    )


def _most_common(shown: Sequence[_Shown]) -> tuple[int, list[ImportedRow]]:
    """Returns the number of ranks that most rows allow, 0 for none, and the rows that do not."""
    starts = sorted(allowed.start for _, allowed in shown if allowed)
    stops = sorted(allowed.stop for _, allowed in shown if allowed)
    if not starts:
        return 0, []
    number = max(starts, key=lambda one: bisect_right(starts, one) - bisect_right(stops, one))
    return number, [row for row, allowed in shown if number not in allowed]


def _common(shown: Sequence[_Shown]) -> range:
    """Returns the numbers of ranks that all rows allow."""
    return range(
        max(allowed.start for _, allowed in shown), min(allowed.stop for _, allowed in shown)
    )


def _second_run(shown: Sequence[_Shown], unfit: Sequence[ImportedRow]) -> tuple[int, int] | None:
    """Returns the places of another run's rows, from and to; None if the rows are of one.

    A run begins where a table begins or sizes start again, or it is the first or the last part of
    the rows. The rows of a run agree on a number of ranks.
    """
    rows = [row for row, _ in shown]
    begins = [
        place
        for place in range(1, len(rows))
        if rows[place].begins != rows[place - 1].begins
        or rows[place].size_bytes < rows[place - 1].size_bytes
    ]
    ends = [*begins, len(rows)]
    parts = [_common(shown[start:end]) for start, end in zip([0, *begins], ends, strict=True)]
    if all(parts):
        above = parts[0]
        for start, end, part in zip(begins, ends[1:], parts[1:], strict=True):
            above = range(max(above.start, part.start), min(above.stop, part.stop))
            if not above:
                return start, end
    if len(unfit) > 1:
        for place in (len(unfit), len(rows) - len(unfit)):
            is_apart = unfit in (rows[:place], rows[place:])
            if is_apart and _common(shown[:place]) and _common(shown[place:]):
                return place, len(rows)
    return None


def _several_runs(
    operation: str, rows: Sequence[ImportedRow], run: tuple[int, int], text: Text
) -> UsageError:
    """Returns the error for rows of several runs; ``run``: the places of the second one."""
    place, end = run
    before, row = rows[place - 1], rows[place]
    line = row.begins if before.line < row.begins <= row.line else row.line
    above, here = (described(operation, part) for part in (rows[:place], rows[place:end]))
    what = f"the bandwidths above match {above} ranks of {operation}, the ones here {here}"
    if line == before.line:
        return text.refuse(line, f"{what}, so this line has several runs: split it between them")
    return text.refuse(line, f"{what}, {_SPLIT.format(line)}")


def described(operation: str, rows: Sequence[ImportedRow], most: int = 4) -> str:
    """Describes the numbers of ranks that the bandwidths allow; ``most``: how many are listed."""
    possible = possible_ranks(operation, rows)
    if not possible:
        return "no number of ranks" + (" that they agree on" if len(rows) > 1 else "")
    if len(possible) <= most:
        return " or ".join(str(number) for number in possible)
    return f"{possible[0]} to {possible[-1]}"


def rank_counts(
    rows: Sequence[ImportedRow], operations: Sequence[str], text: Text, given: Given
) -> tuple[list[int], dict[str, list[int]]]:
    """Returns the number of ranks of each row, and notices with their lines.

    Raises UsageError if the number is unknown, or contradicts the printed bandwidths.
    """
    tables = by_key(
        ((operation, row.ranks), row) for row, operation in zip(rows, operations, strict=True)
    )
    numbers: dict[tuple[str, RankCount | None], int] = {}
    notices: dict[str, list[int]] = {}
    for key, table in tables.items():
        numbers[key], notice = _of_table(*key, table, text, given)
        if notice:
            notices.setdefault(notice, []).extend(row.line for row in table)
    found = [numbers[operation, row.ranks] for row, operation in zip(rows, operations, strict=True)]
    return found, notices


def _of_table(
    operation: str, told: RankCount | None, rows: Sequence[ImportedRow], text: Text, given: Given
) -> tuple[int, str]:
    """Returns the number of ranks of one operation's rows, and a notice or an empty text."""
    if told is None:
        if given.ranks is not None:
            return given.ranks, ""
        number = _derived(operation, None, rows, text)
        return number, _notice(number)
    if given.ranks is not None and given.ranks != told.number:
        _refuse_given(operation, told, given.ranks, rows, text)
        return given.ranks, (
            f"{given.ranks} ranks as given: the list of ranks on line {told.line} is incomplete"
        )
    if told.gap and given.ranks is None:
        number = _derived(operation, told, rows, text)
        return number, f"{_notice(number)}; the list of ranks on line {told.line} {told.gap}"
    if excluded(operation, told.number, rows):
        if all(row.line == told.line for row in rows):
            raise text.refuse(
                told.line,
                f"this line has {told.number} ranks, but its bandwidths match "
                f"{described(operation, rows)}: copy the text again",
            )
        raise text.refuse(
            told.line,
            f"this list has {told.number} ranks, but the bandwidths from line {rows[0].line} on "
            f"match {described(operation, rows)}: check the list of ranks, or set --ranks N",
        )
    return told.number, ""


def excluded(operation: str, number: int, rows: Sequence[ImportedRow]) -> bool:
    """Whether the printed bandwidths exclude a number of ranks.

    A single damaged row does not: either the rows agree on another number, or most of them
    contradict this one.
    """
    if info_of(operation).uneven:  # whose parts may be uneven
        return False
    unfit = sum(not bandwidths_fit(row, operation, number) for row in rows)
    possible = possible_ranks(operation, rows)
    agreed = bool(possible) and number not in possible
    return unfit > 0 and (agreed or unfit > len(rows) / 2)


def _refuse_given(
    operation: str, told: RankCount, number: int, rows: Sequence[ImportedRow], text: Text
) -> None:
    """Raises UsageError if --ranks contradicts the text."""
    line = rows[0].line
    larger = number > told.number
    if larger and (told.gap or excluded(operation, told.number, rows)):
        if excluded(operation, number, rows):
            raise text.refuse(
                line, f"these bandwidths match {described(operation, rows)}, not --ranks {number}"
            )
        return
    at_least = "at least " if told.gap else ""
    raise text.refuse(line, f"the text lists {at_least}{told.number} ranks, not --ranks {number}")


def _derived(
    operation: str, told: RankCount | None, rows: Sequence[ImportedRow], text: Text
) -> int:
    """Returns the only number of ranks that bandwidths allow. ``told``: from an incomplete list."""
    problem = "the text does not contain the number of ranks"
    line, least = rows[0].line, 1
    if told is not None:
        problem, line, least = f"the list of ranks {told.gap}", told.line, told.number
    if info_of(operation).uneven:
        raise text.refuse(line, f"{problem}, and parts of alltoallv may be uneven: set --ranks N")
    possible = possible_ranks(operation, rows)
    if not possible:
        raise no_number(operation, rows, text)
    possible = range(max(least, possible.start), possible.stop)
    if len(possible) != 1:
        raise text.refuse(line, f"{problem}: set --ranks N")
    return possible[0]


def _notice(number: int) -> str:
    return f"{number} ranks: the only number that fits the bus bandwidths and algorithm bandwidths"
