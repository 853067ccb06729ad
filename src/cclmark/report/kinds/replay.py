"""Reports of replays."""

from __future__ import annotations

from cclmark.report.formats.exporter import Exporter
from cclmark.report.insights.insight_words import amount
from cclmark.report.kinds.kind import ReportKind, View, later
from cclmark.report.kinds.replay_columns import REPLAYS
from cclmark.report.kinds.replay_metrics import REPLAY_METRICS, measure_replay
from cclmark.results.journal import Journal
from cclmark.results.kinds import ReplayResult

PAGE_COLUMNS = (
    *("variant", "round", "ccl", "ranks", "program", "calls", "groups", "gaps", "status"),
    *("reason", "communication_ms", "program_communication_ms", "span_ms", "program_span_ms"),
    *("step_ms", "program_step_ms", "steps"),
)


def _table(view: View) -> Exporter[ReplayResult]:
    from cclmark.report.kinds.replay_table import ReplayTable

    return ReplayTable(paint=view.paint, references=view.references)


def _markdown(view: View) -> Exporter[ReplayResult]:
    from cclmark.report.kinds.replay_table import ReplayMarkdown

    return ReplayMarkdown(view.references)


def _counted(journal: Journal) -> str:
    variants = {result.replay.variant for result in journal.replays}
    return f"{amount(len(journal.results), 'replay')} of {amount(len(variants), 'variant')}"


KIND = ReportKind(
    noun="replays",
    title="replays",
    has_times=False,
    csv=REPLAYS,
    exported=REPLAYS,
    formats={"table": _table, "markdown": _markdown},
    metrics=REPLAY_METRICS,
    measure=measure_replay,
    counted=_counted,
    headline=later("kinds.replay_page", "headline_of_replays"),
    insights=later("kinds.replay_page", "insights_on_replays"),
    titled=later("kinds.replay_page", "title_of_replays"),
    method=later("wording.replay_words", "method_of_replays"),
    sections=later("kinds.replay_page", "replay_sections"),
    by_session=False,
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.replay_page", "cells_of_replay_row"),
)
