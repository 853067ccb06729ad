"""Reports of profiles: what programs communicate."""

from __future__ import annotations

from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount
from cclmark.document.kind import ReportKind, View, later
from cclmark.report.kinds.profile_columns import PROFILES
from cclmark.report.kinds.profile_metrics import PROFILE_METRICS, measure_profile
from cclmark.report.wording.profile_words import method_of_profile
from cclmark.results.journal import Journal
from cclmark.results.item_results import ProfileResult


def _table(view: View) -> Exporter[ProfileResult]:
    from cclmark.report.kinds.profile_table import ProfileTable

    return ProfileTable(paint=view.paint)


def _markdown(view: View) -> Exporter[ProfileResult]:
    from cclmark.report.kinds.profile_table import ProfileMarkdown

    return ProfileMarkdown()


def _counted(journal: Journal) -> str:
    calls = sum(one.calls for result in journal.profiled for one in result.figures)
    return f"{amount(calls, 'call')} of {amount(len(journal.results), 'distinct operation')}"


KIND = ReportKind(
    noun="operations",
    title="operations of programs",
    has_times=False,
    csv=PROFILES,
    exported=PROFILES,
    formats={"table": _table, "markdown": _markdown},
    metrics=PROFILE_METRICS,
    measure=measure_profile,
    counted=_counted,
    headline=later("kinds.profile_page", "headline_of_profile"),
    insights=later("kinds.profile_page", "insights_on_profile"),
    titled=later("kinds.profile_page", "title_of_profiles"),
    method=method_of_profile,
    sections=later("kinds.profile_page", "profile_sections"),
    by_session=False,
    has_samples=False,
    step_runs=later("kinds.step_columns", "step_runs_of_profile"),
    page_columns=(
        *("operation", "ccl", "group", "ranks", "dtype", "count", "size_bytes", "calls", "bytes"),
        *("total_us", "median_us", "wait_us", "exposed_us", "ran"),
    ),
    page_cells=later("kinds.profile_page", "cells_of_profile"),
)
