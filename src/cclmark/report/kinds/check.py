"""Reports of the checks of a framework's backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cclmark.document.columns import Cell
from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount
from cclmark.report.kinds.check_columns import CHECK_LAYOUT
from cclmark.report.kinds.check_metrics import CHECK_METRICS, measure_check
from cclmark.document.kind import ReportKind, View, later
from cclmark.document.head import method_of
from cclmark.results.journal import Journal
from cclmark.kinds.check.result import CheckResult

if TYPE_CHECKING:
    from cclmark.document.naming import Run


def _table(view: View) -> Exporter[CheckResult]:
    from cclmark.report.kinds.check_table import CheckTable

    return CheckTable(paint=view.paint)


def _markdown(view: View) -> Exporter[CheckResult]:
    from cclmark.report.kinds.check_table import CheckMarkdown

    return CheckMarkdown()


def _counted(journal: Journal) -> str:
    return amount(len(journal.results), "check") + " of a framework's backend"


def _page_cells(run: Run, result: CheckResult) -> Mapping[str, Cell]:
    return {
        "check": result.check.name,
        "status": result.status,
        "reason": result.reason,
        "duration_s": result.duration_s,
    }


KIND = ReportKind(
    noun="checks",
    title="checks",
    has_times=False,
    csv=CHECK_LAYOUT,
    exported=CHECK_LAYOUT,
    formats={"table": _table, "markdown": _markdown},
    metrics=CHECK_METRICS,
    measure=measure_check,
    counted=_counted,
    insights=later("insights.by_kind", "insights_on_checks"),
    titled=lambda runs: "checks",
    method=method_of,
    has_samples=False,
    needs_devices=True,
    page_columns=("check", "status", "reason", "duration_s"),
    page_cells=_page_cells,
)
