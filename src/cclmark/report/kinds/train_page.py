"""Trainings on a page: what a step consists of, losses, and the statements of the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.training_summaries import TrainingSummary, summaries_of
from cclmark.report.charts.chart_model import ChartCurve, Lines, key_of, marked
from cclmark.report.charts.naming import Run
from cclmark.report.columns import Cell
from cclmark.report.insights.insight_words import Insight
from cclmark.report.insights.soundness import of_completeness
from cclmark.report.kinds.train_columns import TRAININGS, training_cells
from cclmark.report.page.page import PageTable, Section
from cclmark.report.page.stage_bars import StageBars, stage_bars
from cclmark.report.wording.step_words import ms_text
from cclmark.report.wording.training_words import (
    cells_of,
    device_line,
    differs_when_profiled,
    head_of,
    loss_lines,
    name_of,
    peak_line,
    ratio_text,
    remarks_of,
    share_text,
    title_of_training,
    tokens_text,
    variant_lines,
    wrong_lines,
)
from cclmark.results.kinds import TrainingResult
from cclmark.results.schema import TracedStage

_STEP, _HIDDEN = "step", "hidden"


def title_of_trainings(runs: Sequence[Run]) -> str:
    """Returns the models and their parallelism."""
    results = [result for run in runs for result in run.journal.trainings]
    names = dict.fromkeys(
        f"{one.training.model.name} with {one.training.parallel}" for one in results
    )
    return f"training of {', '.join(names)}"


def headline_of_trainings(run: Run) -> str:
    """Returns the rate of the default; empty if it was not measured."""
    summaries = summaries_of(run.journal.trainings, run.journal.header.devices)
    if not summaries or summaries[0].step_s is None:
        return ""
    one = summaries[0]
    text = f"{tokens_text(one)} tokens/s, {ms_text(one.step_s)} ms per step"
    if one.share_of_peak is not None:
        text += f", MFU {share_text(one)}"
    if one.exposed_s is not None:
        profiled = " of profiled steps" if differs_when_profiled(one) else ""
        text += f", exposed communication{profiled} {ms_text(one.exposed_s)} ms"
    return text


def insights_on_trainings(run: Run) -> list[Insight]:
    """Returns the rates, wrong data, and what limits the figures."""
    results = run.journal.trainings
    summaries = summaries_of(results, run.journal.header.devices)
    found = [Insight("bad", f"{line}.") for line in wrong_lines(results)]
    for one in summaries:
        if one.ratio is not None:
            found.append(
                Insight(
                    "note",
                    f"With {name_of(one)} a step takes {ratio_text(one)} times as long as with "
                    f"{name_of(summaries[0])}.",
                )
            )
    found += [Insight("note", _sentence(line)) for line in loss_lines(summaries)]
    unequal = device_line(run.journal.header.devices)
    looks = [*remarks_of(summaries), *([unequal] if unequal else [])]
    found += [Insight("look", _sentence(line)) for line in looks]
    return [*found, *of_completeness(run.journal, [])]


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."


def training_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the parts of a step, the losses and the table of every run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        summaries = summaries_of(run.journal.trainings, run.journal.header.devices)
        if not summaries:
            continue
        title = title_of_training(summaries[0].training)
        head = head_of(summaries)
        table = PageTable(
            title,
            head,
            [cells_of(one, summaries) for one in summaries],
            len(head) - 1,
            [line for line in (*variant_lines(summaries), peak_line(summaries)) if line],
        )
        losses = [chart] if (chart := _losses(summaries)) is not None else []
        sections.append(
            Section(
                f"train{mark}",
                f"Training{name}",
                charts=marked(losses, mark),
                tables=[table],
                bars=_bars(summaries),
            )
        )
    return sections


def _bars(summaries: Sequence[TrainingSummary]) -> list[StageBars]:
    """The parts of a step one after the other, and the hidden communication below it."""
    stages: dict[int, list[TracedStage]] = {}
    names: dict[int, str] = {}
    for number, one in enumerate(summaries, start=1):
        if one.step_s is None or one.exposed_s is None:
            continue
        known = [
            ("compute", one.compute_s),
            ("exposed communication", one.exposed_s),
            ("idle", one.idle_s),
        ]
        place = 2 * number
        stages[place], names[place] = _in_a_row(known), f"{_STEP} {number}"
        if one.hidden_s:
            stages[place + 1] = _in_a_row([("hidden communication", one.hidden_s)])
            names[place + 1] = f"{_HIDDEN} {number}"
    if not stages:
        return []
    listed = "; ".join(f"{number}: {name_of(one)}" for number, one in enumerate(summaries, start=1))
    return [stage_bars(f"Parts of a profiled step ({listed})", "step", stages, names)]


def _in_a_row(parts: Sequence[tuple[str, float | None]]) -> list[TracedStage]:
    found: list[TracedStage] = []
    begin_s = 0.0
    for name, time_s in parts:
        if time_s is not None and time_s > 0:
            found.append(TracedStage(name, begin_s, time_s))
            begin_s += time_s
    return found


def _losses(summaries: Sequence[TrainingSummary]) -> Lines | None:
    """The losses by step, a curve for each variant."""
    series = [
        ChartCurve(
            name=name_of(one),
            x=list(range(1, len(one.losses) + 1)),
            y=list(one.losses),
            colour=number,
        )
        for number, one in enumerate(summaries)
        if one.losses
    ]
    if not series:
        return None
    return Lines(
        key=key_of("train losses", set()),
        title="Loss by step",
        says="The loss of each step, a curve for each variant with the same data and seed.",
        x_title="step",
        y_title="loss (cross entropy)",
        series=series,
        x_kind="number",
        zero_based=False,
    )


def cells_of_training(run: Run, result: TrainingResult) -> Mapping[str, Cell]:
    """Returns the cells of a training by column."""
    names = [column.name for column in TRAININGS.columns]
    return dict(zip(names, training_cells(result), strict=True))
