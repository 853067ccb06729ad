"""Reports of the memory of operations."""

from __future__ import annotations

from cclmark.report.formats.exporter import Exporter
from cclmark.report.insights.insight_words import amount, listed
from cclmark.report.kinds.kind import ReportKind, View, later
from cclmark.report.kinds.memory_columns import MEMORY_LAYOUT
from cclmark.report.kinds.memory_metrics import MEMORY_METRICS, measure_memory
from cclmark.results.journal import Journal
from cclmark.results.kinds import MemoryResult

PAGE_COLUMNS = (
    *("operation", "ccl", "ranks", "dtype", "reduction", "root", "placement", "size_bytes"),
    *("count", "rank", "status", "reason", "library_device_bytes", "library_rss_bytes"),
    *("given_back_device_bytes", "stated_bytes", "buffers_device_bytes", "buffers_host_bytes"),
)


def _table(view: View) -> Exporter[MemoryResult]:
    from cclmark.report.kinds.memory_table import MemoryTable

    return MemoryTable(paint=view.paint)


def _markdown(view: View) -> Exporter[MemoryResult]:
    from cclmark.report.kinds.memory_table import MemoryMarkdown

    return MemoryMarkdown()


def _counted(journal: Journal) -> str:
    cases = {result.memory.case for result in journal.memories}
    operations = sorted({case.operation for case in cases})
    return f"memory of {amount(len(cases), 'case')} of {listed(operations)}"


KIND = ReportKind(
    noun="memory",
    title="memory",
    has_times=False,
    csv=MEMORY_LAYOUT,
    exported=MEMORY_LAYOUT,
    formats={"table": _table, "markdown": _markdown},
    metrics=MEMORY_METRICS,
    measure=measure_memory,
    counted=_counted,
    insights=later("kinds.memory_page", "insights_on_memory"),
    titled=later("kinds.memory_page", "title_of_memory"),
    sections=later("kinds.memory_page", "memory_sections"),
    method=later("kinds.memory_table", "method_of_run"),
    by_session=False,
    has_samples=False,
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.memory_page", "cells_of_memory"),
)
