"""The Prometheus gauges of memory."""

from __future__ import annotations

from cclmark.analysis.memory_use import stated_total, taken_in
from cclmark.report.formats.openmetrics import Metric, Series, labels_of
from cclmark.report.kinds.case_labels import case_labels
from cclmark.report.kinds.kind import RunLabels
from cclmark.results.kinds import MemoryResult

MEMORY_METRICS = (
    Metric(
        "cclmark_memory_device_taken_bytes",
        "bytes",
        "Decrease of the device's free memory in a stage; negative where memory became free.",
    ),
    Metric(
        "cclmark_memory_resident_taken_bytes",
        "bytes",
        "Growth of the resident memory of the rank's process in a stage.",
    ),
    Metric(
        "cclmark_memory_stated_bytes",
        "bytes",
        "Device memory that the library itself reports after a stage.",
    ),
)


def measure_memory(series: Series, result: MemoryResult, run: RunLabels) -> None:
    """Sets the gauges of one rank and case."""
    case = result.memory.case
    for stage in result.stages:
        labels = labels_of(
            [
                *case_labels(case),
                ("rank", str(result.memory.rank)),
                ("stage", stage.name),
                ("owner", stage.owner),
                *run.where,
            ]
        )
        series.begin(labels)
        taken = taken_in(stage)
        if result.memory.rank not in run.host_ranks:
            series.set("cclmark_memory_device_taken_bytes", labels, taken.device_bytes)
        series.set("cclmark_memory_resident_taken_bytes", labels, taken.rss_bytes)
        series.set("cclmark_memory_stated_bytes", labels, stated_total(stage))
