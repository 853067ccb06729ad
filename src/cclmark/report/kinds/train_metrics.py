"""The Prometheus gauges of trainings."""

from __future__ import annotations

from cclmark.analysis.training_summaries import figures_of
from cclmark.report.formats.openmetrics import Metric, Series, labels_of
from cclmark.report.kinds.kind import RunLabels
from cclmark.results.kinds import TrainingResult

TRAINING_METRICS = (
    Metric("cclmark_training_step_seconds", "seconds", "Time of one training step."),
    Metric(
        "cclmark_training_alone_seconds",
        "seconds",
        "Time of one training step without communication.",
    ),
    Metric(
        "cclmark_training_compute_seconds",
        "seconds",
        "Time of one training step in which something computes.",
    ),
    Metric(
        "cclmark_training_exposed_seconds",
        "seconds",
        "Communication of one training step beside which nothing computes.",
    ),
    Metric(
        "cclmark_training_idle_seconds",
        "seconds",
        "Time of one training step in which the device does nothing.",
    ),
    Metric("cclmark_training_tokens_per_second", "", "Tokens of all ranks in a second."),
    Metric("cclmark_training_loss", "", "Loss of the last training step."),
    Metric("cclmark_training_ok", "", "1 for a training that was measured and not wrong, else 0."),
)


def measure_training(series: Series, result: TrainingResult, run: RunLabels) -> None:
    """Sets the gauges of one training."""
    training = result.training
    labels = labels_of(
        [
            ("variant", training.variant.describe()),
            ("round", str(training.round + 1)),
            ("ccl", training.ccl),
            ("ranks", str(training.ranks)),
            ("model", training.model.name),
            ("layers", str(training.model.layers)),
            ("parallel", training.parallel),
            ("batch", str(training.batch)),
            ("sequence", str(training.sequence)),
            ("dtype", training.dtype),
            *run.where,
        ]
    )
    series.begin(labels)
    series.set("cclmark_training_ok", labels, float(result.status == "ok"))
    figures = figures_of(result)
    if figures is None:
        return
    series.set("cclmark_training_step_seconds", labels, figures.step_s)
    series.set("cclmark_training_tokens_per_second", labels, training.tokens / figures.step_s)
    for name, time_s in (
        ("alone", figures.alone_s),
        ("compute", figures.compute_s),
        ("exposed", figures.exposed_s),
        ("idle", figures.idle_s),
    ):
        if time_s is not None:
            series.set(f"cclmark_training_{name}_seconds", labels, time_s)
    if result.losses:
        series.set("cclmark_training_loss", labels, result.losses[-1])
