"""Reports of overlaps: collectives beside compute."""

from __future__ import annotations

from cclmark.report.formats.exporter import Exporter
from cclmark.report.insights.insight_words import amount
from cclmark.report.kinds.kind import ReportKind, View, later
from cclmark.report.kinds.overlap_columns import OVERLAPS
from cclmark.report.kinds.overlap_metrics import OVERLAP_METRICS, measure_overlap
from cclmark.results.journal import Journal
from cclmark.results.kinds import OverlapResult

PAGE_COLUMNS = (
    *("variant", "round", "operation", "ccl", "ranks", "dtype", "reduction", "root", "placement"),
    *("size_bytes", "compute", "extent", "status", "reason", "alone_us", "beside_us"),
    *("slow_down", "beside_busbw_gbps", "compute_alone_us", "compute_beside_us"),
    *("compute_slow_down", "evaluated", "compute_evaluated", "wrong", "channels"),
)


def _table(view: View) -> Exporter[OverlapResult]:
    from cclmark.report.kinds.overlap_table import OverlapTable

    return OverlapTable(paint=view.paint)


def _markdown(view: View) -> Exporter[OverlapResult]:
    from cclmark.report.kinds.overlap_table import OverlapMarkdown

    return OverlapMarkdown()


def _counted(journal: Journal) -> str:
    variants = {result.overlap.variant for result in journal.overlaps}
    return f"{amount(len(journal.results), 'overlap')} of {amount(len(variants), 'variant')}"


KIND = ReportKind(
    noun="overlaps",
    title="overlaps",
    has_times=False,
    csv=OVERLAPS,
    exported=OVERLAPS,
    formats={"table": _table, "markdown": _markdown},
    metrics=OVERLAP_METRICS,
    measure=measure_overlap,
    counted=_counted,
    headline=later("kinds.overlap_page", "headline_of_overlaps"),
    insights=later("kinds.overlap_page", "insights_on_overlaps"),
    titled=later("kinds.overlap_page", "title_of_overlaps"),
    method=later("wording.overlap_words", "method_of_overlaps"),
    sections=later("kinds.overlap_page", "overlap_sections"),
    by_session=False,
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.overlap_page", "cells_of_overlap"),
)
