"""The Prometheus gauges of object calls."""

from __future__ import annotations

from cclmark.document.openmetrics import Metric, Series, labels_of
from cclmark.document.kind import RunLabels
from cclmark.kinds.objects.result import ObjectResult

OBJECT_METRICS = (
    Metric("cclmark_objects_seconds", "seconds", "Time of one call with objects."),
    Metric("cclmark_objects_tensors_seconds", "seconds", "Time of one call with tensors."),
    Metric("cclmark_objects_pickling_seconds", "seconds", "Time of pickling for one call."),
    Metric("cclmark_objects_ok", "", "1 for a call that was measured and not wrong, else 0."),
)


def measure_objects(series: Series, result: ObjectResult, run: RunLabels) -> None:
    """Sets the gauges of one call."""
    call = result.call
    labels = labels_of(
        [
            ("operation", call.operation),
            ("backend", call.backend),
            ("ranks", str(call.ranks)),
            ("content", call.content),
            ("size_bytes", str(call.size_bytes)),
            *run.where,
        ]
    )
    series.begin(labels)
    series.set("cclmark_objects_ok", labels, float(result.status == "ok"))
    if result.figures is not None:
        series.set("cclmark_objects_seconds", labels, result.figures.object_s)
        series.set("cclmark_objects_tensors_seconds", labels, result.figures.tensor_s)
        series.set("cclmark_objects_pickling_seconds", labels, result.figures.pickling_s)
