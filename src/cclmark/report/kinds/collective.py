"""Reports of collectives between all ranks."""

from __future__ import annotations

from collections.abc import Callable

from cclmark.document.case_formats import CASE_FORMATS
from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount, listed
from cclmark.report.kinds.case_columns import CASES, COLUMNS, EXPORTED_CASES
from cclmark.report.kinds.case_metrics import CASE_METRICS, measure_case
from cclmark.document.kind import ReportKind, View, later
from cclmark.report.kinds.sample_columns import CASE_SAMPLES
from cclmark.document.head import method_of
from cclmark.results.journal import Journal
from cclmark.results.item_results import CaseResult

PAGE_COLUMNS = (*COLUMNS[:3], "pair", *COLUMNS[3:])
METHOD_OF_CASES = (
    "A sample is a batch of operations between a barrier and the last rank's end. Curves show "
    "the median over samples; bands reach from the fastest sample to the 95th percentile. Bus "
    "bandwidth is size over time, times the factor that makes it comparable with a link's rate "
    "whatever the number of ranks (as in nccl-tests)."
)


# A function, so that a run imports only the format it writes.
def _table(view: View) -> Exporter[CaseResult]:
    from cclmark.report.kinds.case_table import TableExporter
    from cclmark.report.kinds.soak_table import SoakTable

    assert view.journal is not None
    placements = {result.case.in_place for result in view.journal.cases} or {False, True}

    def table() -> TableExporter:
        return TableExporter(
            paint=view.paint,
            out_of_place=False in placements,
            in_place=True in placements,
            terminal_columns=view.columns,
            references=view.references,
        )

    soak = view.journal.header.settings.duration_s > 0
    return SoakTable(table, view.paint, 0.0) if soak else table()


def _later(module: str, exporter: str) -> Callable[[View], Exporter[CaseResult]]:
    create = later(f"kinds.{module}", exporter)
    return lambda view: create()


def _counted(journal: Journal) -> str:
    operations = sorted({one.case.operation for one in journal.cases})
    return f"{amount(len(journal.results), 'case')} of {listed(operations)}"


KIND = ReportKind(
    noun="cases",
    title="collectives",
    has_times=True,
    csv=CASES,
    exported=EXPORTED_CASES,
    samples=CASE_SAMPLES,
    formats={
        "table": _table,
        **{name: _later(*where) for name, where in CASE_FORMATS.items()},
    },
    metrics=CASE_METRICS,
    measure=measure_case,
    counted=_counted,
    headline=later("insights.headline", "headline_of_collectives"),
    insights=later("insights.by_kind", "insights_on_collectives"),
    titled=later("kinds.case_page", "title_of_cases"),
    method=method_of,
    method_words=METHOD_OF_CASES,
    sections=later("kinds.case_page", "collective_sections"),
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.case_page", "cells_of_case"),
    page_notes=later("kinds.case_page", "notes_on_cases"),
)
