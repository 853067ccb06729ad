"""Experiments on a page: heat maps of speed-ups, findings, and the table of all trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.experiments import Experiment, experiment_of
from cclmark.plan.cases import Case
from cclmark.report.charts.cells import key_of
from cclmark.report.charts.chart_model import Heat, marked
from cclmark.report.charts.naming import Run
from cclmark.report.columns import Cell
from cclmark.report.insights.insight_words import Insight
from cclmark.report.insights.soundness import of_completeness
from cclmark.report.kinds.experiment_columns import TRIALS, trial_cells
from cclmark.report.page.page import Section
from cclmark.report.wording.variant_words import (
    best_lines,
    groups_of,
    interval_text,
    noise_text,
    remarks_of,
    size_text,
    speed_up_text,
)
from cclmark.results.kinds import TrialResult

_LEAST_SPAN = 0.10


def _experiment(run: Run) -> Experiment:
    return experiment_of(run.journal.trials, run.journal.header.settings.timing)


def title_of_experiments(runs: Sequence[Run]) -> str:
    """Returns the operations and the varied settings."""
    results = [result for run in runs for result in run.journal.trials]
    operations = dict.fromkeys(one.trial.case.operation for one in results)
    names = dict.fromkeys(
        assignment.name for one in results for assignment in one.trial.variant.assignments
    )
    return f"experiment on {', '.join(operations)} with {', '.join(names)}"


def headline_of_experiment(run: Run) -> str:
    """Returns the largest speed-up that counts; empty if nothing is faster."""
    experiment = _experiment(run)
    faster = [best for case in experiment.cases if (best := experiment.fastest(case)) is not None]
    if not faster:
        return "nothing is faster than the default"
    best = max(faster, key=lambda one: one.speed_up or 0.0)
    return (
        f"{best.variant.describe()} is {interval_text(best)} times as fast as the default for "
        f"{best.case.describe()}"
    )


def insights_on_experiment(run: Run) -> list[Insight]:
    """Returns the fastest variants, and those that failed or had no effect."""
    experiment = _experiment(run)
    found = [
        Insight("bad", f"Wrong data with {one.variant.describe()} in {one.case.describe()}.")
        for one in experiment.compared.values()
        if one.effect == "wrong"
    ]
    for cases in groups_of(experiment):
        lines = [line.strip() for line in best_lines(experiment, cases)]
        text = f"Fastest for {cases[0].series().group_words()}: {'; '.join(lines)}."
        found.append(Insight("note", text))
    found += [Insight("look", f"{line}.") for line in remarks_of(experiment)]
    return [*found, *of_completeness(run.journal, [])]


def experiment_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the heat maps of every run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        experiment = _experiment(run)
        keys: set[str] = set()
        charts = [_heat(experiment, cases, keys) for cases in groups_of(experiment)]
        if charts:
            title = f"Speed-up over the default{name}"
            sections.append(Section(f"experiment{mark}", title, charts=marked(charts, mark)))
    return sections


def _heat(experiment: Experiment, cases: Sequence[Case], keys: set[str]) -> Heat:
    title = f"{cases[0].series().group_words()}: speed-up over the default"
    values: list[list[float | None]] = []
    texts: list[list[str]] = []
    hover: list[list[str]] = []
    for variant in experiment.variants:
        found = [experiment.compared.get((variant, case)) for case in cases]
        values.append(
            [one.speed_up - 1 if one is not None and one.is_ranked and one.speed_up else None
             for one in found]
        )  # fmt: skip
        texts.append([speed_up_text(one) for one in found])
        hover.append(
            [
                "not measured"
                if one is None
                else f"{interval_text(one)}, {one.effect}{f': {one.reason}' if one.reason else ''}"
                f"{f'; {one.ran}' if one.ran else ''}; noise {noise_text(experiment, case)}"
                for one, case in zip(found, cases, strict=True)
            ]
        )
    known = [value for row in values for value in row if value is not None]
    span = f"from {1 + min(known):.3f} to {1 + max(known):.3f}" if known else "none is known"
    return Heat(
        key=key_of(f"experiment {cases[0].series().group_words()}", keys),
        title=title,
        says=f"{title}, by settings and message size: {span}.",
        column_title="message size",
        unit="",
        rows=[variant.describe() for variant in experiment.variants],
        columns=[size_text(case) for case in cases],
        values=values,
        texts=texts,
        hover=hover,
        centred=True,
        least_span=_LEAST_SPAN,
        notes=["Colours of cells within the noise of the default against itself mean nothing."],
    )


def cells_of_trial(run: Run, result: TrialResult) -> Mapping[str, Cell]:
    """Returns the cells of a trial by column."""
    names = [column.name for column in TRIALS.columns]
    return dict(zip(names, trial_cells(result), strict=True))
