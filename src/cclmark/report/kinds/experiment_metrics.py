"""The Prometheus gauges of experiments."""

from __future__ import annotations

from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.report.kinds.case_labels import case_labels
from cclmark.document.kind import RunLabels
from cclmark.kinds.experiment.result import TrialResult

EXPERIMENT_METRICS = (
    Metric("cclmark_trial_time_seconds", "seconds", "Median time of one operation with a variant."),
    Metric(
        "cclmark_trial_device_time_seconds",
        "seconds",
        "Median time that the devices need, where launches determine the time of an operation.",
    ),
    Metric("cclmark_trial_ok", "", "1 for a trial that was measured and not wrong, else 0."),
)


def measure_trial(series: Series, result: TrialResult, run: RunLabels) -> None:
    """Sets the gauges of one trial."""
    trial, case = result.trial, result.trial.case
    labels = labels_of(
        [
            ("variant", trial.variant.describe()),
            ("round", str(trial.round + 1)),
            *case_labels(case),
            *run.method,
            *run.where,
        ]
    )
    series.begin(labels)
    series.set("cclmark_trial_ok", labels, float(result.status == "ok"))
    if result.summary is not None:
        series.set("cclmark_trial_time_seconds", labels, result.summary.time_s)
    if result.device is not None:
        series.set("cclmark_trial_device_time_seconds", labels, result.device.summary.time_s)
