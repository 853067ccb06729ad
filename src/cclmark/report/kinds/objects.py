"""Reports of object calls: Python objects through torch.distributed, and the same as tensors."""

from __future__ import annotations

from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount
from cclmark.document.kind import ReportKind, View, later
from cclmark.report.kinds.objects_columns import OBJECTS_LAYOUT
from cclmark.report.kinds.objects_metrics import OBJECT_METRICS, measure_objects
from cclmark.kinds.objects.result import ObjectResult

PAGE_COLUMNS = (
    *("operation", "tensor_call", "backend", "ranks", "content", "size_bytes", "status", "reason"),
    *("objects_us", "tensors_us", "ratio", "ratio_low", "ratio_high", "pickling_us", "rounds"),
    "wrong_ranks",
)


def _table(view: View) -> Exporter[ObjectResult]:
    from cclmark.report.kinds.objects_table import ObjectTable

    return ObjectTable(paint=view.paint)


def _markdown(view: View) -> Exporter[ObjectResult]:
    from cclmark.report.kinds.objects_table import ObjectMarkdown

    return ObjectMarkdown()


KIND = ReportKind(
    noun="object calls",
    title="object calls",
    has_times=False,
    csv=OBJECTS_LAYOUT,
    exported=OBJECTS_LAYOUT,
    formats={"table": _table, "markdown": _markdown},
    metrics=OBJECT_METRICS,
    measure=measure_objects,
    counted=lambda journal: amount(len(journal.results), "object call"),
    headline=later("kinds.objects_page", "headline_of_objects"),
    insights=later("kinds.objects_page", "insights_on_objects"),
    titled=later("kinds.objects_page", "title_of_objects"),
    method=later("wording.object_words", "method_of_objects"),
    sections=later("kinds.objects_page", "object_sections"),
    by_session=False,
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.objects_page", "cells_of_object"),
)
