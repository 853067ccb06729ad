"""Documents on a page: a section for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cclmark.document.blocks import Bars, Facts, Listing, Stages, Table, unhandled
from cclmark.document.chart_model import Chart, Heat, key_of, marked
from cclmark.document.document_text import Compose, document_of
from cclmark.document.insight_words import capitalised, sentence
from cclmark.document.naming import NamedRun
from cclmark.document.page.drawings import StageBars, stage_bars
from cclmark.document.page.page import PageFacts, PageTable, Section
from cclmark.printable import plain
from cclmark.results.schema import TracedStage

_MOST_COLUMNS = 32


def sections_of(compose: Compose, key: str, runs: Sequence[NamedRun]) -> list[Section]:
    """Returns a section with the blocks of every run that has some; listings before it."""
    found = []
    keys: set[str] = set()
    several = len(runs) > 1
    for number, run in enumerate(runs):
        document = document_of(compose, run)
        mark = f"-{number}" if several else ""
        name = f" ({run.name})" if several else ""
        tables: list[PageTable] = []
        bars: list[StageBars] = []
        charts: list[Chart] = []
        facts: list[tuple[str, str]] = []
        for block in (*document.opening, *document.blocks, *document.closing):
            match block:
                case Table():
                    if block.on_page:
                        tables.append(page_table(block))
                case Bars():
                    bars.append(_bars(block))
                case Stages():
                    bars.append(_stages(block))
                case Heat():
                    _add_heat(block, charts, tables)
                case Chart():
                    charts.append(block)
                case Facts():
                    facts += block.rows
                case Listing():
                    title = f"{capitalised(block.title)}{name}"
                    listing = "\n".join(map(plain, block.lines))
                    found.append(
                        Section(key_of(f"{block.title}{mark}", keys), title, listing=listing)
                    )
                case _:
                    unhandled(block)
        if tables or bars or charts or facts:
            found.append(
                Section(
                    f"{key}{mark}",
                    f"{document.title}{name}",
                    [*document.notes, *([sentence(document.outcome)] if document.outcome else [])],
                    charts=marked(charts, mark),
                    tables=tables,
                    facts=[PageFacts("", facts)] if facts else [],
                    bars=bars,
                )
            )
    return found


def _add_heat(heat: Heat, charts: list[Chart], tables: list[PageTable]) -> None:
    """Adds a chart; of devices without any value a table, unless it has too many columns."""
    notes = [*heat.meaning, *heat.notes, *heat.reasons]
    if not heat.of_devices or any(value is not None for row in heat.values for value in row):
        charts.append(replace(heat, notes=notes))
    elif not heat.is_detail and 0 < len(heat.columns) <= _MOST_COLUMNS:
        rows = [[name, *texts] for name, texts in zip(heat.rows, heat.texts, strict=True)]
        tables.append(PageTable(heat.title, [heat.column_title, *heat.columns], rows, notes=notes))


def page_table(table: Table) -> PageTable:
    """Returns the table as pages have it."""
    numeric = len(table.sides) - len(table.sides.rstrip(">"))
    return PageTable(
        capitalised(table.title), table.full_head(), table.single_lines(), numeric, table.notes
    )


def _bars(bars: Bars) -> StageBars:
    rows: list[tuple[str, list[TracedStage]]] = []
    for row, parts in bars.rows:
        begin_s = 0.0
        stages = []
        for name, time_s in parts:
            stages.append(TracedStage(name, begin_s, time_s))
            begin_s += time_s
        rows.append((row, stages))
    return _stages(Stages(bars.title, bars.noun, rows))


def _stages(one: Stages) -> StageBars:
    stages = {number: own for number, (_, own) in enumerate(one.rows)}
    return stage_bars(one.title, one.noun, stages, dict(enumerate(name for name, _ in one.rows)))
