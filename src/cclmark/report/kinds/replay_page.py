"""Replays on a page: variants beside the program, the operations of a step, and statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.replay_summaries import ReplaySummary, summaries_of_replays
from cclmark.report.charts.naming import Run
from cclmark.report.columns import Cell
from cclmark.report.insights.insight_words import Insight
from cclmark.report.insights.soundness import of_completeness
from cclmark.report.kinds.replay_columns import REPLAYS, replay_cells
from cclmark.report.page.page import PageTable, Section
from cclmark.report.page.stage_bars import StageBars, stage_bars
from cclmark.report.wording.replay_references import reference_lines
from cclmark.report.wording.replay_words import (
    cells_of_replay,
    error_lines,
    gaps_lines,
    head_of_replays,
    ms,
    name_of_replay,
    operation_head,
    operation_rows,
    program_cells,
    range_lines,
    ratio_of,
    remarks_of_replays,
    title_of_replay,
    wrong_replay_lines,
)
from cclmark.results.kinds import ReplayResult
from cclmark.results.schema import TracedStage


def title_of_replays(runs: Sequence[Run]) -> str:
    """Returns the names of the programs."""
    results = [result for run in runs for result in run.journal.replays]
    names = dict.fromkeys(one.replay.program for one in results)
    return f"replay of {', '.join(names)}"


def headline_of_replays(run: Run) -> str:
    """Returns the communication of the default; empty if it was not measured."""
    summaries = summaries_of_replays(run.journal.replays)
    if not summaries or summaries[0].communication_s is None:
        return ""
    one = summaries[0]
    text = f"communication {ms(one.communication_s)} ms per step"
    if one.program_communication_s is not None:
        text += f", {ms(one.program_communication_s)} in the program"
    return text


def insights_on_replays(run: Run) -> list[Insight]:
    """Returns wrong data, ratios, the error against the program, and what limits the figures."""
    results = run.journal.replays
    summaries = summaries_of_replays(results)
    found = [Insight("bad", f"{line}.") for line in wrong_replay_lines(results)]
    for one in summaries:
        if one.ratio is not None:
            found.append(
                Insight(
                    "note",
                    f"With {name_of_replay(one)} a step takes {ratio_of(one)} times as long as "
                    f"with {name_of_replay(_default_of(one, summaries))}.",
                )
            )
    beside = reference_lines(summaries, run.journal.header, run.notes)
    lines = (*error_lines(summaries), *range_lines(summaries), *beside)
    found += [Insight("note", _sentence(line)) for line in lines]
    found += [Insight("look", f"{line}.") for line in remarks_of_replays(summaries)]
    return [*found, *of_completeness(run.journal, [])]


def _default_of(one: ReplaySummary, summaries: Sequence[ReplaySummary]) -> ReplaySummary:
    """The default with which a variant is compared."""
    own = (each for each in summaries if each.variant.is_default and each.way == one.way)
    return next(own, summaries[0])


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."


def replay_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the variants, the operations and the bars of every run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        summaries = summaries_of_replays(run.journal.replays)
        if not summaries:
            continue
        head = head_of_replays(summaries)
        body = [cells_of_replay(one, summaries) for one in summaries]
        if program := program_cells(summaries):
            body.insert(0, program)
        tables = [
            PageTable(
                title_of_replay(summaries[0].replay),
                head,
                body,
                len(head) - 1,
                gaps_lines(summaries),
            )
        ]
        if operations := operation_rows(summaries[0]):
            tables.append(
                PageTable("Calls of a rank in a step", operation_head(), operations, 4, [])
            )
        sections.append(
            Section(f"replay{mark}", f"Replay{name}", tables=tables, bars=_bars(summaries))
        )
    return sections


def _bars(summaries: Sequence[ReplaySummary]) -> list[StageBars]:
    """Communication and the rest between the first and the last call, of each variant."""
    stages: dict[int, list[TracedStage]] = {}
    names: dict[int, str] = {}
    one = summaries[0]
    if one.program_communication_s is not None:
        stages[0] = _parts(one.program_communication_s, max(one.replay.original.span_s))
        names[0] = "the program"
    for number, each in enumerate(summaries, start=1):
        if each.communication_s is not None and each.span_s is not None:
            stages[number] = _parts(each.communication_s, each.span_s)
            names[number] = name_of_replay(each)
    if not stages:
        return []
    return [stage_bars("From the first call of a step to the last", "variant", stages, names)]


def _parts(communication_s: float, span_s: float) -> list[TracedStage]:
    found = [TracedStage("communication", 0.0, communication_s)]
    if span_s > communication_s:
        found.append(TracedStage("gaps", communication_s, span_s - communication_s))
    return found


def cells_of_replay_row(run: Run, result: ReplayResult) -> Mapping[str, Cell]:
    """Returns the cells of a replay by column."""
    names = [column.name for column in REPLAYS.columns]
    return dict(zip(names, replay_cells(result), strict=True))
