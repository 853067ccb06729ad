"""Columns of machine-readable tables, and rows of results."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from cclmark.base.printable import plain
from cclmark.document.exporter import Exporter
from cclmark.journal.item_results import Result
from cclmark.journal.schema import Footer, Header, Profile

Cell = str | int | float | None
Row = Sequence[Cell]
ColumnKind = Literal["text", "int", "float", "bool"]


@dataclass(frozen=True)
class Column:
    """A column. ``name`` ends in a unit; ``kind`` is the type of the non-empty cells."""

    name: str
    kind: ColumnKind


@dataclass(frozen=True)
class Layout:
    """A table of results. ``exact``: numbers are written with all their digits.

    ``rows_in`` receives the header of a journal and returns a function that converts a result to
    its rows, each with a cell for every column. ``common``: returns the last cells of all rows,
    from the profile of a program; ``rows_in`` leaves them out.
    """

    columns: Sequence[Column]
    rows_in: Callable[[Header], Callable[[Any], Iterable[Row]]]
    exact: bool = False
    common: Callable[[Profile | None], Row] | None = None

    def rows_of(self, header: Header, profile: Profile | None) -> Callable[[Any], Iterable[Row]]:
        """Returns a function that converts a result to its complete rows."""
        rows = self.rows_in(header)
        if self.common is None:
            return rows
        last = self.common(profile)
        return lambda result: ([*row, *last] for row in rows(result))


def columns(names: str, *, texts: str = "", whole: str = "") -> list[Column]:
    """Creates columns from names separated by blanks. Names in no other list hold numbers."""
    kinds: dict[str, ColumnKind] = dict.fromkeys(texts.split(), "text")
    kinds |= dict.fromkeys(whole.split(), "int")
    return [Column(name, kinds.get(name, "float")) for name in names.split()]


# A spreadsheet reads a cell with this beginning as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@")


class CsvExporter(Exporter[Result]):
    """The rows of results of any kind. Bandwidths (``gbps``) are in GB/s: 10^9 bytes per second.

    A cell without a value is empty: a skipped case has no figures, an unchecked one no ``wrong``,
    the default method no ``method``.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._profile: Profile | None = None

    def profile(self, profile: Profile) -> None:
        """Receives what a profile contains besides its operations."""
        self._profile = profile

    def begin(self, header: Header) -> str:
        """Returns the line of column names."""
        self._rows_of = self._layout.rows_of(header, self._profile)
        return csv_line([column.name for column in self._layout.columns])

    def add(self, result: Result) -> str:
        """Returns the lines of one result."""
        return "".join(csv_line(row, exact=self._layout.exact) for row in self._rows_of(result))

    def end(self, footer: Footer | None) -> str:
        """Returns nothing: a file of rows has no end."""
        return ""


def csv_line(cells: Sequence[Cell], *, exact: bool = False) -> str:
    """Returns one line; cells that a spreadsheet would read as a formula are quoted.

    Numbers have ten digits; with ``exact``, enough digits to restore the same value.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_cell(cell, exact) for cell in cells])
    return text.getvalue()


def _cell(cell: Cell, exact: bool) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return _text(cell)
    if isinstance(cell, int):
        return str(cell)
    number = repr(cell) if exact else f"{cell:.10g}"
    return number if math.isfinite(cell) else ""


@lru_cache(1024)  # names that many rows have
def _text(cell: str) -> str:
    text = plain(cell)
    return f"'{text}" if text.lstrip().startswith(_FORMULA_STARTS) else text
