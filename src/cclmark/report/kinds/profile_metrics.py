"""The Prometheus gauges of profiles."""

from __future__ import annotations

from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.kind import RunLabels
from cclmark.results.item_results import ProfileResult

PROFILE_METRICS = (
    Metric("cclmark_profile_calls", "", "Calls of an operation by one process of a program."),
    Metric("cclmark_profile_bytes", "bytes", "Bytes of all these calls."),
    Metric("cclmark_profile_seconds", "seconds", "Time of the kernels of these calls."),
    Metric("cclmark_profile_wait_seconds", "seconds", "Time that they waited for other ranks."),
)


def measure_profile(series: Series, result: ProfileResult, run: RunLabels) -> None:
    """Sets the gauges of one operation in every process."""
    operation = result.profiled
    for one in result.figures:
        labels = labels_of(
            [
                ("operation", operation.operation),
                ("ccl", operation.ccl),
                ("group", str(operation.group)),
                ("ranks", str(operation.group_ranks)),
                ("dtype", operation.dtype),
                ("size_bytes", str(operation.size_bytes)),
                ("count", str(operation.count)),
                ("process", str(one.process)),
                *run.where,
            ]
        )
        series.begin(labels)
        series.set("cclmark_profile_calls", labels, float(one.calls))
        series.set("cclmark_profile_bytes", labels, float(one.bytes))
        if one.total_s is not None:
            series.set("cclmark_profile_seconds", labels, one.total_s)
        if one.wait_s is not None:
            series.set("cclmark_profile_wait_seconds", labels, one.wait_s)
