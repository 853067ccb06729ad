"""The definition of a kind of work for reports."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from cclmark.document.columns import Cell, Column, Layout
from cclmark.document.exporter import Exporter
from cclmark.document.insight_words import amount
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.paint import Paint, unpainted
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header

if TYPE_CHECKING:
    from cclmark.analysis.steps import StepRun
    from cclmark.document.blocks import Document, RunContent
    from cclmark.document.chart_model import Chart
    from cclmark.document.fields import Field, Fields
    from cclmark.document.naming import NamedRun
    from cclmark.document.page.page_model import Section


@dataclass(frozen=True)
class View:
    """How results are written. ``columns``: the width of the terminal, None without one.

    ``journal``: the journal of the results, None during the run. ``fields``: the keys of those that
    are shown, a row for each result; empty for the whole document. ``most_devices``: of a matrix of
    devices. ``details``: whether texts have the blocks that are details. ``numbers``: whether cells
    that noise decides have numbers in place of words.
    """

    journal: Journal | None = None
    paint: Paint = unpainted
    columns: int | None = None
    references: ReferenceNotes = field(default_factory=ReferenceNotes)
    most_devices: int = 32
    details: bool = False
    numbers: bool = False
    fields: Sequence[str] = ()

    @property
    def hosts(self) -> bool:
        """Whether the devices are on several hosts."""
        assert self.journal is not None
        header = self.journal.header
        return len(header.hosts) > 1 or len({device.host for device in header.devices}) > 1


class Reduction(Protocol):
    """What remains of the results of a run that are too many for the memory."""

    def add(self, result: Any) -> bool:
        """Adds a result. Returns whether the document also requires the result itself."""


Reduce = Callable[[Header], Reduction | None]


@dataclass(frozen=True)
class ComputedFigure:
    """A figure of computed results that two runs are compared by.

    ``title``: its name with its unit; ``text``: its value in words; ``is_time``: whether an item is
    slower if it grows. ``interval``: the values between which it is expected, None where it is
    exact.
    """

    field: Field
    title: str
    text: Callable[[Any], str]
    is_time: bool = False
    interval: Callable[[Any], tuple[float, float] | None] = lambda result: None


@dataclass(frozen=True)
class ComputedFigures:
    """By what two runs of a computed kind are compared.

    ``key``: equal for the same item of both runs; ``words``: the item in words; ``is_main``:
    whether texts show it. ``inputs``: what the results of a run stand on, names and texts.
    ``without_time``: what to do if no item has a time.
    """

    figures: Sequence[ComputedFigure]
    key: Callable[[Any], Hashable]
    words: Callable[[Any], str]
    is_main: Callable[[Any], bool]
    inputs: Callable[[Sequence[Any]], Iterable[tuple[str, str]]]
    without_time: str


@dataclass(frozen=True)
class ReportKind:
    """The report definition of one kind of results.

    ``noun``: the results in messages, for example cases. ``title``: the kind in messages and
    headings. ``has_times``: whether results can be compared with each other and with references.
    ``fields``: of results; ``exported``: of files with several runs, if they are others, and
    ``of_page`` of pages; ``samples``: the table of raw samples, None if the kind has none.
    ``measure``: sets the gauges of one result, by default those of ``fields``. ``page_cells``:
    returns the function for the cells of a result in the table of a page, by default those of
    ``of_page``. ``document``: composes everything that a run says; from it the terminal, Markdown
    and pages are rendered. ``part``: the key of a result's part of the document, and how many
    results the part has: texts write the blocks of a part as soon as it is complete; None if they
    write all at the end. ``in_order``: whether the results of a part follow each other, so that it
    is complete when another one begins. ``reduction``: what is kept of a run with this header in
    place of its results. ``needs_samples``: whether the document is composed from raw samples too.
    ``formats``: those of other tools by name, and texts that differ from the document.

    ``counted``: the number of results, in words. ``headline``: the main figure, empty for none.
    ``titled``: the work in the title of a page. ``sections``: the charts of several runs together,
    in place of documents on a page. ``overview``: one or two charts of all work in several runs,
    which stand at the top of a page; by default the first chart of the sections does.
    ``page_notes``: below the table of all results of a page.
    ``method_words`` explain the figures, ``method`` describes the method of a run.
    ``by_session``: whether the settings of the timed loop of collectives apply. ``has_samples``:
    whether times are sampled until a precision is reached. ``step_runs``: the
    steps of a training or a program, None for other kinds. ``traced``: what has the stages of a
    trace. ``needs_devices``: a report requires that the header contains a device and a library.
    ``verb``: of runs in which no device takes part, in place of Measured.
    ``computed``: where results follow from formulas, so that no device takes part, by what two runs
    are compared; None for what is measured.
    """

    noun: str
    title: str
    has_times: bool
    document: Callable[[RunContent], Document]
    fields: Fields
    counted: Callable[[Journal], str]
    titled: Callable[[Sequence[NamedRun]], str]
    method: Callable[[Header], str]
    exported: Fields | None = None
    of_page: Fields | None = None
    measure: Callable[[Series, Any, RunLabels], None] | None = None
    page_cells: Callable[[NamedRun], Callable[[Any], Mapping[str, Cell]]] | None = None
    part: Callable[[Any], tuple[Hashable, int]] | None = None
    in_order: bool = False
    reduction: Reduce = lambda header: None
    needs_samples: bool = True
    formats: Mapping[str, Callable[[View], Exporter[Any]]] = field(default_factory=dict)
    samples: Layout | None = None
    headline: Callable[[NamedRun], str] = lambda run: ""
    sections: Callable[[Sequence[NamedRun]], list[Section]] | None = None
    overview: Callable[[Sequence[NamedRun]], Sequence[Chart]] = lambda runs: ()
    page_notes: Callable[[Iterable[Any]], list[str]] = lambda results: []
    method_words: str = ""
    by_session: bool = True
    has_samples: bool = True
    traced: str = "rank"
    needs_devices: bool = False
    verb: str = ""
    computed: ComputedFigures | None = None
    step_runs: Callable[[Journal], list[StepRun]] | None = None

    @property
    def is_computed(self) -> bool:
        """Whether results follow from formulas."""
        return self.computed is not None

    @property
    def done(self) -> str:
        """What has been done, as a word that begins a sentence."""
        return self.verb or ("Computed" if self.is_computed else "Measured")

    @property
    def csv(self) -> Layout:
        """The table of the results of a run."""
        return self.fields.layout

    @property
    def exported_layout(self) -> Layout:
        """The table of the results of several runs."""
        return (self.exported or self.fields).layout

    @property
    def page_columns(self) -> Sequence[Column]:
        """The columns of the table of all results of a page."""
        return (self.of_page or self.fields).page_columns

    def cells_of(self, run: NamedRun) -> Callable[[Any], Mapping[str, Cell]]:
        """Returns the function for the cells of a result in the table of a page."""
        return (self.page_cells or (self.of_page or self.fields).page_cells)(run)

    def set_gauges(self, series: Series, result: Any, run: RunLabels) -> None:
        """Sets the gauges of one result."""
        (self.measure or self.fields.measure)(series, result, run)


def report_of_formulas(
    noun: str,
    title: str,
    fields: Fields,
    document: Callable[[RunContent], Document],
    method: Callable[[Header], str],
    computed: ComputedFigures,
    *,
    headline: Callable[[Sequence[Any]], str],
    titled: Callable[[Sequence[Any]], str],
    counted: Callable[[Sequence[Any]], Sequence[Any]] = list,
) -> ReportKind:
    """The report definition of results that follow from formulas.

    ``noun``: the results in messages, in the plural. ``headline``, ``titled``: see ReportKind, of
    the results of all runs. ``counted``: those results that count.
    """
    return ReportKind(
        noun=noun,
        title=title,
        has_times=False,
        fields=fields,
        document=document,
        counted=lambda journal: amount(len(counted(journal.results)), noun.removesuffix("s")),
        headline=lambda run: headline(run.journal.results),
        titled=lambda runs: titled([result for run in runs for result in run.journal.results]),
        method=method,
        by_session=False,
        has_samples=False,
        computed=computed,
    )
