"""What stands where on a page: the chart and the findings at its top, maps that are a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cclmark.base.grouping import by_key
from cclmark.document.blocks import SEVERITY_ORDER, Finding, Severity
from cclmark.document.chart_model import Chart, Heat, Lines
from cclmark.document.page.page_model import Page, Section
from cclmark.document.text import three_digits
from cclmark.document.verdict import INCOMPLETE

_MOST_FIRST = 3  # findings at the top of a page
_OPEN: Sequence[Severity] = ("bad", "look", "unknown")
_ALIKE = 0.03  # the range of values, as a share of the largest, that a sentence says as well
_ALIKE_PERCENT = 2.0  # the same of deviations from a middle
_STANDS_OUT = "▼▲"  # beside figures of cells


@dataclass(frozen=True)
class Frame:
    """``overview``: the charts at the top. ``twins``: of a map, by its key: its cells in another
    unit.
    """

    overview: Sequence[Chart]
    sections: Sequence[Section]
    twins: Mapping[str, Heat]

    @classmethod
    def of(cls, page: Page) -> Frame:
        """The charts of the page that are drawn, each at its place."""
        every = [chart for section in page.sections for chart in section.charts]
        twins = {one.twin_of: one for one in every if isinstance(one, Heat) and one.twin_of}
        sections = [_with_sentences(section, twins) for section in page.sections]
        if page.overview:
            return cls(page.overview, sections, twins)
        for place, (given, section) in enumerate(zip(page.sections, sections, strict=True)):
            if given.charts:
                # Curves have all sizes, a map has one. If the main map is a sentence, it opens the
                # page, not one of the lesser maps.
                first = next((one for one in section.charts if isinstance(one, Lines)), None)
                main = first or given.charts[0]
                if main not in section.charts:
                    break
                rest = [one for one in section.charts if one is not main]
                sections[place] = replace(section, charts=rest)
                return cls([main], sections, twins)
        return cls((), sections, twins)


def _with_sentences(section: Section, twins: Mapping[str, Heat]) -> Section:
    """The section with sentences for its maps whose values are alike, and without their twins."""
    charts, sentences = [], []
    for chart in section.charts:
        if isinstance(chart, Heat) and chart.twin_of:
            continue
        words = uniform_words(chart) if isinstance(chart, Heat) else ""
        if words and (twin := twins.get(chart.key)) is not None and uniform_words(twin):
            of = " of the link limit" if twin.unit == "%" else ""
            words += f"; {uniform_words(twin, with_title=False)}{of}"
        if words:
            sentences.append(f"{words}.")
        else:
            charts.append(chart)
    return replace(section, charts=charts, alike=sentences)


def uniform_words(heat: Heat, *, with_title: bool = True) -> str:
    """Returns what a map says whose values are alike, empty for another one."""
    known = [one for row in heat.values for one in row if one is not None and math.isfinite(one)]
    marked = any(mark in text for row in heat.texts for text in row for mark in _STANDS_OUT)
    if not known or heat.wrong or marked:
        return ""
    low, high = min(known), max(known)
    far = max(abs(low), abs(high))
    title = f"{heat.title.replace(f' [{heat.unit}]', '')}: " if with_title else ""
    if heat.centred:
        return (
            f"{title}all within ±{three_digits(far)} {heat.unit}" if far <= _ALIKE_PERCENT else ""
        )
    if high - low > far * _ALIKE:
        return ""
    figure = f"{three_digits(low)} {heat.unit}"
    if len(known) == 1:
        (place,) = (
            f"{row}, {column}"
            for row, values in zip(heat.rows, heat.values, strict=True)
            for column, value in zip(heat.columns, values, strict=True)
            if value in known
        )
        return f"{title}{figure} ({place})" if with_title else figure
    ends = figure if three_digits(low) == three_digits(high) else f"{three_digits(low)} to "
    ends += "" if ends == figure else f"{three_digits(high)} {heat.unit}"
    return f"{title}{ends} in all {len(known)} cells" if with_title else ends


_Groups = Sequence[tuple[str, Sequence[Finding]]]


@dataclass(frozen=True)
class Insights:
    """Findings as a page shows them: the most important ones at the top, others folded.

    ``first``: with the name of their run. ``passed``: what was checked and is in order.
    """

    first: Sequence[tuple[str, Finding]]
    more: _Groups
    passed: _Groups
    notes: _Groups

    @classmethod
    def of(cls, groups: _Groups) -> Insights:
        """Those that need attention come first, the most severe ones and those with a gain."""
        every = [(name, one) for name, own in groups for one in own if one.severity in _OPEN]
        every.sort(key=lambda one: (SEVERITY_ORDER[one[1].severity], one[1].gain is None))
        first, more = every[:_MOST_FIRST], every[_MOST_FIRST:]
        return cls(first, [*by_key(more).items()], _only(groups, "good"), _only(groups, "note"))

    @staticmethod
    def command(one: Finding) -> str:
        """The first command of the advice that is complete, empty without one."""
        return next((text for text in one.commands if text not in INCOMPLETE), "")

    @staticmethod
    def count(groups: _Groups) -> int:
        """The number of findings."""
        return sum(len(own) for _, own in groups)


def _only(groups: _Groups, severity: Severity) -> _Groups:
    """The findings of a severity, without the groups that have none."""
    found = ((name, [one for one in own if one.severity == severity]) for name, own in groups)
    return [(name, own) for name, own in found if own]
