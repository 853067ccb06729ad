"""What a run of messages in pieces says, and the fields of its results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from cclmark.document.blocks import (
    Block,
    Document,
    Evidence,
    Finding,
    Gain,
    HeadFigure,
    RunContent,
    Table,
)
from cclmark.document.case_fields import (
    case_fields,
    method_of_case,
    ratio_fields,
    status_fields,
    summary_fields,
    wrong_field,
)
from cclmark.document.chart_model import ChartCurve, Lines, key_of
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import Remark, amount, limits_of
from cclmark.document.naming import NamedRun
from cclmark.document.openmetrics import RunLabels, Series
from cclmark.document.remarks import elements_text, reason_text
from cclmark.document.report_kind import ReportKind
from cclmark.document.soundness import of_checked, or_unlocated, wrong_data
from cclmark.document.text import BYTES_PER_GB, format_time_us, half_width_text
from cclmark.journal.schema import Header
from cclmark.kinds.pieces.plan import BUCKETS, GROUPED, ONE, SEPARATE, Division, piece_counts
from cclmark.kinds.pieces.result import PieceResult, PieceRow
from cclmark.work.cases import Case
from cclmark.work.operations import DTYPE_BYTES
from cclmark.work.sizes import format_size

_HEAD = ("pieces", "as", "each", "time µs", "±%", "algbw", "busbw", "ratio (95 %)", "wrong")
_SIDES = "><>>>>>>>"
_FORMS = {ONE: "one call", SEPARATE: "calls", GROUPED: "one group", BUCKETS: "DDP buckets"}
_MOST_NAMED = 6
_CASE_ON_PAGE = ("operation", "ccl", "ranks", "dtype", "reduction", "placement")
_MOST_WRONG = 8


class _Row(NamedTuple):
    """A division of a message, as a row of tables."""

    result: PieceResult
    row: PieceRow
    method: str

    @property
    def status(self) -> str:
        """The status of the division."""
        return self.row.status

    @property
    def known(self) -> PieceRow | None:
        """The row if it has figures."""
        return None if self.row.summary is None else self.row


def _rows(header: Header, result: PieceResult) -> Iterator[_Row]:
    pieces = result.pieces
    listed = result.rows or [
        PieceRow(division, result.status, result.reason) for division in pieces.divisions
    ]
    for row in listed:
        yield _Row(result, row, method_of_case(header, pieces.case.ccl))


FIELDS = Fields(
    [
        *case_fields("result.pieces.case"),
        Field("pieces", "Pieces that the message is divided into.", "row.division.pieces", "int"),
        Field(
            "form",
            "How they are sent: one, separate, grouped or buckets.",
            "row.division.form",
            "text",
        ),
        *status_fields(lambda one: reason_text(one.row), "row.status"),
        *summary_fields("row.summary"),
        *ratio_fields("known", "Time over that of the message in one call."),
        Field(
            "launch_bound",
            "Whether launches of the host set the time.",
            "known.launch_bound",
            "bool",
        ),
        Field(
            "operations", "Whole messages in a sample.", "row.samples.operations_per_sample", "int"
        ),
        wrong_field("row.verification.wrong"),
        Field(
            "converged",
            "Whether all medians of the message reached the requested precision.",
            "result.converged",
            "bool",
        ),
        Field("method", "Differences of the method from the default.", "method", "text"),
    ],
    rows=_rows,
)


def _measure(series: Series, result: PieceResult, run: RunLabels) -> None:
    """Sets the gauges of all divisions of one message."""
    for row in result.rows:
        FIELDS.measure(series, _Row(result, row, ""), run)


def document_of_pieces(run: RunContent) -> Document:
    """Composes everything that a run says."""
    results = cast("Sequence[PieceResult]", run.results)
    wrong = or_unlocated(wrong_findings(results), results)
    is_right = not wrong and any(one.is_checked for one in results)
    return Document(
        "Messages in pieces",
        method_of_pieces(run.header),
        [*_blocks(results)],
        [
            *wrong[:_MOST_WRONG],
            *([of_checked(results, "all outputs were correct")] if is_right else []),
            *(finding for result in results for finding in beside_whole(result, results)),
            *remarks_of(results),
        ],
        outcome_of(results),
        is_wrong=bool(wrong),
        head_figures=[*_head_figures(results)],
    )


def _blocks(results: Sequence[PieceResult]) -> Iterator[Block]:
    keys: set[str] = set()
    for one in results:
        if one.rows:
            wrong = [place for place, row in enumerate(one.rows) if row.status == "wrong"]
            rows = [_cells(one.pieces.case, row) for row in one.rows]
            yield Table(group_title(one), _HEAD, rows, _SIDES, wrong=wrong)
            yield from _charts(one, keys)


def method_of_pieces(header: Header) -> str:
    """Describes in a line how pieces were measured."""
    settings = header.settings
    order = "each waited for" if settings.timing == "blocking" else "back to back"
    check = "the output of each division checked" if settings.check else "outputs not checked"
    return (
        f"the same message in one call and in pieces in every round, operations {order}, "
        f"{settings.across_ranks} over ranks, {check}"
    )


def group_title(result: PieceResult) -> str:
    """The message: the title of a table."""
    case = result.pieces.case
    return f"{case.series().group_words()}: {format_size(case.size_bytes)}"


def form_text(division: Division) -> str:
    """The form of a division in words: ``one group``."""
    return _FORMS.get(division.form, division.form)


def largest_piece_bytes(case: Case, division: Division) -> int:
    """The size of the largest piece; 0 for an unknown form or type."""
    if division.form not in _FORMS or case.dtype not in DTYPE_BYTES:
        return 0
    largest = max(piece_counts(case, division), default=case.count)
    return largest * DTYPE_BYTES[case.dtype]


def ratio_text(row: PieceRow) -> str:
    """The ratio with its interval: ``1.31 (1.29 to 1.33)``; empty for one call."""
    if row.summary is None:
        return "-"
    if row.division.form == ONE:
        return "1"
    return f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})"


def _cells(case: Case, row: PieceRow) -> list[str]:
    """The cells of a line."""
    size_bytes = largest_piece_bytes(case, row.division)
    each = format_size(size_bytes) if size_bytes else "-"
    lead = [str(row.division.pieces), form_text(row.division), each]
    summary, checked = row.summary, row.verification
    if summary is None:
        return [*lead, row.status, *["-"] * 5]
    return [
        *lead,
        format_time_us(summary.time_s),
        half_width_text(summary.half_width),
        f"{summary.algbw_bytes_per_s / BYTES_PER_GB:.2f}",
        f"{summary.busbw_bytes_per_s / BYTES_PER_GB:.2f}" if case.ranks > 1 else "-",
        ratio_text(row),
        "-" if checked is None else str(checked.wrong),
    ]


def library_of(case: Case, results: Iterable[PieceResult]) -> str:
    """`` with LIBRARY`` where several libraries are measured, else empty."""
    several = len({one.pieces.case.ccl for one in results}) > 1
    return f" with {case.ccl}" if several else ""


def beside_whole(result: PieceResult, results: Sequence[PieceResult]) -> Iterator[Finding]:
    """What most pieces cost as calls, as one group, and as DDP's buckets.

    ``results``: all of the run, whose libraries are named if there are several.
    """
    case = result.pieces.case
    library = library_of(case, results)
    for row in _most_pieces(result):
        at = f"{case.describe()}{library} in {row.division.describe()}"
        yield Finding(
            "pieces-beside-whole",
            "note",
            f"{at} takes {ratio_text(row)} times as long as in one call",
            evidence=(Evidence.of("ratio", row.ratio, at, 1),),
            gain=Gain.of(row.ratio, row.ratio_low, row.ratio_high, f"one call for {at}"),
        )


def _most_pieces(result: PieceResult) -> Iterator[PieceRow]:
    """The measured division of each form with the most pieces."""
    for form in (SEPARATE, GROUPED, BUCKETS):
        rows = [one for one in result.rows if one.division.form == form and one.summary]
        if rows:
            yield max(rows, key=lambda one: one.division.pieces)


def remarks_of(results: Sequence[PieceResult]) -> list[Finding]:
    """Skipped divisions with the reason, and what limits the figures."""
    return limits_of(_remarks(results), _MOST_NAMED)


def _remarks(results: Sequence[PieceResult]) -> Iterator[Remark]:
    for result in results:
        case = result.pieces.case
        library = library_of(case, results)
        size = f"{format_size(case.size_bytes)} {case.placement}{library}"
        if not result.rows or result.status == "skipped":
            yield f"{result.status}: {result.reason}", f"{case.describe()}{library}", ()
        for row in result.rows:
            name = f"{size} in {row.division.describe()}"
            if row.status == "skipped":
                yield f"skipped: {row.reason}", name, ()
            if row.launch_bound:
                yield "launches by the host set the time", name, ()
        if not result.converged:
            text = "--max-time ended the rounds before all medians had the precision of --precision"
            yield text, size, ()


def wrong_findings(results: Sequence[PieceResult]) -> Iterator[Finding]:
    """A finding on each rank with wrong data."""
    for result in results:
        case = result.pieces.case
        message = f"{case.describe()}{library_of(case, results)}"
        for row in result.rows:
            for one in row.verification.findings if row.verification is not None else ():
                at = f"{message} in {row.division.describe()}: rank {one.rank}"
                yield wrong_data(f"wrong data of {at}: {elements_text(one)}", one.wrong, at)


def outcome_of(results: Sequence[PieceResult]) -> str:
    """The numbers of measured, checked and wrong divisions."""
    rows = [row for result in results for row in result.rows]
    measured = [row for row in rows if row.summary is not None]
    checked = sum(row.verification is not None for row in measured)
    wrong = sum(row.status == "wrong" for row in rows)
    return f"{len(measured)} of {len(rows)} divisions measured; {checked} checked, {wrong} wrong"


def _charts(result: PieceResult, keys: set[str]) -> list[Lines]:
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


class _Slowest(NamedTuple):
    """A message, as a row of pages: its slowest division."""

    result: PieceResult
    measured: Sequence[PieceRow]

    @property
    def row(self) -> PieceRow | None:
        return max(self.measured, key=lambda row: row.ratio, default=None)

    @property
    def name(self) -> str:
        division = None if self.row is None else self.row.division
        return "" if division is None else _name(division.pieces, form_text(division))


_OF_PAGE = Fields(
    [
        *(one for one in case_fields("result.pieces.case") if one.key in _CASE_ON_PAGE),
        Field(
            "size",
            "Size of the message.",
            lambda row: format_size(row.result.pieces.size_bytes),
            "text",
        ),
        *status_fields("result.reason", "result.status"),
        Field("divisions", "Divisions that were measured.", lambda row: len(row.measured), "int"),
        Field("slowest", "The slowest division.", "name", "text"),
        Field(
            "ratio",
            "Time of the slowest division over that of the message in one call.",
            "row.ratio",
            direction="lower",
        ),
    ],
    page_row=lambda result: _Slowest(
        result, [row for row in result.rows if row.summary is not None]
    ),
)


def _name(pieces: int, form: str) -> str:
    return form if pieces == 1 else f"{pieces} as {form}"


def _largest_known(results: Sequence[PieceResult]) -> PieceResult | None:
    """The largest message of which pieces were measured."""
    known = [one for one in results if any(_most_pieces(one))]
    return max(known, key=lambda one: one.pieces.size_bytes, default=None)


def _head_figures(results: Sequence[PieceResult]) -> Iterator[HeadFigure]:
    """The largest message in one call, and what most pieces of each form cost."""
    one = _largest_known(results)
    if one is None:
        return
    whole = next((row.summary for row in one.rows if row.division.form == ONE), None)
    size = format_size(one.pieces.size_bytes)
    if whole is not None and one.pieces.case.ranks > 1:
        rate = f"{whole.busbw_bytes_per_s / BYTES_PER_GB:.2f}"
        note = f"bus bandwidth of {one.pieces.case.operation} of {size}"
        yield HeadFigure("one call", rate, "GB/s", note)
    for row in _most_pieces(one):
        if not row.ratio_low <= 1 <= row.ratio_high:
            label = f"in {row.division.describe()}"
            note = "as in one call" if one.converged else "as in one call, precision not reached"
            yield HeadFigure(label, f"{row.ratio:.3f}", "times as long", note)


def _headline(run: NamedRun) -> str:
    """The first ratio of the largest message; empty without figures."""
    results = run.journal.of(PieceResult)
    one = _largest_known(results)
    return "" if one is None else next(beside_whole(one, results)).sentence


def _titled(runs: Sequence[NamedRun]) -> str:
    """The operations."""
    results = [result for run in runs for result in run.journal.of(PieceResult)]
    return f"{', '.join(dict.fromkeys(one.pieces.case.operation for one in results))} in pieces"


REPORT = ReportKind(
    noun="messages in pieces",
    title="messages in pieces",
    has_times=False,
    fields=FIELDS,
    document=document_of_pieces,
    part=lambda result: (result.index, 1),
    measure=_measure,
    counted=lambda journal: f"{amount(len(journal.results), 'message')} in pieces",
    headline=_headline,
    titled=_titled,
    method=method_of_pieces,
    by_session=False,
    of_page=_OF_PAGE,
)
