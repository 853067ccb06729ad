"""A page that compares configurations: differences, and curves on the same axes."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.base.printable import plain
from cclmark.base.version import VERSION
from cclmark.comparison.comparison_document import comparison_document
from cclmark.comparison.figures import Side
from cclmark.comparison.words import Comparison, shown_of
from cclmark.document.blocks import SEVERITY_ORDER, Document, Severity, Table
from cclmark.document.chart_model import Chart, marked
from cclmark.document.columns import Column
from cclmark.document.fields import Field
from cclmark.document.insight_words import in_sentences, sentence
from cclmark.document.naming import NamedRun, group_titles, groups_of
from cclmark.document.page.page import shortened
from cclmark.document.page.page_model import Page, Rows, Section
from cclmark.document.text import counted
from cclmark.journal.page_journals import stem_of
from cclmark.kinds.collective.charts import collective_charts

_FIELDS = (
    Field("case", "What was compared.", lambda one: one.thing.describe(), "text"),
    Field("ccl", "Library that performs it.", "thing.ccl", "text"),
    Field("size_bytes", "Size of the message.", "size_bytes", "int"),
    Field(
        "figure",
        "What was compared of it: its time, or that of the devices.",
        lambda one: "device time" if one.by_device else "time",
        "text",
    ),
    Field("before_us", "Time before the change.", "before_s"),
    Field("after_us", "Time after the change.", "after_s"),
    Field("ratio", "Time after over time before.", "ratio", direction="lower"),
    Field("low", "Lower end of the 95 % interval of the ratio.", "low"),
    Field("high", "Upper end of the 95 % interval of the ratio.", "high"),
    Field("verdict", "slower, faster, no difference or inconclusive.", "verdict", "text"),
    Field("reason", "Why it was not judged.", lambda one: plain(one.reason), "text"),
)


def comparison_page(comparisons: Sequence[Comparison]) -> Page:
    """Creates the page of one or more comparisons with a common side before."""
    several = len(comparisons) > 1
    sides = [comparisons[0].before, *(one.after for one in comparisons)]
    names = _names(sides)
    runs = [
        NamedRun(name if len(side.runs) == 1 else f"first of {name}", side.runs[0])
        for name, side in zip(names, sides, strict=True)
    ]
    composed = [*zip(names[1:], map(comparison_document, comparisons), strict=True)]
    sections = []
    for number, (name, document) in enumerate(composed):
        mark = f"-{number}" if several else ""
        charts = [block for block in document.blocks if isinstance(block, Chart)]
        sections.append(
            Section(
                f"ratios{mark}",
                f"{name} against {names[0]}" if several else "Ratios",
                words=[*map(sentence, document.notes)],
                charts=marked(charts, mark),
                tables=[one for one in document.blocks if isinstance(one, Table) and one.on_page],
            )
        )
    return Page(
        title=f"{', '.join(names[1:])} against {names[0]}",
        subtitle=runs[0].journal.header.machine.hostname
        + "".join(
            f", {name}: {counted(len(side.runs), 'run')}"
            for name, side in zip(names, sides, strict=True)
        ),
        lead=[],
        verdicts=[
            (name if several else "", (_severity(document), [("verdict", document.outcome)]))
            for name, document in composed
        ],
        insights=[
            (name if several else "", [*map(in_sentences, document.findings)])
            for name, document in composed
        ],
        sections=[*sections, *_overlays(runs)],
        rows=_rows(comparisons, names[1:]),
        made_by=f"Made by cclmark {VERSION}.",
    )


def _severity(document: Document) -> Severity:
    """That of the most severe finding."""
    found = (one.severity for one in document.findings)
    return min(found, key=SEVERITY_ORDER.__getitem__, default="note")


def _names(sides: Sequence[Side]) -> list[str]:
    """Returns the files' names without extensions if these are unique, otherwise in full."""
    stems = []
    for side in sides:
        first, more = side.name, ""
        if len(side.runs) > 1:
            first, _, number = side.name.rpartition(" and ")
            more = f" and {number}"
        stems.append(stem_of(first) + more)
    if len(set(stems)) == len(stems):
        return stems
    return [side.name for side in sides]


def _overlays(runs: Sequence[NamedRun]) -> list[Section]:
    """Draws the first run of each side on the same axes."""
    groups = groups_of(runs)
    sections = []
    for group, title in zip(groups, group_titles(groups), strict=True):
        charts: list[Chart] = collective_charts(group, title, runs)
        if charts:
            key = group.key.replace(" ", "-").replace(".", "-")
            sections.append(Section(key, title, charts=charts))
    return sections


def _rows(comparisons: Sequence[Comparison], names: Sequence[str]) -> Rows:
    several = len(comparisons) > 1
    lines = []
    for comparison, name in zip(comparisons, names, strict=True):
        shown = shown_of(comparison)
        shown += [one for one in comparison.found if one.ratio is None]
        for one in sorted(shown, key=lambda one: one.verdict != "slower"):
            cells = (field.cell(one) for field in _FIELDS)
            short = [shortened(cell) if isinstance(cell, float) else cell for cell in cells]
            lines.append([name, *short] if several else short)
    name_column = [Column("comparison", "text", "Name of the later run.")] if several else []
    columns = [*name_column, *(field.column for field in _FIELDS)]
    return Rows(columns, lines, "comparison.csv")
