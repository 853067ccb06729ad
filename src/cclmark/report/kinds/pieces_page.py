"""Messages in pieces on a page: charts of bandwidth by size of a piece, findings, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.plan.piece_cases import BUCKETS, GROUPED, ONE, SEPARATE, Division
from cclmark.plan.sizes import format_size
from cclmark.report.charts.chart_model import Chart, ChartCurve, Lines, key_of, marked
from cclmark.report.charts.naming import Run
from cclmark.report.columns import Cell
from cclmark.report.insights.insight_words import Insight
from cclmark.report.insights.soundness import of_completeness
from cclmark.report.page.page import PageTable, Section
from cclmark.report.wording.piece_words import (
    HEAD,
    SIDES,
    cells_of,
    form_text,
    group_title,
    largest_piece_bytes,
    outcome_of,
    remarks_of,
    sentences_of,
    wrong_lines,
)
from cclmark.report.wording.text import BYTES_PER_GB
from cclmark.results.kinds import PieceResult


def title_of_pieces(runs: Sequence[Run]) -> str:
    """Returns the operations."""
    results = [result for run in runs for result in run.journal.pieces]
    operations = dict.fromkeys(one.pieces.case.operation for one in results)
    return f"{', '.join(operations)} in pieces"


def headline_of_pieces(run: Run) -> str:
    """Returns the first ratio of the largest message; empty without figures."""
    results = run.journal.pieces
    known = [one for one in results if sentences_of(one, results)]
    if not known:
        return ""
    return sentences_of(max(known, key=lambda one: one.pieces.size_bytes), results)[0]


def insights_on_pieces(run: Run) -> list[Insight]:
    """Returns the ratios of every message, wrong data, and what limits the figures."""
    results = run.journal.pieces
    found = [Insight("bad", f"{line[0].upper()}{line[1:]}.") for line in wrong_lines(results)]
    if not found and any(one.is_checked for one in results):
        found.append(Insight("good", f"All outputs were correct: {outcome_of(results)}."))
    for result in results:
        found += [Insight("note", f"{line}.") for line in sentences_of(result, results)]
    found += [Insight("look", f"{line}.") for line in remarks_of(results)]
    return [*found, *of_completeness(run.journal, [])]


def piece_sections(runs: Sequence[Run]) -> list[Section]:
    """Returns a section with the charts and the tables of every run."""
    sections = []
    for number, run in enumerate(runs):
        name = f" ({run.name})" if len(runs) > 1 else ""
        mark = f"-{number}" if len(runs) > 1 else ""
        keys: set[str] = set()
        results = [one for one in run.journal.pieces if one.rows]
        charts = [chart for one in results for chart in _charts(one, keys)]
        tables = [
            PageTable(
                group_title(one),
                list(HEAD),
                [cells_of(one.pieces.case, row) for row in one.rows],
                SIDES.count(">") - 1,
                [],
            )
            for one in results
        ]
        if tables:
            title = f"Messages in pieces{name}"
            sections.append(
                Section(f"pieces{mark}", title, charts=marked(charts, mark), tables=tables)
            )
    return sections


def _charts(result: PieceResult, keys: set[str]) -> list[Chart]:
    case = result.pieces.case
    series = []
    for number, form in enumerate((SEPARATE, GROUPED, BUCKETS)):
        # One call is the largest piece of each form.
        points = [
            (largest_piece_bytes(case, row.division), row.summary)
            for row in reversed(result.rows)
            if row.division.form in (form, ONE) and row.summary is not None
        ]
        if len(points) > 1:
            series.append(
                ChartCurve(
                    name="separate calls" if form == SEPARATE else form_text(Division(form, 1)),
                    x=[size_bytes for size_bytes, _ in points],
                    y=[summary.busbw_bytes_per_s / BYTES_PER_GB for _, summary in points],
                    colour=number,
                )
            )
    if not series:
        return []
    title = group_title(result)
    return [
        Lines(
            key=key_of(f"pieces {title}", keys),
            title=title,
            says=f"{title}: the bus bandwidth of the whole message by the size of its pieces.",
            x_title="size of a piece",
            y_title="bus bandwidth of the whole, GB/s",
            series=series,
        )
    ]


def cells_of_pieces(run: Run, result: PieceResult) -> Mapping[str, Cell]:
    """Returns the cells of a message: its slowest division."""
    case = result.pieces.case
    measured = [row for row in result.rows if row.summary is not None]
    slowest = max(measured, key=lambda row: row.ratio, default=None)
    return {
        "operation": case.operation,
        "ccl": case.ccl,
        "ranks": case.ranks,
        "dtype": case.dtype,
        "reduction": case.reduction,
        "placement": case.placement,
        "size": format_size(case.size_bytes),
        "status": result.status,
        "reason": result.reason,
        "divisions": len(measured),
        "slowest": ""
        if slowest is None
        else _name(slowest.division.pieces, form_text(slowest.division)),
        "ratio": None if slowest is None else slowest.ratio,
    }


def _name(pieces: int, form: str) -> str:
    return form if pieces == 1 else f"{pieces} as {form}"
