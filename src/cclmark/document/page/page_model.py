"""The content of a page as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cclmark.document.blocks import Facts, Finding, HeadFigure, Severity, Table
from cclmark.document.chart_model import Chart
from cclmark.document.columns import Column
from cclmark.document.page.drawings import Diagram, StageBars


@dataclass(frozen=True)
class Section:
    """A part of the page; ``key``: its anchor. ``listing``: lines as a terminal shows them.

    ``alike``: sentences in place of maps whose values are alike.
    """

    key: str
    title: str
    words: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    facts: Sequence[Facts] = ()
    diagrams: Sequence[Diagram] = ()
    bars: Sequence[StageBars] = ()
    listing: str = ""
    alike: Sequence[str] = ()


@dataclass(frozen=True)
class Rows:
    """The table of raw results: a cell for each of ``columns``, strings, numbers or None.

    ``notes`` are shown above it. ``parts``: the number of each row's kind of work, empty if it is
    the same for all rows.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | int | float | None]]
    file_name: str = "cclmark.csv"
    notes: Sequence[str] = ()
    parts: Sequence[int] = ()


@dataclass(frozen=True)
class Page:
    """The content of a page. ``insights`` are grouped by run; the name of a single run is empty.

    ``verdicts``: of few runs, by name as well: the severity, and lines with their labels.

    ``overview``: the charts at the top, by default the first one of the sections. ``figures``: the
    main ones, above it.

    ``embedded``: JSON for programs, by the id of its script element.
    """

    title: str
    subtitle: str
    lead: Sequence[str]
    insights: Sequence[tuple[str, Sequence[Finding]]]
    sections: Sequence[Section]
    rows: Rows
    verdicts: Sequence[tuple[str, tuple[Severity, Sequence[tuple[str, str]]]]] = ()
    peaks: Table | None = None
    overview: Sequence[Chart] = ()
    figures: Sequence[HeadFigure] = ()
    made_by: str = ""
    links: Sequence[tuple[str, str]] = field(default=())
    embedded: Mapping[str, str] = field(default_factory=dict)
