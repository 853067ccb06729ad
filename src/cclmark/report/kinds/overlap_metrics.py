"""The Prometheus gauges of overlaps."""

from __future__ import annotations

from cclmark.report.formats.openmetrics import Metric, Series, labels_of
from cclmark.report.kinds.case_labels import case_labels
from cclmark.report.kinds.kind import RunLabels
from cclmark.results.kinds import OverlapResult

OVERLAP_METRICS = (
    Metric("cclmark_overlap_alone_seconds", "seconds", "Time of one collective alone."),
    Metric(
        "cclmark_overlap_beside_seconds", "seconds", "Time of one collective beside the compute."
    ),
    Metric("cclmark_overlap_compute_alone_seconds", "seconds", "Time of one compute alone."),
    Metric(
        "cclmark_overlap_compute_beside_seconds",
        "seconds",
        "Time of one compute beside the collective.",
    ),
    Metric("cclmark_overlap_ok", "", "1 for an overlap that was measured and not wrong, else 0."),
)


def measure_overlap(series: Series, result: OverlapResult, run: RunLabels) -> None:
    """Sets the gauges of one overlap."""
    overlap, case = result.overlap, result.overlap.case
    labels = labels_of(
        [
            ("variant", overlap.variant.describe()),
            ("round", str(overlap.round + 1)),
            *case_labels(case),
            ("compute", overlap.compute.name),
            ("extent", str(overlap.compute.extent)),
            *run.where,
        ]
    )
    series.begin(labels)
    series.set("cclmark_overlap_ok", labels, float(result.status == "ok"))
    if result.figures is not None:
        figures = result.figures
        series.set("cclmark_overlap_alone_seconds", labels, figures.communication_alone_s)
        series.set("cclmark_overlap_beside_seconds", labels, figures.communication_s)
        series.set("cclmark_overlap_compute_alone_seconds", labels, figures.compute_alone_s)
        series.set("cclmark_overlap_compute_beside_seconds", labels, figures.compute_s)
