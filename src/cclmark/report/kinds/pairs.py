"""Reports of collectives between each pair of ranks."""

from __future__ import annotations

from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount
from cclmark.report.kinds.case_columns import CASES_OF_PAIRS, EXPORTED_CASES
from cclmark.report.kinds.case_metrics import CASE_METRICS, measure_case
from cclmark.report.kinds.collective import METHOD_OF_CASES, PAGE_COLUMNS
from cclmark.document.kind import ReportKind, View, later
from cclmark.report.kinds.sample_columns import CASE_SAMPLES
from cclmark.document.head import method_of
from cclmark.results.journal import Journal
from cclmark.results.item_results import CaseResult


def _table(view: View) -> Exporter[CaseResult]:
    from cclmark.report.kinds.pair_table import PairTable

    return PairTable(paint=view.paint, width=view.columns)


def _markdown(view: View) -> Exporter[CaseResult]:
    from cclmark.report.kinds.pair_markdown import PairMarkdown

    return PairMarkdown()


def _counted(journal: Journal) -> str:
    return f"{amount(len(journal.results), 'case')} between single pairs of devices"


KIND = ReportKind(
    noun="pairs",
    title="pairs of ranks",
    has_times=True,
    csv=CASES_OF_PAIRS,
    exported=EXPORTED_CASES,
    samples=CASE_SAMPLES,
    formats={"table": _table, "markdown": _markdown},
    metrics=CASE_METRICS,
    measure=measure_case,
    counted=_counted,
    headline=later("insights.headline", "headline_of_pairs"),
    insights=later("insights.by_kind", "insights_on_pairs"),
    titled=later("kinds.case_page", "title_of_cases"),
    method=method_of,
    method_words=METHOD_OF_CASES,
    sections=later("kinds.case_page", "pair_sections"),
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.case_page", "cells_of_case"),
    page_notes=later("kinds.case_page", "notes_on_cases"),
)
