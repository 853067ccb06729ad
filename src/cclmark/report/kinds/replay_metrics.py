"""The Prometheus gauges of replays."""

from __future__ import annotations

from cclmark.analysis.replay_summaries import communication_of, span_of, step_of_result
from cclmark.report.formats.openmetrics import Metric, Series, labels_of
from cclmark.report.kinds.kind import RunLabels
from cclmark.results.kinds import ReplayResult

REPLAY_METRICS = (
    Metric(
        "cclmark_replay_communication_seconds",
        "seconds",
        "Time of one step of a program in which at least one call runs.",
    ),
    Metric(
        "cclmark_replay_span_seconds",
        "seconds",
        "Time from the first call of a step to the end of the last one.",
    ),
    Metric("cclmark_replay_step_seconds", "seconds", "Time of one step of a program."),
    Metric("cclmark_replay_ok", "", "1 for a replay that was measured and not wrong, else 0."),
)


def measure_replay(series: Series, result: ReplayResult, run: RunLabels) -> None:
    """Sets the gauges of one replay."""
    replay = result.replay
    labels = labels_of(
        [
            ("variant", replay.variant.describe()),
            ("round", str(replay.round + 1)),
            ("ccl", replay.ccl),
            ("ranks", str(replay.ranks)),
            ("program", replay.program),
            ("gaps", replay.gaps),
            *run.where,
        ]
    )
    series.begin(labels)
    series.set("cclmark_replay_ok", labels, float(result.status == "ok"))
    if not result.is_measured:
        return
    series.set("cclmark_replay_communication_seconds", labels, communication_of(result))
    series.set("cclmark_replay_span_seconds", labels, span_of(result))
    step_s = step_of_result(result)
    if step_s is not None:
        series.set("cclmark_replay_step_seconds", labels, step_s)
