"""The columns of messages in pieces: a row for each message and division."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cclmark.report.columns import Cell, Layout, Row, columns
from cclmark.report.kinds.case_columns import figure_cells, method_cell, what_cells
from cclmark.results.kinds import PieceResult
from cclmark.results.schema import Header, PieceRow

_CASE = "operation ccl ranks dtype reduction root placement size_bytes count"
_DIVISION = "pieces form status reason"
_FIGURES = (
    "time_us min_us p95_us p99_us max_us cv half_width samples algbw_gbps busbw_gbps slowest_rank "
    "late_rank clock"
)
_RATIO = "ratio ratio_low ratio_high launch_bound operations wrong converged method"
_TEXTS = "operation ccl dtype reduction placement form status reason clock method"
_WHOLE = "ranks root size_bytes count pieces samples slowest_rank late_rank operations wrong"
_FLAGS = "launch_bound converged"


def _rows(header: Header) -> Callable[[PieceResult], Iterable[Row]]:

    def rows(result: PieceResult) -> Iterable[Row]:
        case = result.pieces.case
        listed = result.rows or [
            PieceRow(division, result.status, result.reason) for division in result.pieces.divisions
        ]
        return [[*piece_cells(result, row), method_cell(case, header)] for row in listed]

    return rows


def piece_cells(result: PieceResult, row: PieceRow) -> list[Cell]:
    """Returns a cell for each column but the method."""
    known = row.summary is not None
    return [
        *what_cells(result.pieces.case),
        row.division.pieces,
        row.division.form,
        row.status,
        row.reason,
        *figure_cells(row.summary),
        row.ratio if known else None,
        row.ratio_low if known else None,
        row.ratio_high if known else None,
        int(row.launch_bound) if known else None,
        None if row.samples is None else row.samples.operations_per_sample,
        None if row.verification is None else row.verification.wrong,
        int(result.converged),
    ]


PIECES_LAYOUT = Layout(
    columns(f"{_CASE} {_DIVISION} {_FIGURES} {_RATIO}", texts=_TEXTS, whole=_WHOLE, flags=_FLAGS),
    _rows,
)
