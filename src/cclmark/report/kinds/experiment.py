"""Reports of experiments: settings compared with the default."""

from __future__ import annotations

from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount
from cclmark.report.kinds.experiment_columns import TRIALS
from cclmark.report.kinds.experiment_metrics import EXPERIMENT_METRICS, measure_trial
from cclmark.document.kind import ReportKind, View, later
from cclmark.document.head import method_of
from cclmark.results.journal import Journal
from cclmark.kinds.experiment.result import TrialResult

PAGE_COLUMNS = (
    *("variant", "round", "operation", "ccl", "ranks", "dtype", "reduction", "root", "placement"),
    *("size_bytes", "status", "reason", "time_us", "device_us", "busbw_gbps", "half_width"),
    *("wrong", "converged", "kernel", "protocol", "channels"),
)


def _table(view: View) -> Exporter[TrialResult]:
    from cclmark.report.kinds.experiment_table import ExperimentTable

    return ExperimentTable(paint=view.paint, width=view.columns)


def _markdown(view: View) -> Exporter[TrialResult]:
    from cclmark.report.kinds.experiment_table import ExperimentMarkdown

    return ExperimentMarkdown()


def _counted(journal: Journal) -> str:
    variants = {one.trial.variant for one in journal.trials if not one.trial.variant.is_default}
    return f"{amount(len(journal.results), 'trial')} of {amount(len(variants), 'variant')}"


KIND = ReportKind(
    noun="trials",
    title="experiments",
    has_times=False,
    csv=TRIALS,
    exported=TRIALS,
    formats={"table": _table, "markdown": _markdown},
    metrics=EXPERIMENT_METRICS,
    measure=measure_trial,
    counted=_counted,
    headline=later("kinds.experiment_page", "headline_of_experiment"),
    insights=later("kinds.experiment_page", "insights_on_experiment"),
    titled=later("kinds.experiment_page", "title_of_experiments"),
    method=method_of,
    sections=later("kinds.experiment_page", "experiment_sections"),
    page_columns=PAGE_COLUMNS,
    page_cells=later("kinds.experiment_page", "cells_of_trial"),
)
