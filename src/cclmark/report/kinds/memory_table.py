"""The memory of a case: the stages of each group of equal ranks, the buffers, and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cclmark.analysis.memory_use import alike, on_host, same_buffers, stated_total, taken_in
from cclmark.plan.cases import Case
from cclmark.plan.operations import DTYPE_BYTES
from cclmark.plan.ranges import in_ranges
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.report.formats.markdown import escape, notice_paragraph
from cclmark.report.wording.head import opening_lines
from cclmark.report.wording.memory_words import (
    DEVICE_NOTE,
    PAGES_NOTE,
    memory_sentences,
    ranks_text,
    signed_size,
    span,
)
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.remarks import ending
from cclmark.results.kinds import MemoryResult
from cclmark.results.schema import Footer, Header

_MOST_GROUPS = 8
_MOST_BUFFERS = 64
_STAGES = ["stage", "memory of", "device", "RSS", "shared", "PSS", "library reports"]
_BUFFERS = [
    *("ranks", "buffer", "memory of", "place", "allocated", "used", "elements", "begins with"),
    "address",
]
_TEXT_COLUMNS = {"stage", "memory of", "ranks", "buffer", "place", "begins with", "address"}

TextRows = list[list[str]]


def method_of_run(header: Header) -> str:
    """Describes in a line how the memory was read."""
    check = "outputs checked" if header.settings.check else "outputs not checked"
    return f"free memory and the process's memory before and after each stage, {check}"


@dataclass(frozen=True)
class CaseTable:
    """A table of a case. ``ranks``: those whose stages it contains, empty for the buffers of all.

    ``more``: what is left out, empty for nothing.
    """

    ranks: str
    head: list[str]
    rows: TextRows
    more: str = ""


def cases_of(results: Iterable[MemoryResult]) -> list[list[MemoryResult]]:
    """Returns the results of each case, by rank."""
    cases: dict[Case, list[MemoryResult]] = {}
    for one in results:
        cases.setdefault(one.memory.case, []).append(one)
    return [sorted(some, key=lambda one: one.memory.rank) for some in cases.values()]


def tables_of_case(results: Sequence[MemoryResult], header: Header) -> list[CaseTable]:
    """Returns the stages of each group of equal ranks of a case, then the buffers of all."""
    groups = [group for group in alike(results, header.devices) if group[0].stages]
    tables = []
    for group in groups[:_MOST_GROUPS]:
        ranks = ranks_text(one.memory.rank for one in group)
        tables.append(CaseTable(ranks, *_trimmed(_STAGES, _stage_rows(group, header))))
    if more := sum(len(group) for group in groups[_MOST_GROUPS:]):
        text = f"{more} more ranks, each different: see the journal"
        tables[-1] = replace(tables[-1], more=text)
    if rows := _buffer_rows(results):
        more = len(rows) - _MOST_BUFFERS
        text = f"{more} more buffers: see the journal" if more > 0 else ""
        tables.append(CaseTable("", *_trimmed(_BUFFERS, rows[:_MOST_BUFFERS]), text))
    return tables


class _Cases:
    """Collects the results of a case until every rank has reported."""

    def __init__(self) -> None:
        self._results: list[MemoryResult] = []

    def begin(self, header: Header) -> None:
        self.header = header

    def add(self, result: MemoryResult) -> list[MemoryResult]:
        """Returns the results of a complete case, by rank; none before."""
        self._results.append(result)
        case = result.memory.case
        own = [one for one in self._results if one.memory.case == case]
        if len(own) < case.ranks:
            return []
        self._results = [one for one in self._results if one.memory.case != case]
        return sorted(own, key=lambda one: one.memory.rank)

    def rest(self) -> list[list[MemoryResult]]:
        """Returns the results of cases that some ranks have not reported."""
        return cases_of(self._results)


def _stage_rows(group: Sequence[MemoryResult], header: Header) -> TextRows:
    """Returns the rows of the stages of equal ranks. Host memory is given as a range."""
    host = on_host(group[0], header.devices)
    rows: TextRows = []
    for stages in zip(*(one.stages for one in group), strict=True):
        taken = [taken_in(stage) for stage in stages]
        pss = [one.pss_bytes for one in taken if one.pss_bytes is not None]
        total = stated_total(stages[0])
        rows.append(
            [
                stages[0].name,
                stages[0].owner,
                "" if host else signed_size(taken[0].device_bytes),
                span((one.rss_bytes for one in taken), signed_size),
                span((one.shared_bytes for one in taken), signed_size),
                span(pss, signed_size) if len(pss) == len(taken) else "-",
                "" if total is None else format_size(total),
            ]
        )
    return rows


def _buffer_rows(results: Sequence[MemoryResult]) -> TextRows:
    case = results[0].memory.case
    width = DTYPE_BYTES[case.dtype]
    rows: TextRows = []
    for same in same_buffers(results):
        one = same.buffer
        number = f"{same.number} × " if same.number > 1 else ""
        rows.append(
            [
                in_ranges(sorted(same.ranks)),
                plain(one.purpose) + (" (mapped)" if one.mapped else ""),
                one.owner,
                one.place,
                number + format_size(one.size_bytes),
                format_size(one.used_bytes) if one.used_bytes else "",
                f"{one.used_bytes // width:,} {case.dtype}" if one.used_bytes else "",
                _common(same.first_values),
                _common(same.address) or "-",
            ]
        )
    return rows


def _common(text: str | None) -> str:
    return "differs" if text is None else plain(text)


def _trimmed(head: list[str], rows: TextRows) -> tuple[list[str], TextRows]:
    """Leaves out columns without any content."""
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return [head[place] for place in kept], [[row[place] for place in kept] for row in rows]


def title_of_case(case: Case) -> str:
    """Returns the case with its library and the number of ranks."""
    ranks = "1 rank" if case.ranks == 1 else f"{case.ranks:,} ranks"
    return f"{case.describe()} · {plain(case.ccl)}, {ranks}"


def _skipped(results: Sequence[MemoryResult]) -> list[str]:
    reasons: dict[str, list[int]] = {}
    for one in results:
        if not one.is_measured:
            reasons.setdefault(f"{one.status}: {one.reason}", []).append(one.memory.rank)
    wrong = [one for one in results if one.status == "wrong"]
    lines = [f"{ranks_text(ranks)}: {plain(reason)}" for reason, ranks in reasons.items()]
    return lines + [
        f"rank {one.memory.rank}: {one.verification.wrong} wrong elements in the output"
        for one in wrong
        if one.verification is not None
    ]


def _missing(results: Sequence[MemoryResult]) -> str:
    case = results[0].memory.case
    absent = sorted(set(range(case.ranks)) - {one.memory.rank for one in results})
    return f"{ranks_text(absent)} reported nothing" if absent else ""


class MemoryTable:
    """Prints a case as soon as all ranks have reported."""

    def __init__(self, *, paint: Paint = unpainted) -> None:
        self._paint = paint
        self._cases = _Cases()

    def begin(self, header: Header) -> str:
        """Returns the devices and the method."""
        self._cases.begin(header)
        lines = opening_lines(header, "rank", method_of_run(header), self._paint)
        return "\n".join(lines) + "\n"

    def add(self, result: MemoryResult) -> str:
        """Returns the tables of the case if this is its last rank."""
        complete = self._cases.add(result)
        return self._text(complete) if complete else ""

    def end(self, footer: Footer | None) -> str:
        """Returns cases that are incomplete, notes, and the reason if the run ended early."""
        text = "".join(self._text(results) for results in self._cases.rest())
        accelerators = any(one.runtime != "host" for one in self._cases.header.devices)
        notes = [DEVICE_NOTE] * accelerators + [PAGES_NOTE]
        lines = ["", *(self._paint(f"  {note}", "dim") for note in notes)]
        if footer is not None and footer.message:
            lines.append(self._paint(f"  ended early: {plain(footer.message)}", "red"))
        elif message := ending(footer):
            lines.append(self._paint(f"  {message}", "red"))
        return text + "\n".join(lines) + "\n"

    def _text(self, results: Sequence[MemoryResult]) -> str:
        header = self._cases.header
        lines = ["", self._paint(f"  {title_of_case(results[0].memory.case)}", "bold")]
        for text in (*_skipped(results), _missing(results)):
            lines += [self._paint(f"  {text}", "yellow")] if text else []
        for table in tables_of_case(results, header):
            first = table.ranks or table.head[0]
            lines += ["", *self._table([first, *table.head[1:]], table.rows)]
            lines += [f"  {table.more}"] if table.more else []
        if sentences := memory_sentences(results, header):
            lines += ["", *(f"  {sentence}" for sentence in sentences)]
        return "\n".join(lines) + "\n"

    def _table(self, titles: list[str], rows: TextRows) -> list[str]:
        """Aligns texts to the left and numbers to the right."""
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            aligned = [
                cell.ljust(width) if place == 0 or title in _TEXT_COLUMNS else cell.rjust(width)
                for place, (cell, title, width) in enumerate(
                    zip(cells, titles, widths, strict=True)
                )
            ]
            return "  " + "  ".join(aligned).rstrip()

        return [self._paint(line(titles), "dim"), *map(line, rows)]


class MemoryMarkdown:
    """The same for issues and wikis."""

    def __init__(self) -> None:
        self._cases = _Cases()

    def begin(self, header: Header) -> str:
        """Returns the library and the machine."""
        self._cases.begin(header)
        library = header.libraries[0] if header.libraries else None
        name = f"{library.name} {library.version}, " if library is not None else ""
        devices = header.devices
        device = f", {devices[0].name}" if devices else ""
        text = f"{name}{len(devices)} ranks on {header.machine.hostname}{device}."
        return f"## Memory\n\n{escape(text)}\n{notice_paragraph(header)}"

    def add(self, result: MemoryResult) -> str:
        """Returns the tables of the case if this is its last rank."""
        complete = self._cases.add(result)
        return self._text(complete) if complete else ""

    def end(self, footer: Footer | None) -> str:
        """Returns cases that are incomplete, notes, and the reason if the run ended early."""
        text = "".join(self._text(results) for results in self._cases.rest())
        message = ending(footer)
        lines = ["", DEVICE_NOTE, PAGES_NOTE, *([escape(message)] if message else [])]
        return text + "\n".join(lines) + "\n"

    def _text(self, results: Sequence[MemoryResult]) -> str:
        header = self._cases.header
        lines = ["", f"### {escape(title_of_case(results[0].memory.case))}"]
        if skipped := _skipped(results):
            lines += ["", *(f"- {escape(one)}" for one in skipped)]
        for group in alike(results, header.devices):
            ranks = ranks_text(one.memory.rank for one in group)
            lines += _markdown([ranks, *_STAGES[1:]], _stage_rows(group, header))
        lines += _markdown(_BUFFERS, _buffer_rows(results))
        if sentences := memory_sentences(results, header):
            lines += ["", *(f"- {escape(one)}" for one in sentences)]
        return "\n".join(lines) + "\n"


def _markdown(head: list[str], rows: TextRows) -> list[str]:
    if not rows:
        return []
    titles, rows = _trimmed(head, rows)
    marks = [
        "---" if place == 0 or title in _TEXT_COLUMNS else "---:"
        for place, title in enumerate(titles)
    ]
    lines = ["| " + " | ".join(map(escape, row)) + " |" for row in (titles, *rows)]
    return ["", lines[0], "|" + "|".join(marks) + "|", *lines[1:]]
