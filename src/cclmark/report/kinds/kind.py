"""What every kind of work defines for its reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cclmark.report.columns import Cell, Layout
from cclmark.report.formats.exporter import Exporter
from cclmark.report.formats.openmetrics import Metric, Series
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.reference_notes import ReferenceNotes
from cclmark.results.journal import Journal
from cclmark.results.schema import Header

if TYPE_CHECKING:
    from cclmark.report.charts.naming import Run
    from cclmark.report.insights.insight_words import Insight
    from cclmark.report.page.page import Section


@dataclass(frozen=True)
class View:
    """How results are written out. ``columns``: the width of the terminal, None for none.

    ``journal``: their journal, None while the run goes on.
    """

    journal: Journal | None = None
    paint: Paint = unpainted
    columns: int | None = None
    references: ReferenceNotes = field(default_factory=ReferenceNotes)

    @property
    def hosts(self) -> bool:
        """Whether devices are of several hosts."""
        assert self.journal is not None
        header = self.journal.header
        return len(header.hosts) > 1 or len({device.host for device in header.devices}) > 1


@dataclass(frozen=True)
class RunLabels:
    """The labels that all series of a run have. ``devices``: the names of its devices."""

    where: Sequence[tuple[str, str]]
    method: Sequence[tuple[str, str]]
    devices: Sequence[str]


def later(module: str, function: str) -> Callable[..., Any]:
    """The function of a module of cclmark.report, which is imported when it is first called."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"cclmark.report.{module}"), function)(*arguments)

    return call


def _no_sections(runs: Sequence[Run]) -> list[Section]:
    return []


def _no_notes(results: Iterable[Any]) -> list[str]:
    return []


def _no_headline(run: Run) -> str:
    return ""


@dataclass(frozen=True)
class ReportKind:
    """How results of one kind are reported.

    ``noun``: the results in messages, for example cases. ``title``: the kind in messages and
    headings. ``has_times``: whether results can be compared with each other and with references.
    ``csv``, ``exported`` and ``samples``: the tables for programs, of a run and of files that hold
    several runs; samples None where there are none. ``formats``: the other formats by name, besides
    JSON, which all kinds have.

    ``metrics``: the gauges for Prometheus, and ``measure`` sets them for one result. ``counted``:
    the number of results, in words. ``headline``: the figure to remember, empty for none.
    ``insights``: the statements of the summary, in any order. ``titled``: the work in the title of
    a page. ``sections``: the charts of a page. ``page_columns``, ``page_cells`` and ``page_notes``:
    the table of all results on a page. ``method_words`` explain the figures, ``method`` the method
    of a run, and ``by_session``: whether the settings of the timed loop of collectives apply.
    """

    noun: str
    title: str
    has_times: bool
    csv: Layout
    exported: Layout
    formats: Mapping[str, Callable[[View], Exporter[Any]]]
    metrics: Sequence[Metric]
    measure: Callable[[Series, Any, RunLabels], None]
    counted: Callable[[Journal], str]
    insights: Callable[[Run], list[Insight]]
    titled: Callable[[Sequence[Run]], str]
    method: Callable[[Header], str]
    page_columns: Sequence[str]
    page_cells: Callable[[Run, Any], Mapping[str, Cell]]
    samples: Layout | None = None
    headline: Callable[[Run], str] = _no_headline
    sections: Callable[[Sequence[Run]], list[Section]] = _no_sections
    page_notes: Callable[[Iterable[Any]], list[str]] = _no_notes
    method_words: str = ""
    by_session: bool = True
