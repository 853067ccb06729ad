"""Reports of trainings."""

from __future__ import annotations

from cclmark.report.formats.exporter import Exporter
from cclmark.report.insights.insight_words import amount
from cclmark.report.kinds.kind import ReportKind, View, later
from cclmark.report.kinds.train_columns import TRAININGS
from cclmark.report.kinds.train_metrics import TRAINING_METRICS, measure_training
from cclmark.results.journal import Journal
from cclmark.results.kinds import TrainingResult

PAGE_COLUMNS = (
    *("variant", "round", "ccl", "ranks", "model", "layers", "parallel", "batch", "sequence"),
    *("dtype", "status", "reason", "step_ms", "tokens_per_s", "alone_ms", "cost_ms"),
    *("compute_ms", "exposed_ms", "idle_ms", "hidden_ms", "communication_ms", "slow_down_ms"),
    "profiled_ms",
    *("timed_steps", "first_loss", "last_loss"),
    *("different_ranks", "peak_allocated_bytes", "estimated_bytes"),
)


def _table(view: View) -> Exporter[TrainingResult]:
    from cclmark.report.kinds.train_table import TrainingTable

    return TrainingTable(paint=view.paint)


def _markdown(view: View) -> Exporter[TrainingResult]:
    from cclmark.report.kinds.train_table import TrainingMarkdown

    return TrainingMarkdown()


def _counted(journal: Journal) -> str:
    variants = {result.training.variant for result in journal.trainings}
    return f"{amount(len(journal.results), 'training')} of {amount(len(variants), 'variant')}"


KIND = ReportKind(
    noun="trainings",
    title="trainings",
    has_times=False,
    csv=TRAININGS,
    exported=TRAININGS,
    formats={"table": _table, "markdown": _markdown},
    metrics=TRAINING_METRICS,
    measure=measure_training,
    counted=_counted,
    headline=later("kinds.train_page", "headline_of_trainings"),
    insights=later("kinds.train_page", "insights_on_trainings"),
    titled=later("kinds.train_page", "title_of_trainings"),
    method=later("wording.training_words", "method_of_trainings"),
    sections=later("kinds.train_page", "training_sections"),
    by_session=False,
    step_runs=later("kinds.step_columns", "step_runs_of_trainings"),
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.train_page", "cells_of_training"),
)
