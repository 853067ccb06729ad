"""A matrix of figures as tools print it: a line with the columns, then a line for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cclmark.importing.cleaned_text import Text, TextLine

MOST_DEVICES = 4096


@dataclass(frozen=True)
class MatrixRow:
    """A row: its label, its cells and its line."""

    label: str
    cells: list[str]
    line: int


@dataclass(frozen=True)
class PrintedMatrix:
    """A matrix. ``line``: of its columns. ``cut``: the end of the text truncates it.

    ``after``: the index of the first line after it.
    """

    columns: list[str]
    rows: list[MatrixRow]
    line: int
    cut: bool
    after: int


def read_matrix(
    text: Text,
    lines: Sequence[TextLine],
    start: int,
    columns: list[str],
    is_row: Callable[[str], bool],
    *,
    rows: int | None = None,
) -> PrintedMatrix:
    """Reads the rows after the line of the columns, which has index ``start``.

    ``lines`` has no blank lines. ``is_row``: whether a word is the label of a row. ``rows``: their
    number, by default that of the columns. Rows are counted by their place. Raises UsageError for a
    row with another number of cells and for a missing or surplus row.
    """
    here = lines[start].number
    if not 0 < len(columns) <= MOST_DEVICES:
        raise text.refuse(here, f"{len(columns)} columns: expected 1 to {MOST_DEVICES}")
    expected = len(columns) if rows is None else rows
    found: list[MatrixRow] = []
    place = start + 1
    while place < len(lines):
        words = lines[place].text.split()
        if not words or not is_row(words[0]):
            break
        row = MatrixRow(words[0], words[1:], lines[place].number)
        is_last = place == len(lines) - 1
        place += 1
        if len(row.cells) != len(columns):
            if is_last and len(row.cells) < len(columns):
                return PrintedMatrix(columns, found, here, cut=True, after=place)
            raise text.refuse(
                row.line,
                f"{len(row.cells)} figures in this row, but the matrix has {len(columns)} columns",
            )
        found.append(row)
        if len(found) > expected:
            raise text.refuse(row.line, f"this matrix has more than {expected} rows")
    cut = len(found) < expected and place == len(lines)
    if len(found) < expected and not cut:
        raise text.refuse(here, f"this matrix has {len(found)} rows, not {expected}")
    return PrintedMatrix(columns, found, here, cut=cut, after=place)


def require_numbers(text: Text, matrix: PrintedMatrix) -> None:
    """Raises UsageError unless rows and columns are numbered from 0, as devices are."""
    if matrix.columns != [str(number) for number in range(len(matrix.columns))]:
        raise text.refuse(matrix.line, "the columns of this matrix are not numbered 0, 1, 2 …")
    for number, row in enumerate(matrix.rows):
        if row.label != str(number):
            raise text.refuse(row.line, f"this is row {row.label[:20]}, but row {number} is due")
