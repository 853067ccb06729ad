"""Reports of collectives between all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from cclmark.analysis.links import link_limit
from cclmark.document.case_columns import CASES, COLUMNS, EXPORTED_CASES, case_cells
from cclmark.document.case_fields import case_labels
from cclmark.document.columns import Cell
from cclmark.document.exporter import Exporter
from cclmark.document.head import method_of
from cclmark.document.insight_words import amount, listed
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.remarks import STAGED_NOTE, staged_mark
from cclmark.document.report_kind import ReportKind, RunLabels, View
from cclmark.document.sample_columns import CASE_SAMPLES
from cclmark.kinds.collective.findings import headline_of_collectives, insights_on_collectives
from cclmark.kinds.collective.formats import CASE_FORMATS
from cclmark.results.item_results import CaseResult
from cclmark.results.journal import Journal

if TYPE_CHECKING:
    from cclmark.document.page.page import Section

CASE_METRICS = (
    Metric("cclmark_time_seconds", "seconds", "Median time of one operation."),
    Metric(
        "cclmark_device_time_seconds",
        "seconds",
        "Median time that the devices need, where launches determine the time of an operation.",
    ),
    Metric("cclmark_time_min_seconds", "seconds", "Shortest sample."),
    Metric("cclmark_time_p95_seconds", "seconds", "95th percentile of the samples."),
    Metric("cclmark_time_p99_seconds", "seconds", "99th percentile of the samples."),
    Metric("cclmark_time_max_seconds", "seconds", "Longest sample."),
    Metric("cclmark_algbw_bytes_per_second", "bytes_per_second", "Size over median time."),
    Metric(
        "cclmark_busbw_bytes_per_second",
        "bytes_per_second",
        "Algorithm bandwidth times the factor of the operation.",
    ),
    Metric("cclmark_case_samples", "samples", "Samples that the figures are of."),
    Metric("cclmark_case_ok", "", "1 for a case that was measured and not wrong, else 0."),
    Metric("cclmark_wrong_elements", "elements", "Wrong elements that the check found."),
)
_SPREAD = ("min", "p95", "p99", "max")
_CASE_FIGURES = (
    *("cclmark_time_seconds", "cclmark_device_time_seconds"),
    *("cclmark_algbw_bytes_per_second", "cclmark_busbw_bytes_per_second"),
    *("cclmark_case_samples", *(f"cclmark_time_{name}_seconds" for name in _SPREAD)),
)


def measure_case(series: Series, result: CaseResult, run: RunLabels) -> None:
    """Sets the gauges of one case."""
    case, summary = result.case, result.summary
    pair = ("", "") if case.pair is None else tuple(run.devices[number] for number in case.pair)
    labels = labels_of(
        [
            *case_labels(case),
            ("first", pair[0]),
            ("second", pair[1]),
            *run.method,
            *run.where,
        ]
    )
    if result.status == "skipped":
        return
    series.begin(labels)
    # A correct cycle does not hide an earlier wrong one.
    series.worst("cclmark_case_ok", labels, float(result.status == "ok"), min)
    if result.verification is not None:
        series.worst("cclmark_wrong_elements", labels, result.verification.wrong, max)
    series.clear(labels, _CASE_FIGURES)
    if summary is None:
        return
    series.set("cclmark_time_seconds", labels, summary.time_s)
    if result.device is not None:
        series.set("cclmark_device_time_seconds", labels, result.device.summary.time_s)
    series.set("cclmark_algbw_bytes_per_second", labels, summary.algbw_bytes_per_s)
    series.set("cclmark_busbw_bytes_per_second", labels, summary.busbw_bytes_per_s)
    series.set("cclmark_case_samples", labels, summary.samples)
    if summary.samples > 1:
        series.set("cclmark_time_min_seconds", labels, summary.min_s)
        series.set("cclmark_time_p95_seconds", labels, summary.p95_s)
        series.set("cclmark_time_p99_seconds", labels, summary.p99_s)
        series.set("cclmark_time_max_seconds", labels, summary.max_s)


def cells_of_case(run: NamedRun, result: CaseResult) -> Mapping[str, Cell]:
    """Returns the figures of a case, and their shares of the link limit and of references."""
    cells = dict(zip(COLUMNS, case_cells(result, run.journal.header), strict=True))
    cells |= _shares(run, result)
    if result.case.pair is not None:
        cells["pair"] = f"{result.case.pair[0]}-{result.case.pair[1]}"
    return cells


def _shares(run: NamedRun, result: CaseResult) -> dict[str, Cell]:
    """Returns the shares of the link limit and of references."""
    header, cells = run.journal.header, dict[str, Cell]()
    limit = link_limit(header.links, header.hosts)
    if limit and result.summary is not None and result.summary.busbw_bytes_per_s:
        cells["of_link_limit_percent"] = result.summary.busbw_bytes_per_s / limit * 100
    match = run.notes.match(result, header)
    if match is not None:
        cells["of_reference_percent"] = match.share * 100
        cells["reference"] = match.words
    return cells


def notes_on_cases(results: Iterable[CaseResult]) -> list[str]:
    """Explains a mark in the table."""
    staged = any(map(staged_mark, results))
    return [f"Route “copy aside, then …”: {STAGED_NOTE}."] if staged else []


def title_of_cases(runs: Sequence[NamedRun]) -> str:
    """Returns the operations of all runs."""
    results = chain.from_iterable(run.journal.cases for run in runs)
    operations = list(dict.fromkeys(result.case.operation for result in results))
    more = f" and {len(operations) - 3} more" if len(operations) > 3 else ""
    return ", ".join(operations[:3]) + more


PAGE_COLUMNS = (*COLUMNS[:3], "pair", *COLUMNS[3:])
METHOD_OF_CASES = (
    "A sample is a batch of operations between a barrier and the last rank's end. Curves show "
    "the median over samples; bands reach from the fastest sample to the 95th percentile. Bus "
    "bandwidth is size over time, times the factor that makes it comparable with a link's rate "
    "whatever the number of ranks (as in nccl-tests)."
)


# Functions, so that a run imports only the format it writes, and no charts.
def _table(view: View) -> Exporter[CaseResult]:
    from cclmark.kinds.collective.soak import SoakTable
    from cclmark.kinds.collective.table import TableExporter

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


def _sections(runs: Sequence[NamedRun]) -> list[Section]:
    from cclmark.kinds.collective.charts import collective_sections

    return collective_sections(runs)


def _without_view(
    create: Callable[[], Exporter[CaseResult]],
) -> Callable[[View], Exporter[CaseResult]]:
    return lambda view: create()


def _counted(journal: Journal) -> str:
    operations = sorted({one.case.operation for one in journal.cases})
    return f"{amount(len(journal.results), 'case')} of {listed(operations)}"


REPORT = ReportKind(
    noun="cases",
    title="collectives",
    has_times=True,
    csv=CASES,
    exported=EXPORTED_CASES,
    samples=CASE_SAMPLES,
    formats={
        "table": _table,
        **{name: _without_view(create) for name, create in CASE_FORMATS.items()},
    },
    metrics=CASE_METRICS,
    measure=measure_case,
    counted=_counted,
    headline=headline_of_collectives,
    insights=insights_on_collectives,
    titled=title_of_cases,
    method=method_of,
    method_words=METHOD_OF_CASES,
    sections=_sections,
    page_columns=PAGE_COLUMNS,
    page_cells=cells_of_case,
    page_notes=notes_on_cases,
)
