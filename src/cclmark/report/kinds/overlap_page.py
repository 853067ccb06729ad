"""Overlaps on a page: charts of bandwidth against remaining compute, findings, all results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cclmark.analysis.overlap_summaries import OverlapSummary, SlowDown, summaries_of
from cclmark.report.charts.cells import key_of
from cclmark.report.charts.chart_model import Chart, ChartCurve, Level, Lines, marked
from cclmark.report.charts.naming import Run
from cclmark.report.columns import Cell
from cclmark.report.insights.insight_words import Insight
from cclmark.report.insights.soundness import of_completeness
from cclmark.report.kinds.overlap_columns import OVERLAPS, overlap_cells
from cclmark.report.page.page import PageTable, Section
from cclmark.report.wording.overlap_words import (
    AGAINST_HEAD,
    against_rows,
    against_title,
    alone_text,
    cells_of,
    group_title,
    grouped,
    head_of,
    remarks_of,
    share_text,
    size_text,
    slow_down_text,
    wrong_lines,
)
from cclmark.report.wording.text import BYTES_PER_GB
from cclmark.results.kinds import OverlapResult

_PERCENT = 100
_NUMERIC = 6
_NUMERIC_AGAINST = 2


def title_of_overlaps(runs: Sequence[Run]) -> str:
    """Returns the operations and the work beside them."""
    results = [result for run in runs for result in run.journal.overlaps]
    operations = dict.fromkeys(one.overlap.case.operation for one in results)
    works = dict.fromkeys(one.overlap.compute.describe() for one in results)
    return f"{', '.join(operations)} beside {' and '.join(works)}"


def headline_of_overlaps(run: Run) -> str:
    """Returns the slow-downs of the largest message by default; empty if it was not measured."""
    known = [
        one
        for one in summaries_of(run.journal.overlaps)
        if one.variant.is_default and one.communication is not None
    ]
    if not known:
        return ""
    return _sentence(max(known, key=lambda one: one.case.size_bytes))


def _sentence(one: OverlapSummary) -> str:
    return (
        f"{one.case.operation} of {size_text(one.case)} with {one.variant.describe()} takes "
        f"{slow_down_text(one.communication)} times as long beside {one.work.describe()}, which "
        f"takes {slow_down_text(one.compute)} times as long"
    )


def insights_on_overlaps(run: Run) -> list[Insight]:
    """Returns the slow-downs of the largest messages, wrong data, and what limits the figures."""
    results = run.journal.overlaps
    summaries = summaries_of(results)
    found = [Insight("bad", f"{line[0].upper()}{line[1:]}.") for line in wrong_lines(results)]
    for group in grouped(summaries):
        largest = max(one.case.size_bytes for one in group)
        found += [
            Insight("note", f"{_sentence(one)}.")
            for one in group
            if one.case.size_bytes == largest and one.communication is not None
        ]
    found += [Insight("look", f"{line}.") for line in remarks_of(summaries)]
    return [*found, *of_completeness(run.journal, [])]


def overlap_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the charts and the table of every run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        keys: set[str] = set()
        charts: list[Chart] = []
        tables = []
        for group in grouped(summaries_of(run.journal.overlaps)):
            charts += _charts(group, keys)
            tables.append(
                PageTable(
                    group_title(group[0]),
                    head_of(group[0]),
                    [cells_of(one) for one in group],
                    _NUMERIC,
                    [text for text in (share_text(group), alone_text(group)) if text],
                )
            )
            if compared := against_rows(group):
                title = f"{group_title(group[0])}, {against_title(group)}"
                tables.append(PageTable(title, list(AGAINST_HEAD), compared, _NUMERIC_AGAINST))
        if tables:
            title = f"Collectives beside compute{name}"
            sections.append(
                Section(f"overlap{mark}", title, charts=marked(charts, mark), tables=tables)
            )
    return sections


def _charts(group: Sequence[OverlapSummary], keys: set[str]) -> list[Chart]:
    measured = [one for one in group if one.communication is not None and one.compute is not None]
    if not measured:
        return []
    return [
        _trade_off(measured, keys),
        _by_size(measured, keys, "collective", lambda one: one.communication),
        _by_size(measured, keys, "compute", lambda one: one.compute),
    ]


def _name(group: Sequence[OverlapSummary]) -> str:
    case = group[0].case
    return f"{case.operation} {case.placement}"


def _trade_off(group: Sequence[OverlapSummary], keys: set[str]) -> Lines:
    """The bandwidth of the collective against the compute that remains, a curve for each size."""
    title = f"{_name(group)}: bandwidth against remaining compute"
    series = []
    for number, case in enumerate(dict.fromkeys(one.case for one in group)):
        own = sorted(
            (one for one in group if one.case == case), key=lambda one: one.remaining_compute or 0
        )
        intervals = [one.busbw_interval for one in own]
        series.append(
            ChartCurve(
                name=size_text(case),
                x=[(one.remaining_compute or 0) * _PERCENT for one in own],
                y=[(one.busbw_beside or 0) / BYTES_PER_GB for one in own],
                low=[None if one is None else one[0] / BYTES_PER_GB for one in intervals],
                high=[None if one is None else one[1] / BYTES_PER_GB for one in intervals],
                colour=number,
                hover=[
                    f"{one.variant.describe()}: collective {slow_down_text(one.communication)}, "
                    f"compute {slow_down_text(one.compute)}"
                    for one in own
                ],
            )
        )
    return Lines(
        key=key_of(f"overlap {group[0].case.series().group_words()}", keys),
        title=title,
        says=f"{group_title(group[0])}: bandwidth against the compute that remains, a curve for "
        "each message size and a point for each variant, with 95 % intervals of the bandwidth.",
        x_title="compute that remains beside the collective, % of its rate alone",
        y_title="bus bandwidth beside the compute, GB/s",
        series=series,
        x_kind="number",
    )


def _by_size(
    group: Sequence[OverlapSummary],
    keys: set[str],
    name: str,
    of: Callable[[OverlapSummary], SlowDown | None],
) -> Lines:
    """The slow-down of the collective or the compute by message size, a curve for each variant."""
    title = f"{_name(group)}: slow-down of the {name}"
    series = []
    for number, variant in enumerate(dict.fromkeys(one.variant for one in group)):
        own = [
            (one.case.size_bytes, found)
            for one in group
            if one.variant == variant and (found := of(one)) is not None
        ]
        bounds = [found.estimate for _, found in own]
        series.append(
            ChartCurve(
                name=variant.describe(),
                x=[size for size, _ in own],
                y=[found.ratio for _, found in own],
                low=[None if one is None else one.low for one in bounds],
                high=[None if one is None else one.high for one in bounds],
                colour=number,
            )
        )
    return Lines(
        key=key_of(f"overlap {name} {group[0].case.series().group_words()}", keys),
        title=title,
        says=f"{group_title(group[0])}: the time of the {name} beside the other work over its time "
        "alone, by message size.",
        x_title="message size",
        y_title="time beside the other work / time alone",
        series=series,
        levels=[Level("alone", 1.0)],
        zero_based=False,
    )


def cells_of_overlap(run: Run, result: OverlapResult) -> Mapping[str, Cell]:
    """Returns the cells of an overlap by column."""
    names = [column.name for column in OVERLAPS.columns]
    return dict(zip(names, overlap_cells(result), strict=True))
