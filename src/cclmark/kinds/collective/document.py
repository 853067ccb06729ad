"""What a run of collectives says, the fields of its cases, and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, cast

import msgspec

from cclmark.analysis.findings import LibraryComparison, OperationFindings, comparisons
from cclmark.analysis.irregularities import NOISY_SPREAD, spread_of
from cclmark.analysis.links import link_limit
from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Block,
    Document,
    Groups,
    Listing,
    Look,
    RunContent,
    Severity,
    Table,
)
from cclmark.document.case_fields import (
    CASE_FIELDS,
    EXPORTED_CASES,
    METHOD_OF_CASES,
    case_cells,
    measure_case,
    notes_on_cases,
    title_of_cases,
)
from cclmark.document.connection_words import connection_lines
from cclmark.document.document_text import DocumentMarkdown, DocumentText
from cclmark.document.explained import ran_tables
from cclmark.document.exporter import Exporter
from cclmark.document.head import method_of
from cclmark.document.insight_words import amount, listed
from cclmark.document.naming import NamedRun
from cclmark.document.peaks import head_figures, peaks_of
from cclmark.document.placement_rows import PlacementRow, RowCollector
from cclmark.document.reference_notes import verdict_of
from cclmark.document.remarks import (
    convergence_text,
    cycles_text,
    elements_text,
    half_peak_text,
    marks_text,
    outcome_of_cases,
    staged_legend,
    staged_mark,
)
from cclmark.document.report_kind import ReportKind, View
from cclmark.document.sample_columns import CASE_SAMPLES
from cclmark.document.text import UNSETTLED, UNSETTLED_NOTE, format_time_us, us_text
from cclmark.document.why import prediction_tables
from cclmark.journal.item_results import CaseResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Header, Summary
from cclmark.kinds.collective.figures import SoakFigures, soak_of
from cclmark.kinds.collective.findings import findings_on_collectives, headline_of_collectives
from cclmark.kinds.collective.formats import CASE_FORMATS
from cclmark.kinds.collective.soak import SoakText, of_first_cycle, with_drift
from cclmark.work.cases import Case
from cclmark.work.operations import moves_data
from cclmark.work.sizes import format_size

if TYPE_CHECKING:
    from cclmark.document.chart_model import Chart
    from cclmark.document.page.page_model import Section

PLACEMENTS = ("out-of-place", "in-place")
_SHORT_PLACEMENTS = {"out-of-place": "out", "in-place": "in"}
_SHORT_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
_LEAD = {"cycle": 5, "size": 9, "count": 11, "dtype": 7, "op": 4, "root": 4}
_OPTIONAL = ("count", "root", "op", "dtype")


@dataclass(frozen=True)
class CaseView:
    """What the rows of cases show.

    ``placements``: those that the run measures. ``shares``: of references, for every row. ``gbps``:
    bandwidths in Gbit/s too. ``why``: the library's predictions.
    """

    placements: Sequence[str] = PLACEMENTS
    shares: bool = False
    gbps: bool = False
    why: bool = False


def document_of_cases(run: RunContent, view: CaseView | None = None) -> Document:
    """Composes everything that a run says. ``view``: None for the placements of its results.

    Of a soak the first cycle is shown, and how the later ones differ.
    """
    results, header = cast("Sequence[CaseResult]", run.results), run.header
    soak: SoakFigures | None = run.reduction or soak_of(header)
    if soak is not None:
        if run.reduction is None:
            results = soak.add_all(results)
        run = replace(run, header=of_first_cycle(header), results=results)
    view = view or view_of(results)
    shown = [one for one in results if soak is None or one.cycle == 0]
    blocks = [*_Rows(run, view).tables(shown)]
    if not run.is_whole:
        return Document("Collectives", method_of(run.header), blocks)
    journal = Journal(
        run.header, [*results], footer=run.footer, paths=[*run.paths], traces=[*run.traces]
    )
    named = NamedRun("", journal, run.references)
    # One operation has a sentence instead.
    peaks = peaks_of([named]) if len(named.findings) > 1 else None
    figures = [*map(partial(_figure, header=run.header), named.findings)] if not peaks else []
    unsettled = any(not one.converged for one in results if one.summary is not None)
    notes = [
        *(line for line in staged_legend(results) if peaks is None or line not in peaks.notes),
        *([UNSETTLED_NOTE] if unsettled else []),
        *run.references.legend(),
    ]
    if peaks is not None and soak is not None:
        peaks = replace(peaks, title=f"{peaks.title}, first cycle")
    closing = [peaks] if peaks is not None else []
    document = Document(
        "Collectives",
        method_of(run.header),
        blocks,
        findings_on_collectives(named),
        outcome_of_cases(run.header, results),
        any(one.status == "wrong" for one in results),
        notes,
        closing=[*_closing(run, results, view), *closing],
        figures=figures,
        head_figures=head_figures(named),
    )
    return document if soak is None else with_drift(document, soak, header)


def view_of(results: Iterable[CaseResult]) -> CaseView:
    """The rows of a whole run that measured ``results``."""
    measured = {one.case.placement for one in results}
    return CaseView([one for one in PLACEMENTS if one in measured] or PLACEMENTS)


class _Rows:
    """The rows of a run: one for each case, with the figures of its placements side by side."""

    def __init__(self, run: RunContent, view: CaseView) -> None:
        self._header = run.header
        self._references = run.references
        self._view = view
        settings = run.header.settings
        self._with_device = settings.timing == "auto"
        self._lead = dict(_LEAD)
        if settings.cycles == 1:
            del self._lead["cycle"]
        # The number of elements never exceeds the largest size in bytes.
        self._lead["count"] = max(_LEAD["count"], len(str(settings.end_bytes)))

    def tables(self, results: Sequence[CaseResult]) -> Iterator[Table]:
        """A table for each operation and library."""
        collector = RowCollector(single=len(self._view.placements) == 1)
        rows = [row for result in results for row in collector.add(result)]
        rows += collector.finish()
        for (operation, ccl), own in groupby(rows, lambda row: (row.case.operation, row.case.ccl)):
            yield self._table(operation, ccl, [*own])

    def _table(self, operation: str, ccl: str, rows: Sequence[PlacementRow]) -> Table:
        figures = self._figure_columns(operation)
        groups = self._view.placements
        looks: list[Look] = []
        cells = [self._row(row, number, [*figures], looks) for number, row in enumerate(rows)]
        route = next((one.results[0].route for one in rows if one.summary is not None), "")
        named = f" ({route})" if route not in ("native", "") else ""
        unit = ", bandwidths in GB/s" if moves_data(operation) else ""
        head = [*self._lead, *[*figures] * len(groups), "remarks"]
        return Table(
            f"{operation} · {ccl}{named}{unit}",
            head,
            cells,
            ">" * (len(head) - 1) + "<",
            widths=[*self._lead.values(), *[*figures.values()] * len(groups)],
            series=f"{operation} · {ccl}",
            is_last_below=True,
            groups=Groups(
                groups, len(figures), "place", [_SHORT_PLACEMENTS[name] for name in groups]
            ),
            optional=[[*self._lead].index(name) for name in _OPTIONAL],
            looks=looks,
            on_page=False,
        )

    def _figure_columns(self, operation: str) -> dict[str, int]:
        """The columns of a placement and their widths."""
        columns = {"time µs": 9}
        if self._with_device:
            columns["device"] = 7
        columns |= {"algbw": 7, "busbw": 7, "wrong": 5, "spread": 6}
        if self._view.gbps and moves_data(operation):  # a barrier has no bandwidth
            columns |= {"alg Gbps": 8, "bus Gbps": 8}
        if self._view.shares:
            columns["of ref"] = 8
        return columns

    def _row(
        self,
        row: PlacementRow,
        number: int,
        columns: Sequence[str],
        looks: list[Look],
    ) -> list[str]:
        lead = _lead_cells(row)
        cells = [lead[name] for name in self._lead]
        last = len(cells) + len(columns) * len(self._view.placements)
        if all(result.summary is None for result in row.results):
            looks.append((number, last, "look"))
            result = row.results[0]
            return [*cells, f"{result.status}: {plain(result.reason)}"]
        shown = {one.case.placement: one for one in row.results}
        if not moves_data(row.case.operation):
            shown = {self._view.placements[0]: row.results[0]}
        for placement in self._view.placements:
            found = self._figures(shown.get(placement))
            for name, look in found.looks.items():
                looks.append((number, len(cells) + columns.index(name), look))
            cells += [found.cells.get(name, "") for name in columns]
        lines, look = _remarks_below(row)
        if lines:
            looks.append((number, last, look))
        return [*cells, "\n".join(lines)]

    def _figures(self, result: CaseResult | None) -> _Figures:
        found = _Figures({}, {})
        if result is None:
            return found
        summary, cells, looks = result.summary, found.cells, found.looks
        if summary is None:
            cells["time µs"] = result.status
            looks["time µs"] = "look"
            return found
        unsettled = "" if result.converged else UNSETTLED
        cells["time µs"] = f"{staged_mark(result)}{unsettled}{format_time_us(summary.time_s)}"
        if result.device is not None:
            unsettled = "" if result.device.converged else UNSETTLED
            cells["device"] = f"{unsettled}{format_time_us(result.device.summary.time_s)}"
        cells["algbw"] = _bandwidth(summary.algbw_bytes_per_s, result.case)
        cells["busbw"] = _bandwidth(summary.busbw_bytes_per_s, result.case)
        cells |= _in_gbps(summary)
        checked, is_wrong = result.verification, result.status == "wrong"
        # A failed check of another tool may not report the number of elements.
        unknown = "some" if is_wrong else "-"
        cells["wrong"] = unknown if checked is None else _in_five(checked.wrong)
        cells["spread"] = "-" if summary.spread is None else _percent(summary.spread)
        if is_wrong:
            looks["wrong"] = "bad"
        if spread_of(summary) > NOISY_SPREAD:
            looks["spread"] = "look"
        if self._view.shares:
            match = self._references.match(result, self._header)
            cells["of ref"] = self._references.cell(match)
            if verdict_of(match) == "low":
                looks["of ref"] = "look"
        return found


@dataclass(frozen=True)
class _Figures:
    """The cells of a placement by their columns, and those that stand out."""

    cells: dict[str, str]
    looks: dict[str, Severity]


def _lead_cells(row: PlacementRow) -> dict[str, str]:
    case = row.case
    cycle = {"cycle": str(row.results[0].cycle + 1)}
    if not moves_data(case.operation):
        return dict.fromkeys(_LEAD, "-") | cycle
    return cycle | {
        "size": format_size(case.size_bytes),
        "count": str(case.count),
        "dtype": _SHORT_DTYPES.get(case.dtype, case.dtype),
        "op": case.reduction or "-",
        "root": "-" if case.root is None else str(case.root),
    }


def _remarks_below(row: PlacementRow) -> tuple[list[str], Severity]:
    """Why placements have no figures, and their first wrong elements."""
    lines: list[str] = []
    look: Severity = "look"
    for result in row.results:
        placement = result.case.placement
        if result.summary is None:
            lines.append(f"{placement} {result.status}: {plain(result.reason)}")
        elif result.status == "wrong":
            look = "bad"
            found = result.verification.findings if result.verification is not None else []
            if result.verification is None:
                lines.append(f"wrong: {placement}: {plain(result.reason)}")
            lines += [f"wrong: {placement}, rank {one.rank}: {elements_text(one)}" for one in found]
    return lines, look


def _closing(run: RunContent, results: Sequence[CaseResult], view: CaseView) -> Iterator[Block]:
    """Libraries side by side, what ran, how the ranks are connected, and predictions."""
    yield from map(_beside, comparisons(results))
    yield from ran_tables(results)
    for paths in run.paths:
        title, *lines = connection_lines(run.header, [paths], warnings=False)  # findings
        yield Listing(title.strip(), [line[2:] for line in lines])
    if not view.why:
        return
    known = prediction_tables(results)
    yield from known
    if not known and any(one.explanation is not None for one in results):
        yield Listing(
            "predictions", ["none: only libraries with NCCL's tuner interface report them"]
        )


def _beside(found: LibraryComparison) -> Table:
    """The times of several libraries, each but the first followed by its ratio to the first."""
    case = found.case
    words = [case.operation]
    if moves_data(case.operation):
        words += [case.dtype, case.reduction or ""]
        words += ["" if case.root is None else f"root {case.root}", case.placement]
    first, *others = found.ccls
    head = ["size", first, *(text for other in others for text in (other, f"/ {first}"))]
    rows = [
        [format_size(size) if moves_data(case.operation) else "-", *_times(times_s)]
        for size, times_s in found.rows
    ]
    title = f"{' '.join(filter(None, words))}: time in µs"
    return Table(title, head, rows, ">" * len(head), on_page=False)


def _times(times_s: Sequence[float | None]) -> Iterator[str]:
    first_s, *others_s = times_s
    yield us_text(first_s)
    for time_s in others_s:
        yield us_text(time_s)
        ratio = time_s / first_s if first_s and time_s is not None else None
        yield "-" if ratio is None else f"{ratio:.3f}" if ratio < 100 else f"{ratio:.0f}"


def _figure(found: OperationFindings, header: Header) -> str:
    """The peak and the latency of an operation."""
    latency, peak = found.latency, found.peak
    assert latency.summary is not None
    assert peak.summary is not None
    time = f"{format_time_us(latency.summary.time_s)} µs"
    if not moves_data(found.operation):
        return f"{found.name}: {time}{convergence_text(latency)}{cycles_text(found)}"
    smallest = f"{time} at {format_size(latency.case.size_bytes)}{marks_text(latency)}"
    if latency.case.ranks == 1:
        alone = "one rank: launches and copies alone, nothing is communicated"
        return f"{found.name}: {smallest}{cycles_text(found)}; {alone}"
    limit = link_limit(header.links, header.hosts)
    rate = peak.summary.busbw_bytes_per_s
    share = f" ({rate / limit:.0%} of the {limit / 1e9:.0f} GB/s link limit)" if limit else ""
    return (
        f"{found.name}: peak bus bandwidth {_gigabytes(rate)} GB/s at "
        f"{format_size(peak.case.size_bytes)} {peak.case.placement}{marks_text(peak)}{share}"
        f"{half_peak_text(found)}; average {_gigabytes(found.average_bytes_per_s)} GB/s; "
        f"{smallest}{cycles_text(found)}"
    )


def _in_five(number: int) -> str:
    """Formats at most five characters: from 100000 on, rounded to thousands, millions and so on."""
    if number < 100_000:
        return str(number)
    power = next(power for power in range(1, 7) if number / 1000**power < 9999.5)
    return f"{number / 1000**power:.0f}{' kMGTPE'[power]}"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 9.999 else f"{share:.0%}"


def _gigabytes(bytes_per_s: float) -> str:
    value = bytes_per_s / 1e9
    return f"{value:.2f}" if value < 1000 else f"{value:.0f}"


def _bandwidth(bytes_per_s: float, case: Case) -> str:
    # A single rank only copies within its memory, which is not a bandwidth of the operation.
    is_rate = moves_data(case.operation) and case.ranks > 1
    return _gigabytes(bytes_per_s) if is_rate else "-"


def _in_gbps(summary: Summary) -> dict[str, str]:
    rates = {"alg": summary.algbw_bytes_per_s, "bus": summary.busbw_bytes_per_s}
    return {f"{name} Gbps": f"{rate * 8 / 1e9:.1f}" for name, rate in rates.items()}


def part_of_case(result: CaseResult, placements: int = len(PLACEMENTS)) -> tuple[object, int]:
    """The row of a result, and how many results it has: one for each placement of the run."""
    case = msgspec.structs.replace(result.case, in_place=False)
    return (result.cycle, case), placements if moves_data(case.operation) else 1


# Functions, so that a run imports only the format it writes, and no charts.
def _sections(runs: Sequence[NamedRun]) -> list[Section]:
    from cclmark.kinds.collective.charts import collective_sections

    return collective_sections(runs)


def _overview(runs: Sequence[NamedRun]) -> Sequence[Chart]:
    from cclmark.kinds.collective.charts import collective_overview

    return collective_overview(runs)


def exporter_of_cases(
    view: View, shown: CaseView | None = None, format: str = "table", *, every_s: float = 0.0
) -> DocumentText:
    """Returns the exporter of the table, or of Markdown, that writes each row as it is complete.

    ``every_s``: the interval of the summaries of a soak, 0 for a growing one.
    """
    if shown is None:
        shown = CaseView() if view.journal is None else view_of(view.journal.cases)
    renderer = DocumentMarkdown if format == "markdown" else partial(SoakText, every_s=every_s)
    return renderer(
        partial(document_of_cases, view=shown),
        view,
        partial(part_of_case, placements=len(shown.placements)),
        in_order=True,
        keeps_samples=False,
        reduction=soak_of,
        headline=headline_of_collectives,
    )


def _without_view(
    create: Callable[[], Exporter[CaseResult]],
) -> Callable[[View], Exporter[CaseResult]]:
    return lambda view: create()


def _counted(journal: Journal) -> str:
    operations = sorted({one.case.operation for one in journal.cases})
    cases, cycles = ({getattr(one, of) for one in journal.cases} for of in ("case", "cycle"))
    of = f"{amount(len(cases), 'case')} of {listed(operations)}"
    return f"{of} in {len(cycles)} cycles" if len(cycles) > 1 else of


REPORT = ReportKind(
    noun="cases",
    title="collectives",
    has_times=True,
    fields=CASE_FIELDS,
    exported=EXPORTED_CASES,
    samples=CASE_SAMPLES,
    document=document_of_cases,
    part=part_of_case,
    in_order=True,
    needs_samples=False,
    reduction=soak_of,
    formats={
        "table": exporter_of_cases,
        "markdown": partial(exporter_of_cases, format="markdown"),
        **{name: _without_view(create) for name, create in CASE_FORMATS.items()},
    },
    measure=measure_case,
    counted=_counted,
    headline=headline_of_collectives,
    titled=title_of_cases,
    method=method_of,
    method_words=METHOD_OF_CASES,
    sections=_sections,
    overview=_overview,
    page_cells=partial(case_cells, CASE_FIELDS),
    page_notes=notes_on_cases,
)
