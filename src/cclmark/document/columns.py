"""Columns of machine-readable tables, and rows of results."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.document.blocks import Table
from cclmark.document.exporter import Exporter
from cclmark.document.text import US_PER_S, figure, format_time_us
from cclmark.journal.item_results import Result
from cclmark.journal.schema import Footer, Header, Profile
from cclmark.work.sizes import format_size
from cclmark.work.thresholds import meant

Cell = str | int | float | None
Row = Sequence[Cell]
ColumnKind = Literal["text", "int", "float", "bool"]


#: Which of two values is better.
Direction = Literal["lower", "higher", ""]
# The units of values by the end of their column's name.
_UNITS: Mapping[str, str] = {
    **{
        "us": "µs",
        "ms": "ms",
        "s": "s",
        "gbps": "GB/s",
        "gbit": "Gb/s",
        "bytes": "bytes",
        "percent": "%",
    },
    **{"per_s": "per s"},
}
_DIRECTIONS: Mapping[str, Direction] = {
    **{"µs": "lower", "ms": "lower", "s": "lower", "GB/s": "higher", "per s": "higher"}
}


@dataclass(frozen=True)
class Column:
    """A column. ``kind``: the type of the non-empty cells. ``help``: what the cells are, a complete
    sentence. ``unit``: of numbers, empty for a number without one; by default the end of the name.
    ``direction``: which of two values is better, empty if neither is; by default that of the unit.
    """

    name: str
    kind: ColumnKind
    help: str
    unit: str = ""
    direction: Direction = ""

    def __post_init__(self) -> None:
        ends = ("_".join(self.name.split("_")[-words:]) for words in (2, 1))
        unit = self.unit or next((_UNITS[end] for end in ends if end in _UNITS), "")
        object.__setattr__(self, "unit", unit if self.kind in ("int", "float") else "")
        object.__setattr__(self, "direction", self.direction or _DIRECTIONS.get(self.unit, ""))

    @property
    def title(self) -> str:
        """The name in words, the unit at its end: ``time µs``."""
        name, unit = self.name, self.unit
        end = next((one for one, known in _UNITS.items() if known == unit), "")
        if unit and f"_{name}".endswith(f"_{end}"):
            name = f"_{name}".removesuffix(f"_{end}")
        return f"{name.replace('_', ' ')} {unit}".strip()


@dataclass(frozen=True)
class Layout:
    """A table of results. ``exact``: numbers are written with all their digits.

    ``rows_in`` receives the header of a journal and returns a function that converts a result to
    its rows, each with a cell for every column. ``common``: returns the last cells of all rows,
    from the profile of a program; ``rows_in`` leaves them out. ``places``: those of the cells that
    ``columns`` show, None for all.
    """

    columns: Sequence[Column]
    rows_in: Callable[[Header], Callable[[Any], Iterable[Row]]]
    exact: bool = False
    common: Callable[[Profile | None], Row] | None = None
    places: Sequence[int] | None = None

    def rows_of(self, header: Header, profile: Profile | None) -> Callable[[Any], Iterable[Row]]:
        """Returns a function that converts a result to its complete rows."""
        rows, places = self.rows_in(header), self.places
        last = [] if self.common is None else self.common(profile)
        if places is not None:
            return lambda result: (
                [cells[place] for place in places]
                for cells in ([*row, *last] for row in rows(result))
            )
        return (lambda result: ([*row, *last] for row in rows(result))) if last else rows

    def chosen(self, names: Sequence[str]) -> Layout:
        """The table with only these columns, in this order; all without any. Raises UsageError."""
        if not names:
            return self
        places = places_of(names, self.columns)
        return replace(self, columns=[self.columns[place] for place in places], places=places)


def places_of(names: Sequence[str], columns: Sequence[Column]) -> list[int]:
    """The places of the columns with these names. Raises UsageError for an unknown name."""
    known = [column.name for column in columns]
    for name in names:
        if name not in known:
            raise UsageError(
                f"--columns: no column has the name {name!r}{meant(name, known)} Choose from "
                f"{', '.join(known)}"
            )
    return [known.index(name) for name in names]


def cell_text(cell: Cell, column: Column) -> str:
    """The cell in words, for people; ``-`` if it is empty."""
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, str):
        return plain(cell)
    if column.kind == "bool":
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return format_size(cell) if column.unit == "bytes" else str(cell)
    return format_time_us(cell / US_PER_S) if column.unit == "µs" else figure(cell)


def rows_table(title: str, layout: Layout, rows: Iterable[Row]) -> Table:
    """The table of rows of results for people, which further rows continue."""
    heads = [column.title.removesuffix(" bytes") for column in layout.columns]
    least = [_LEAST_TEXT if column.kind == "text" else _LEAST_NUMBER for column in layout.columns]
    return Table(
        title,
        heads,
        [[cell_text(*pair) for pair in zip(row, layout.columns, strict=True)] for row in rows],
        "".join("<" if column.kind == "text" else ">" for column in layout.columns),
        widths=[max(len(head), width) for head, width in zip(heads, least, strict=True)],
    )


# The least widths of columns: rows are written as they arrive.
_LEAST_TEXT, _LEAST_NUMBER = 14, 9

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
    """A line; formulas of spreadsheets are quoted. ``exact``: all digits of numbers, else ten."""
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
