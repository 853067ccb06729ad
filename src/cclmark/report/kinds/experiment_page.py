"""Experiments on a page: heat maps of speed-ups, findings, and the table of all trials."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cclmark.analysis.experiments import Experiment, VariantResult, experiment_of
from cclmark.plan.cases import Case
from cclmark.plan.variants import Variant
from cclmark.document.chart_model import Heat, key_of, marked
from cclmark.document.naming import Run
from cclmark.document.columns import Cell
from cclmark.document.insight_words import Insight, sentence
from cclmark.document.soundness import of_completeness
from cclmark.report.kinds.experiment_columns import TRIALS, trial_cells
from cclmark.document.page.page import Section
from cclmark.document.remarks import conclusion_lines
from cclmark.report.wording.variant_words import (
    best_lines,
    groups_of,
    interval_text,
    noise_text,
    noise_warning,
    remarks_of,
    size_text,
    speed_up_text,
    variant_name,
)
from cclmark.kinds.experiment.result import TrialResult

_LEAST_SPAN_PERCENT = 10.0
_CERTAIN = ("faster", "slower")
# Of the lines that commands print at their end.
_CONCLUDES = re.compile(
    r"nothing beats the default|no gain was proven|geometric mean|no artifact is written|"
    r"no file is written|"
    r"smallest value that keeps|no value keeps"
)
_MOST_CONCLUDED = 3


def _experiment(run: Run) -> Experiment:
    return experiment_of(run.journal.trials, run.journal.header.settings.timing)


def title_of_experiments(runs: Sequence[Run]) -> str:
    """Returns the operations, and the varied settings unless tune has chosen them."""
    results = [result for run in runs for result in run.journal.trials]
    operations = dict.fromkeys(one.trial.case.operation for one in results)
    names = dict.fromkeys(
        assignment.name for one in results for assignment in one.trial.variant.assignments
    )
    if any(one.trial.stage for one in results):
        return f"tuning of {', '.join(operations)}"
    varied = f" with {', '.join(names)}" if names else ""
    return f"experiment on {', '.join(operations)}{varied}"


def headline_of_experiment(run: Run) -> str:
    """Returns the conclusion of an adaptive run, else the largest speed-up that counts."""
    footer = run.journal.footer
    if footer is not None and footer.conclusion:
        found = [line.strip() for line in footer.conclusion if _CONCLUDES.search(line)]
        return sentence("; ".join(found[:_MOST_CONCLUDED]) or "the result is below")
    experiment = _experiment(run)
    faster = [best for case in experiment.cases if (best := experiment.fastest(case)) is not None]
    if not faster:
        return "No variant is proven to be faster than the default"
    best = max(faster, key=lambda one: one.speed_up or 0.0)
    return (
        f"{variant_name(best.variant)} is {interval_text(best)} times as fast as the default for "
        f"{best.case.describe()}"
    )


def insights_on_experiment(run: Run) -> list[Insight]:
    """Returns the fastest variants, and those that failed or had no effect."""
    experiment = _experiment(run)
    found = [
        Insight("bad", f"Wrong data with {variant_name(one.variant)} in {one.case.describe()}.")
        for one in experiment.compared.values()
        if one.effect == "wrong"
    ]
    for cases in groups_of(experiment):
        lines = [line.strip() for line in best_lines(experiment, cases)]
        text = f"Fastest for {cases[0].series().group_words()}: {'; '.join(lines)}."
        found.append(Insight("note", text))
    if warning := noise_warning(experiment):
        found.append(Insight("look", *map(sentence, warning)))
    found += [Insight("look", sentence(line)) for line in remarks_of(experiment)]
    return [*found, *of_completeness(run.journal, [])]


def experiment_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the heat maps of every run, after the result of adaptive runs."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        experiment = _experiment(run)
        footer = run.journal.footer
        if conclusion := conclusion_lines(footer):
            lines = "\n".join(conclusion)
            sections.append(Section(f"result{mark}", f"Result{name}", listing=lines))
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
    variants = _in_order(experiment.variants)
    for variant in variants:
        found = [experiment.compared.get((variant, case)) for case in cases]
        values.append([_percent_faster(one) for one in found])
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
    known = [
        one.speed_up
        for (_, case), one in experiment.compared.items()
        if case in cases and one.is_ranked and one.speed_up is not None
    ]
    span = f"from {min(known):.3f} to {max(known):.3f}" if known else "none is known"
    return Heat(
        key=key_of(f"experiment {cases[0].series().group_words()}", keys),
        title=title,
        says=f"{title}, by settings and message size: {span}.",
        column_title="message size",
        unit="% faster",
        rows=[variant_name(variant) for variant in variants],
        columns=[size_text(case) for case in cases],
        values=values,
        texts=texts,
        hover=hover,
        centred=True,
        least_span=_LEAST_SPAN_PERCENT,
        notes=[
            "Cells have the speed-up, the default's time over the variant's. Only those that are "
            "faster or slower beyond the noise have a colour: by how many percent the variant is "
            "faster than the default, negative if it is slower."
        ],
    )


def _percent_faster(one: VariantResult | None) -> float | None:
    """What a cell's colour means: 0 within the noise, None without a speed-up that counts."""
    if one is None or not one.is_ranked or one.speed_up is None:
        return None
    return (one.speed_up - 1) * 100 if one.effect in _CERTAIN else 0.0


def _in_order(variants: Sequence[Variant]) -> list[Variant]:
    """Variants of one setting with numbers by number, for example of a bisection."""
    of_one = len({one.name for variant in variants for one in variant.assignments}) == 1
    values = [one.value for variant in variants for one in variant.assignments]
    if not of_one or not all(value.isdecimal() and value.isascii() for value in values):
        return list(variants)
    return sorted(variants, key=lambda variant: int(variant.assignments[0].value))


def cells_of_trial(run: Run, result: TrialResult) -> Mapping[str, Cell]:
    """Returns the cells of a trial by column."""
    names = [column.name for column in TRIALS.columns]
    return dict(zip(names, trial_cells(result), strict=True))
