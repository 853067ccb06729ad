"""Determines the number of ranks of each row from the text, the user, or its bandwidths."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.importing.cleaned_text import Text
from cclmark.importing.disagreeing_ranks import described, no_number
from cclmark.importing.header import Given
from cclmark.importing.plausible import bandwidths_fit, possible_ranks
from cclmark.importing.run import ImportedRow, RankCount
from cclmark.plan.operations import info_of


def rank_counts(
    rows: Sequence[ImportedRow], operations: Sequence[str], text: Text, given: Given
) -> tuple[list[int], dict[str, list[int]]]:
    """Returns the number of ranks of each row, and notices with their lines.

    Raises UsageError if the number is unknown, or contradicts the printed bandwidths.
    """
    tables: dict[tuple[str, RankCount | None], list[ImportedRow]] = {}
    for row, operation in zip(rows, operations, strict=True):
        tables.setdefault((operation, row.ranks), []).append(row)
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
                line,
                f"these bandwidths match {described(operation, rows)}, not --ranks {number}",
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
