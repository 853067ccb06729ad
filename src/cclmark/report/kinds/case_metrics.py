"""The Prometheus gauges of cases."""

from __future__ import annotations

from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.report.kinds.case_labels import case_labels
from cclmark.document.kind import RunLabels
from cclmark.results.item_results import CaseResult

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
