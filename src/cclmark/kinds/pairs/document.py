"""Reports of collectives between each pair of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.document.case_columns import CASES_OF_PAIRS, EXPORTED_CASES
from cclmark.document.chart_model import marked
from cclmark.document.exporter import Exporter
from cclmark.document.head import method_of
from cclmark.document.insight_words import amount
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import Section
from cclmark.document.report_kind import ReportKind, View
from cclmark.document.sample_columns import CASE_SAMPLES
from cclmark.kinds.collective.document import (
    CASE_METRICS,
    METHOD_OF_CASES,
    PAGE_COLUMNS,
    cells_of_case,
    measure_case,
    notes_on_cases,
    title_of_cases,
)
from cclmark.kinds.pairs.charts import pair_charts
from cclmark.kinds.pairs.findings import headline_of_pairs, insights_on_pairs
from cclmark.results.item_results import CaseResult
from cclmark.results.journal import Journal


def pair_sections(runs: Sequence[NamedRun]) -> list[Section]:
    """Returns a section for each run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        if charts := pair_charts(run.journal):
            sections.append(Section(f"pairs{mark}", f"Pairs{name}", charts=marked(charts, mark)))
    return sections


def _table(view: View) -> Exporter[CaseResult]:
    from cclmark.kinds.pairs.table import PairTable

    return PairTable(paint=view.paint, width=view.columns)


def _markdown(view: View) -> Exporter[CaseResult]:
    from cclmark.kinds.pairs.table import PairMarkdown

    return PairMarkdown()


def _counted(journal: Journal) -> str:
    return f"{amount(len(journal.results), 'case')} between single pairs of devices"


REPORT = ReportKind(
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
    headline=headline_of_pairs,
    insights=insights_on_pairs,
    titled=title_of_cases,
    method=method_of,
    method_words=METHOD_OF_CASES,
    sections=pair_sections,
    page_columns=PAGE_COLUMNS,
    page_cells=cells_of_case,
    page_notes=notes_on_cases,
)
