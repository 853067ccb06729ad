"""CSV: a line for each row of a layout, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from cclmark.printable import plain
from cclmark.report.columns import Cell, Layout
from cclmark.results.kinds import Result
from cclmark.results.schema import Footer, Header

# A cell that starts like this is a formula to a spreadsheet.
_FORMULA_STARTS = ("=", "+", "-", "@")


class CsvExporter:
    """The rows of results of any kind. Bandwidths (``gbps``) are in GB/s: 10^9 bytes per second.

    A cell is empty where there is no such value: a skipped case has no figures, an unchecked one no
    ``wrong``, the default method no ``method``.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def begin(self, header: Header) -> str:
        """The line with the names of the columns."""
        self._rows_of = self._layout.rows_in(header)
        return csv_line([column.name for column in self._layout.columns])

    def add(self, result: Result) -> str:
        """The lines of one result."""
        return "".join(csv_line(row, exact=self._layout.exact) for row in self._rows_of(result))

    def end(self, footer: Footer | None) -> str:
        """Nothing."""
        return ""


def csv_line(cells: Sequence[Cell], *, exact: bool = False) -> str:
    """One line; what a spreadsheet would take for a formula is disarmed.

    Numbers have ten digits, or with ``exact`` as many as give them back as they were.
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
