"""CSV: a line for each row of a layout, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from cclmark.document.columns import Cell, Layout
from cclmark.printable import plain
from cclmark.results.item_results import Result
from cclmark.results.schema import Footer, Header, Profile

# A spreadsheet reads a cell with this beginning as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@")


class CsvExporter:
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
        """Returns an empty text."""
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
    if isinstance(cell, float):
        number = repr(cell) if exact else f"{cell:.10g}"
        return number if math.isfinite(cell) else ""
    if isinstance(cell, int):
        return str(cell)
    text = plain(cell)
    return f"'{text}" if text.lstrip().startswith(_FORMULA_STARTS) else text
