"""CSV: a line for each case, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from cclmark.plan.cases import Case
from cclmark.report.wording.text import BYTES_PER_GB, US_PER_S, plain
from cclmark.results.kinds import CaseResult
from cclmark.results.method import unusual_method
from cclmark.results.schema import Footer, Header, Settings, Summary

_CASE_COLUMNS = (
    "operation",
    "ccl",
    "ranks",
    "dtype",
    "reduction",
    "root",
    "placement",
    "size_bytes",
    "count",
    "status",
    "reason",
)
_FIGURE_COLUMNS = (
    "time_us",
    "min_us",
    "p95_us",
    "p99_us",
    "max_us",
    "cv",
    "half_width",
    "samples",
    "algbw_gbps",
    "busbw_gbps",
    "slowest_rank",
    "late_rank",
    "clock",
)
_DEVICE_COLUMNS = (
    *("device_us", "device_half_width", "device_samples", "device_converged", "device_reason"),
)
_OTHER_COLUMNS = ("wrong", "route", "cycle", "converged", "method")
COLUMNS = _CASE_COLUMNS + _FIGURE_COLUMNS + _DEVICE_COLUMNS + _OTHER_COLUMNS

Cell = str | int | float | None

# A cell that starts like this is a formula to a spreadsheet.
_FORMULA_STARTS = ("=", "+", "-", "@")


class CsvExporter:
    """Times in microseconds, bandwidths (``gbps``) in GB/s: 10^9 bytes per second.

    ``cv`` and ``half_width`` are shares of the mean and of the median. A cell is empty where there
    is no such value: a skipped case has no figures, an unchecked one no ``wrong``, the usual method
    no ``method``.
    """

    def begin(self, header: Header) -> str:
        """The line with the names of the columns."""
        self._settings = header.settings
        return csv_line(COLUMNS)

    def add(self, result: CaseResult) -> str:
        """The line of one case."""
        return csv_line(case_cells(result, self._settings))

    def end(self, footer: Footer | None) -> str:
        """Nothing."""
        return ""


def case_cells(result: CaseResult, settings: Settings) -> list[Cell]:
    """A cell for each of COLUMNS."""
    return [
        *what_cells(result.case),
        result.status,
        result.reason,
        *_figure_cells(result.summary),
        *_device_cells(result),
        *_other_cells(result),
        method_cell(result.case, settings),
    ]


def what_cells(case: Case) -> list[Cell]:
    """What was measured: the columns of a case from its operation to its count."""
    return [
        case.operation,
        case.ccl,
        case.ranks,
        case.dtype,
        case.reduction,
        case.root,
        case.placement,
        case.size_bytes,
        case.count,
    ]


def method_cell(case: Case, settings: Settings) -> str:
    """What of the method is not as it is without options; empty where nothing is."""
    return "; ".join(unusual_method(settings, case.ccl))


def _figure_cells(summary: Summary | None) -> list[Cell]:
    if summary is None:
        return [None] * len(_FIGURE_COLUMNS)
    return [
        summary.time_s * US_PER_S,
        summary.min_s * US_PER_S,
        summary.p95_s * US_PER_S,
        summary.p99_s * US_PER_S,
        summary.max_s * US_PER_S,
        summary.cv,
        summary.half_width,
        summary.samples,
        summary.algbw_bytes_per_s / BYTES_PER_GB,
        summary.busbw_bytes_per_s / BYTES_PER_GB,
        summary.slowest_rank,
        summary.late_rank,
        summary.clock,
    ]


def _device_cells(result: CaseResult) -> list[Cell]:
    """The device's time where launches determine that of the row, or why it is unknown."""
    if result.device is None:
        return [None, None, None, None, result.device_reason]
    summary = result.device.summary
    return [
        summary.time_s * US_PER_S,
        summary.half_width,
        summary.samples,
        int(result.device.converged),
        result.device_reason,
    ]


def _other_cells(result: CaseResult) -> list[Cell]:
    wrong = None if result.verification is None else result.verification.wrong
    converged = None if result.summary is None else int(result.converged)
    return [wrong, result.route, result.cycle, converged]


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
