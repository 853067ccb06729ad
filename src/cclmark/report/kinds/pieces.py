"""Reports of messages in pieces: one message against many."""

from __future__ import annotations

from cclmark.report.formats.exporter import Exporter
from cclmark.report.insights.insight_words import amount
from cclmark.report.kinds.kind import ReportKind, View, later
from cclmark.report.kinds.pieces_columns import PIECES_LAYOUT
from cclmark.report.kinds.pieces_metrics import PIECE_METRICS, measure_pieces
from cclmark.results.kinds import PieceResult

PAGE_COLUMNS = (
    *("operation", "ccl", "ranks", "dtype", "reduction", "placement", "size", "status", "reason"),
    *("divisions", "slowest", "ratio"),
)


def _table(view: View) -> Exporter[PieceResult]:
    from cclmark.report.kinds.pieces_table import PieceTable

    return PieceTable(paint=view.paint)


def _markdown(view: View) -> Exporter[PieceResult]:
    from cclmark.report.kinds.pieces_table import PieceMarkdown

    return PieceMarkdown()


KIND = ReportKind(
    noun="messages in pieces",
    title="messages in pieces",
    has_times=False,
    csv=PIECES_LAYOUT,
    exported=PIECES_LAYOUT,
    formats={"table": _table, "markdown": _markdown},
    metrics=PIECE_METRICS,
    measure=measure_pieces,
    counted=lambda journal: f"{amount(len(journal.results), 'message')} in pieces",
    headline=later("kinds.pieces_page", "headline_of_pieces"),
    insights=later("kinds.pieces_page", "insights_on_pieces"),
    titled=later("kinds.pieces_page", "title_of_pieces"),
    method=later("wording.piece_words", "method_of_pieces"),
    sections=later("kinds.pieces_page", "piece_sections"),
    by_session=False,
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.pieces_page", "cells_of_pieces"),
)
