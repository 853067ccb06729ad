"""Object calls on a page: charts of times and ratios by size, findings, all results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.kinds.objects.plan import FLAG
from cclmark.document.chart_model import Chart, ChartCurve, Level, Lines, key_of, marked
from cclmark.document.naming import Run
from cclmark.document.columns import Cell
from cclmark.document.insight_words import Insight
from cclmark.document.soundness import of_completeness
from cclmark.report.kinds.objects_columns import OBJECTS_LAYOUT, object_cells
from cclmark.document.page.page import PageTable, Section
from cclmark.report.wording.object_words import (
    HEAD,
    cells_of,
    flag_lines,
    group_title,
    outcome_of,
    ratio_text,
    remarks_of,
    size_text,
    wrong_lines,
)
from cclmark.document.text import US_PER_S
from cclmark.kinds.objects.result import ObjectResult


def title_of_objects(runs: Sequence[Run]) -> str:
    """Returns the backends."""
    results = [result for run in runs for result in run.journal.objects]
    backends = dict.fromkeys(one.call.backend for one in results)
    return f"objects and tensors with {', '.join(backends)}"


def headline_of_objects(run: Run) -> str:
    """Returns the flag in words, else the ratio of the largest object; empty without figures."""
    results = run.journal.objects
    if flags := flag_lines(results):
        return flags[0]
    known = [one for one in results if one.figures is not None]
    return _sentence(max(known, key=lambda one: one.call.size_bytes)) if known else ""


def _sentence(one: ObjectResult) -> str:
    assert one.figures is not None
    return (
        f"{one.call.operation} of {size_text(one.call)} takes {ratio_text(one.figures)} times as "
        f"long as {one.call.tensor_call} of the same data; pickling is "
        f"{one.figures.pickling_s / one.figures.object_s:.0%} of it"
    )


def insights_on_objects(run: Run) -> list[Insight]:
    """Returns the largest and the flag's ratios, wrong data, and what limits the figures."""
    results = run.journal.objects
    found = [Insight("bad", f"{line[0].upper()}{line[1:]}.") for line in wrong_lines(results)]
    if not found and any(one.is_checked for one in results):
        found.append(Insight("good", f"All received data were correct: {outcome_of(results)}."))
    found += [Insight("note", f"{line[0].upper()}{line[1:]}.") for line in flag_lines(results)]
    for group in _grouped(results).values():
        known = [one for one in group if one.figures is not None and one.call.content != FLAG]
        if known:
            largest = max(known, key=lambda one: one.call.size_bytes)
            found.append(Insight("note", f"{_sentence(largest)}."))
    found += [Insight("look", f"{line}.") for line in remarks_of(results)]
    return [*found, *of_completeness(run.journal, [])]


def object_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the charts and the tables of every run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        groups = _grouped(run.journal.objects)
        charts = _charts(groups)
        tables = [
            PageTable(title, list(HEAD), [cells_of(one) for one in group], len(HEAD), [])
            for title, group in groups.items()
        ]
        if tables:
            title = f"Objects and tensors{name}"
            sections.append(
                Section(f"objects{mark}", title, charts=marked(charts, mark), tables=tables)
            )
    return sections


def _grouped(results: Sequence[ObjectResult]) -> dict[str, list[ObjectResult]]:
    groups: dict[str, list[ObjectResult]] = {}
    for one in results:
        groups.setdefault(group_title(one.call), []).append(one)
    return groups


def _charts(groups: Mapping[str, Sequence[ObjectResult]]) -> list[Chart]:
    keys: set[str] = set()
    curves: list[ChartCurve] = []
    charts: list[Chart] = []
    for group in groups.values():
        known = [one for one in group if one.figures is not None and one.call.content != FLAG]
        if len(known) < 2:
            continue
        curves.append(_ratios(known, len(curves)))
        charts.append(_times(known, keys))
    if not curves:
        return []
    ratios = Lines(
        key=key_of("objects ratio", keys),
        title="Objects against tensors",
        says="The time of a call with objects over the time with the same data as tensors, by "
        "size.",
        x_title="size of a pickled object",
        y_title="time with objects / time with tensors",
        series=curves,
        levels=[Level("equal", 1.0)],
    )
    return [ratios, *charts]


def _ratios(group: Sequence[ObjectResult], number: int) -> ChartCurve:
    figures = [one.figures for one in group if one.figures is not None]
    return ChartCurve(
        name=group[0].call.operation,
        x=[one.call.size_bytes for one in group],
        y=[one.ratio for one in figures],
        low=[one.ratio_low for one in figures],
        high=[one.ratio_high for one in figures],
        colour=number,
    )


def _times(group: Sequence[ObjectResult], keys: set[str]) -> Lines:
    call = group[0].call
    figures = [one.figures for one in group if one.figures is not None]
    sizes = [one.call.size_bytes for one in group]
    parts = (
        (call.operation, [(one.object_s, one.object_low_s, one.object_high_s) for one in figures]),
        (
            call.tensor_call,
            [(one.tensor_s, one.tensor_low_s, one.tensor_high_s) for one in figures],
        ),
        ("pickling alone", [(one.pickling_s,) * 3 for one in figures]),
    )
    return Lines(
        key=key_of(f"objects {call.operation} {call.content}", keys),
        title=f"{call.operation} and {call.tensor_call}",
        says=f"{group_title(call)}: the time of one call by size.",
        x_title="size of a pickled object",
        y_title="time of a call, µs",
        series=[
            ChartCurve(
                name=name,
                x=sizes,
                y=[one[0] * US_PER_S for one in times_s],
                low=[one[1] * US_PER_S for one in times_s],
                high=[one[2] * US_PER_S for one in times_s],
                colour=number,
            )
            for number, (name, times_s) in enumerate(parts)
        ],
        y_log=True,
    )


def cells_of_object(run: Run, result: ObjectResult) -> Mapping[str, Cell]:
    """Returns the cells of a call by column."""
    names = [column.name for column in OBJECTS_LAYOUT.columns]
    return dict(zip(names, object_cells(result), strict=True))
