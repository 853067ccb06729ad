"""Sentences and cells on messages in pieces, shared by all formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cclmark.plan.cases import Case
from cclmark.plan.operations import DTYPE_BYTES
from cclmark.plan.piece_cases import BUCKETS, GROUPED, ONE, SEPARATE, Division, piece_counts
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.report.wording.text import BYTES_PER_GB, format_time_us, half_width_text
from cclmark.results.kinds import PieceResult
from cclmark.results.schema import Header, PieceRow

#: The titles of the columns of ``cells_of``, with the side and the width of each.
HEAD = ("pieces", "as", "each", "time µs", "±%", "algbw", "busbw", "ratio (95 %)", "wrong")
SIDES = "><>>>>>>>"
WIDTHS = (7, 13, 10, 10, 5, 8, 8, 25, 6)
_FORMS = {ONE: "one call", SEPARATE: "calls", GROUPED: "one group", BUCKETS: "DDP buckets"}
_MOST_NAMED = 6


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


def each_text(case: Case, division: Division) -> str:
    """The size of the largest piece."""
    size_bytes = largest_piece_bytes(case, division)
    return format_size(size_bytes) if size_bytes else "-"


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


def cells_of(case: Case, row: PieceRow) -> list[str]:
    """The cells of a line."""
    lead = [str(row.division.pieces), form_text(row.division), each_text(case, row.division)]
    summary, checked = row.summary, row.verification
    if summary is None:
        return [*lead, row.status, *["-"] * 5]
    return [
        *lead,
        format_time_us(summary.time_s),
        half_width_text(summary.half_width),
        f"{summary.algbw_bytes_per_s / BYTES_PER_GB:.2f}",
        f"{summary.busbw_bytes_per_s / BYTES_PER_GB:.2f}",
        ratio_text(row),
        "-" if checked is None else str(checked.wrong),
    ]


def library_of(case: Case, results: Iterable[PieceResult]) -> str:
    """`` with LIBRARY`` where several libraries are measured, else empty."""
    several = len({one.pieces.case.ccl for one in results}) > 1
    return f" with {case.ccl}" if several else ""


def sentences_of(result: PieceResult, results: Sequence[PieceResult]) -> list[str]:
    """What most pieces cost as calls, as one group, and as DDP's buckets.

    ``results``: all of the run, whose libraries are named if there are several.
    """
    case = result.pieces.case
    library = library_of(case, results)
    lines = []
    for form in (SEPARATE, GROUPED, BUCKETS):
        rows = [one for one in result.rows if one.division.form == form and one.summary]
        if rows:
            row = max(rows, key=lambda one: one.division.pieces)
            lines.append(
                f"{case.describe()}{library} in {row.division.describe()} takes "
                f"{ratio_text(row)} times as long as in one call"
            )
    return lines


def remarks_of(results: Sequence[PieceResult]) -> list[str]:
    """Skipped divisions with the reason, and what limits the figures."""
    found: dict[str, list[str]] = {}
    for result in results:
        case = result.pieces.case
        library = library_of(case, results)
        size = f"{format_size(case.size_bytes)} {case.placement}{library}"
        if result.status == "skipped":
            found.setdefault(f"skipped: {result.reason}", []).append(f"{case.describe()}{library}")
        for row in result.rows:
            name = f"{size} in {row.division.describe()}"
            if row.status == "skipped":
                found.setdefault(f"skipped: {row.reason}", []).append(name)
            if row.launch_bound:
                found.setdefault("launches by the host set the time", []).append(name)
        if not result.converged:
            text = "--max-time ended the rounds before all medians had the precision of --precision"
            found.setdefault(text, []).append(size)
    return [plain(f"{text}: {_named(names)}") for text, names in found.items()]


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def wrong_lines(results: Sequence[PieceResult]) -> list[str]:
    """A line for each rank with wrong data."""
    return [
        plain(
            f"wrong data of {result.pieces.case.describe()}"
            f"{library_of(result.pieces.case, results)} in {row.division.describe()}: rank "
            f"{one.rank}: {one.wrong} wrong elements, the first is {one.first_element}: expected "
            f"{one.expected}, actual {one.actual}"
        )
        for result in results
        for row in result.rows
        for one in (row.verification.findings if row.verification is not None else [])
    ]


def outcome_of(results: Sequence[PieceResult]) -> str:
    """The numbers of measured, checked and wrong divisions."""
    rows = [row for result in results for row in result.rows]
    measured = [row for row in rows if row.summary is not None]
    checked = sum(row.verification is not None for row in measured)
    wrong = sum(row.status == "wrong" for row in rows)
    return f"{len(measured)} of {len(rows)} divisions measured; {checked} checked, {wrong} wrong"
