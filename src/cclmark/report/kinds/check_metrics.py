"""The Prometheus gauge of checks."""

from __future__ import annotations

from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.kind import RunLabels
from cclmark.kinds.check.result import CheckResult

CHECK_METRICS = (
    Metric("cclmark_check_ok", "", "1 for a check that passed, 0 for one that failed."),
)


def measure_check(series: Series, result: CheckResult, run: RunLabels) -> None:
    """Sets the gauge of one check."""
    if result.status == "unsupported":
        return
    check = result.check
    labels = labels_of([("check", check.name), ("backend", check.backend), *run.where])
    series.begin(labels)
    series.set("cclmark_check_ok", labels, float(result.status == "ok"))
