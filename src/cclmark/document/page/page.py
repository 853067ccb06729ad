"""Decides what stands where on a page, and assembles it.

It is made of the template, its style, its script, its drawings, and the data.

The page may only use the one script and the one style whose hashes are in its
Content-Security-Policy: nothing in the data can become a script, and nothing is fetched. Charts are
drawings in the page; what only the script reads (figures, further views, the table of all cases) is
compressed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import TYPE_CHECKING

from cclmark.base.grouping import by_key
from cclmark.base.version import VERSION
from cclmark.document.blocks import SEVERITY_ORDER, Finding, Severity
from cclmark.document.chart_model import Chart, Heat, Lines
from cclmark.document.insight_words import capitalised
from cclmark.document.page.chart_svg import SHAPES, legend_of, markers_of, views_of
from cclmark.document.page.page_model import Page, Section
from cclmark.document.text import three_digits
from cclmark.document.verdict import INCOMPLETE

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup


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


_DIGITS = 6
_DRAWN_DIGITS = 4  # of charts: drawings have 600 places
_MOST_DRAWN = 60_000  # characters of drawings outside of compressed data
_EMPTY: Sequence[object] = ((), [], "", None)
_LONG = 24  # characters of a cell

PageValue = Mapping[str, "PageValue"] | Sequence["PageValue"] | str | int | float | bool | None


# Characters that could end a script element, begin a comment or another script in it, end a line of
# JavaScript, or change the display of the page's source: control characters, marks of text
# direction.
@cache
def _harmful() -> re.Pattern[str]:
    categories = ("Cc", "Cf", "Zl", "Zp")
    codes = [code for code in range(0x7F, 0x10000) if unicodedata.category(chr(code)) in categories]
    return re.compile(f"[<>&{''.join(map(chr, codes))}]")


class Encoder:
    """Encodes parts of a page. Texts of points, which charts of a sweep share, are stored once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def texts(self) -> PageValue:
        """The texts that charts refer to by number, with the figures apart from the words.

        ``words``: texts whose figures are left out, which are between their parts; ``forms``: the
        number of the words of each text; ``figures``: of each words and place, those of its texts.
        """
        words: dict[tuple[str, ...], int] = {}
        forms: list[int] = []
        figures: list[list[list[str]]] = []
        for text in self._places:
            parts = _FIGURE.split(text)
            form = words.setdefault(tuple(parts[::2]), len(words))
            if form == len(figures):
                figures.append([[] for _ in parts[1::2]])
            forms.append(form)
            for column, one in zip(figures[form], parts[1::2], strict=True):
                column.append(one)
        return {"words": [[*one] for one in words], "forms": forms, "figures": figures}

    def chart(self, chart: Chart) -> Mapping[str, PageValue]:
        """Returns the chart's fields, with its class as ``kind`` and texts on points as numbers."""
        spelled = self._spelled(chart)
        assert isinstance(spelled, Mapping)
        return {"kind": type(chart).__name__.lower(), **spelled}

    def cells(self, column: Sequence[str | int | float | None]) -> PageValue:
        """Returns a column of a table; a long text is replaced by a list with its number."""
        return [
            [self._numbers(cell)] if isinstance(cell, str) and len(cell) > _LONG else cell
            for cell in column
        ]

    def _spelled(self, value: object) -> PageValue:
        if isinstance(value, float):
            return shortened(value, _DRAWN_DIGITS)
        if value is None or isinstance(value, str | int):
            return value
        if isinstance(value, Sequence):
            return [self._spelled(one) for one in value]
        assert is_dataclass(value)
        return {
            field.name: self._numbers(own) if field.name == "hover" else self._spelled(own)
            for field in fields(value)
            if not field.metadata and (own := getattr(value, field.name)) not in _EMPTY
        }

    def _numbers(self, texts: object) -> PageValue:
        if isinstance(texts, str):
            return self._places.setdefault(texts, len(self._places))
        assert isinstance(texts, Sequence)
        numbers = [self._numbers(one) for one in texts]
        # Mostly the numbers follow each other: the first one is enough.
        first = numbers[0] if len(numbers) > 1 else None
        if isinstance(first, int) and numbers == [*range(first, first + len(numbers))]:
            return first
        return numbers


