"""The Prometheus gauges of messages in pieces."""

from __future__ import annotations

from cclmark.report.formats.openmetrics import Metric, Series, labels_of
from cclmark.report.kinds.kind import RunLabels
from cclmark.results.kinds import PieceResult

PIECE_METRICS = (
    Metric("cclmark_pieces_seconds", "seconds", "Time of a message in a division."),
    Metric("cclmark_pieces_ratio", "", "The same over its time in one call."),
    Metric("cclmark_pieces_ok", "", "1 for a division that was measured and not wrong, else 0."),
)


def measure_pieces(series: Series, result: PieceResult, run: RunLabels) -> None:
    """Sets the gauges of all divisions of one message."""
    case = result.pieces.case
    for row in result.rows:
        labels = labels_of(
            [
                ("operation", case.operation),
                ("ccl", case.ccl),
                ("ranks", str(case.ranks)),
                ("dtype", case.dtype),
                ("reduction", case.reduction or ""),
                ("root", "" if case.root is None else str(case.root)),
                ("size_bytes", str(case.size_bytes)),
                ("placement", case.placement),
                ("form", row.division.form),
                ("pieces", str(row.division.pieces)),
                *run.where,
            ]
        )
        series.begin(labels)
        series.set("cclmark_pieces_ok", labels, float(row.status == "ok"))
        if row.summary is not None:
            series.set("cclmark_pieces_seconds", labels, row.summary.time_s)
            series.set("cclmark_pieces_ratio", labels, row.ratio)