def shortened(value: float, digits: int = _DIGITS) -> float | int | None:
    """Rounds to the visible digits; None for values that JSON does not support."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short


def harmless(text: str) -> str:
    """Returns the same JSON, safe in a script element."""
    return _harmful().sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_CODE = re.compile(r"`([^`]+)`")
_FIGURE = re.compile(r"(\d+(?:\.\d+)?)")


def render(page: Page) -> str:
    """Renders the page as HTML."""
    encoder = Encoder()
    frame = Frame.of(page)
    charts = [*frame.overview, *(one for section in frame.sections for one in section.charts)]
    twins = {one.key: frame.twins[one.key] for one in charts if one.key in frame.twins}
    views = {chart.key: views_of(chart, twins.get(chart.key)) for chart in charts}
    drawings, later = _by_place({key: own[0].svg for key, own in views.items()})
    data: dict[str, PageValue] = {
        "charts": [encoder.chart(chart) for chart in (*charts, *twins.values())],
        **({"drawings": later, "legends": _legends(charts, later)} if later else {}),
        # The first view of each is a drawing.
        "views": {
            key: [[one.name, one.svg if number else "", one.key] for number, one in enumerate(own)]
            for key, own in views.items()
            if len(own) > 1
        },
        "columns": [one.name for one in page.rows.columns],
        "titles": [one.title for one in page.rows.columns],
        "helps": [one.help for one in page.rows.columns],
        "higherIsBetter": [one.direction == "higher" for one in page.rows.columns],
        **({"parts": list(page.rows.parts)} if len(set(page.rows.parts)) > 1 else {}),
        # By column: neighbours that are alike compress well.
        "cells": [encoder.cells(column) for column in zip(*page.rows.rows, strict=True)],
        "fileName": page.rows.file_name,
        "texts": encoder.texts,
    }
    template = _environment().get_template("page.html.j2")
    return template.render(
        page=page,
        overview=frame.overview,
        sections=frame.sections,
        insights=Insights.of(page.insights),
        style=page_style(),
        script=_asset("page.js"),
        policy=policy_of(),
        drawings=drawings,
        later=later,
        markers=markers_of(charts),
        shapes=SHAPES,
        legend_of=legend_of,
        data=packed(data),
        embedded={key: harmless(text) for key, text in page.embedded.items()},
        version=VERSION,
    )


def _by_place(drawings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the drawings in the page, and those that its script adds to sections that unfold."""
    sizes = accumulate(map(len, drawings.values()))
    here = {key for key, size in zip(drawings, sizes, strict=True) if size <= _MOST_DRAWN}
    return (
        {key: svg if key in here else "" for key, svg in drawings.items()},
        {key: svg for key, svg in drawings.items() if key not in here},
    )


def _legends(charts: Sequence[Chart], later: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of the legends of charts that the script draws."""
    from markupsafe import escape

    return {
        chart.key: "".join(
            f'<li><button type="button">{swatch}{escape(name)}</button></li>'
            for name, swatch in legend_of(chart)
        )
        for chart in charts
        if chart.key in later
    }


def packed(value: PageValue) -> str:
    """Encodes JSON that only the script reads, compressed. Equal values give equal texts."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    content = zlib.compress(text.encode("utf-8", "backslashreplace"), 9)
    return base64.b64encode(content).decode()


@cache
def _environment() -> jinja2.Environment:
    import jinja2  # takes as long as all other imports of a command that prints a table

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(coded=_coded, capitalised=capitalised)
    return environment


def _coded(text: str) -> Markup:
    """Escapes the text for HTML; parts between backticks become code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


_NEEDLESS = re.compile(r"\s*([{};,])\s*")  # spaces in a style


@cache
def _asset(name: str) -> str:
    """The text of a file without needless spaces and lines of comments."""
    text = (files(__package__) / name).read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("//"))
    return _NEEDLESS.sub(r"\1", text) if name.endswith(".css") else text


def policy_of() -> str:
    """Returns the Content-Security-Policy of pages, which each also contains."""
    return (
        f"default-src 'none'; script-src {source_hash(_asset('page.js'))}; "
        f"style-src {source_hash(page_style())}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def source_hash(content: str) -> str:
    """Returns the hash that identifies a script or a style in a policy."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def page_style() -> str:
    """Returns the style of pages, for other pages with the same look."""
    return _asset("page.css")
