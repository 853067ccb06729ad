"""Cases as Markdown for issues, wikis and pull requests."""

from __future__ import annotations

from collections import Counter

import msgspec

from cclmark.analysis.findings import OperationFindings, findings
from cclmark.analysis.library_comparison import LibraryComparison, comparisons
from cclmark.document.connection_words import connection_lines
from cclmark.document.explained import explained_lines
from cclmark.document.head import binding_lines, buffer_lines, method_of, origin_of
from cclmark.document.markdown import escape, notice_paragraph
from cclmark.document.placement_rows import PlacementRow, RowCollector
from cclmark.document.reference_notes import ReferenceNotes, latency_text
from cclmark.document.remarks import (
    ending,
    half_peak_text,
    launches_in_words,
    marks_text,
    planned_results,
    problems,
    staged_legend,
    staged_mark,
)
from cclmark.document.side_by_side import cells, heads, size_of, title
from cclmark.document.text import BYTES_PER_GB, US_PER_S, counted
from cclmark.kinds.collective.findings import of_kinks
from cclmark.plan.sizes import format_size
from cclmark.results.item_results import CaseResult
from cclmark.results.journal import Journal
from cclmark.results.schema import Footer, Header, Paths

_PLACEMENT = ("time (us)", "algbw (GB/s)", "busbw (GB/s)", "wrong")
_DEVICE = "device (us)"
_SHARE = "of reference"
_LEAD = ("size", "count", "dtype", "reduction", "root")
_LEAD_WIDTHS = (10, 12, 8, *map(len, _LEAD[3:]))


class CaseMarkdown:
    """A paragraph on the machine, a table for each operation and library, and a line of findings.

    Microseconds, and GB/s of 10^9 bytes. Cells are padded to fixed widths, so that a table is
    readable as text and can still be written row by row.
    """

    def __init__(self, references: ReferenceNotes | None = None, *, shares: bool = False) -> None:
        """``references`` are compared with the peak, and with ``shares`` with every row."""
        self._references = references or ReferenceNotes()
        self._header: Header | None = None
        self._shares = shares
        self._with_device = False
        self._rows = RowCollector()
        self._heading = ""
        self._results: list[CaseResult] = []
        self._paths: list[Paths] = []
        self._planned = 0
        self._numbers_cycles = False

    def begin(self, header: Header) -> str:
        """Returns the heading and the machine."""
        self._header = header
        self._with_device = header.settings.timing == "auto"
        self._planned = planned_results(header)
        self._numbers_cycles = header.settings.cycles != 1
        title = f"# cclmark {escape(header.cclmark_version)}"
        return f"{title}\n\n{_machine(header)}\n{notice_paragraph(header)}"

    def add(self, result: CaseResult) -> str:
        """Returns the table rows that ``result`` completes."""
        return "".join(self._row(row) for row in self._rows.add(result))

    def connect(self, paths: Paths) -> None:
        """Keeps the paths of a library for the end."""
        self._paths.append(paths)

    def end(self, footer: Footer | None) -> str:
        """Returns the pending row and the findings."""
        text = "".join(self._row(row) for row in self._rows.finish())
        text += "".join(_beside(comparison) for comparison in comparisons(self._results))
        legend = [*staged_legend(self._results), *self._references.legend()]
        text += "".join(f"\n- {escape(line)}" for line in legend)
        ran = explained_lines(self._results)
        if self._header is not None:
            ran += connection_lines(self._header, self._paths)
        if ran:
            text += "\n" + "".join(f"    {line}\n" for line in ran)
        lines = [_outcomes(self._results, self._planned)]
        lines += map(self._best, findings(self._results))
        if self._header is not None:
            found = of_kinks(Journal(self._header, [*self._results]), self._references)
            lines += [escape(one.text) for one in found]
        message = escape(ending(footer))
        return f"{text}\n{' '.join(lines)}{f' **{message}**' if message else ''}\n"

    def _row(self, row: PlacementRow) -> str:
        text, case = "", row.case
        heading = escape(f"{case.operation} ({case.ccl}, {counted(case.ranks, 'rank')})")
        if heading != self._heading:
            self._heading = heading
            text = f"\n## {heading}\n\n{self._head()}"
        self._results += [msgspec.structs.replace(result, samples=None) for result in row.results]
        return text + self._line(str(row.results[0].cycle), [*self._cells(row), _remarks(row)])

    def _cells(self, row: PlacementRow) -> list[str]:
        return [*_lead(row), *self._figures(row.out_of_place), *self._figures(row.in_place)]

    def _figures(self, result: CaseResult | None) -> list[str]:
        cells = _figures(result)
        if self._with_device:
            cells.insert(1, _device_time(result))
        if not self._shares:
            return cells
        if result is None or self._header is None:
            return [*cells, "-"]
        return [*cells, self._references.cell(self._references.match(result, self._header))]

    def _best(self, entry: OperationFindings) -> str:
        """Returns the peak, the latency, and whether both are as expected."""
        text = _best(entry)
        if launches := launches_in_words(entry):
            text += f" {escape(launches[0].upper() + launches[1:])}."
        if not text or self._header is None:
            return text
        lines = self._references.verdict_lines(entry.peak, self._header)
        if (verdict := self._references.latency(entry.latency, self._header)) is not None:
            lines.append(latency_text(verdict, entry.latency.case.size_bytes))
        return " ".join([text, *(f"{escape(line[0].upper() + line[1:])}." for line in lines)])

    @property
    def _heads(self) -> list[str]:
        time, *others = _PLACEMENT
        names = [time, *([_DEVICE] if self._with_device else []), *others]
        names += [_SHARE] if self._shares else []
        return [*_LEAD, *names, *(f"in-place {name}" for name in names)]

    @property
    def _widths(self) -> list[int]:
        return [*_LEAD_WIDTHS, *(len(head) for head in self._heads[len(_LEAD) :])]

    def _head(self) -> str:
        rule = [f"{'-' * (width - 1)}:" for width in self._widths]
        return self._line("cycle", [*self._heads, "remarks"]) + self._line(
            "----:", [*rule, "-------"]
        )

    def _line(self, cycle: str, cells: list[str]) -> str:
        """Returns a line of the table, with the cycle in front if there are several."""
        *columns, remarks = cells
        padded = [cell.rjust(width) for cell, width in zip(columns, self._widths, strict=True)]
        if self._numbers_cycles:
            padded.insert(0, cycle.rjust(len("cycle")))
        return f"| {' | '.join([*padded, remarks])} |\n"


def _machine(header: Header) -> str:
    machine = header.machine
    devices = Counter((device.name, device.runtime, device.host) for device in header.devices)
    words = [
        f"{count} x {name}{runtime and f' ({runtime})'}{host and f' on {host}'}"
        for (name, runtime, host), count in devices.items()
    ]
    words += [f"{it.name} {it.version}{it.path and f' from {it.path}'}" for it in header.libraries]
    words += [
        f"{machine.processors} x {machine.processor}, {format_size(machine.memory_bytes)}"
        if machine.processors
        else "",
        f"{machine.system}, kernel {machine.kernel}" if machine.kernel else "",
        f"driver {machine.vendor_driver}" if machine.vendor_driver else "",
        *_method(header),
        f"started {header.started_at}",
    ]
    return escape("; ".join(filter(None, words))) + "."


def _method(header: Header) -> list[str]:
    imported = header.imported
    origin = [] if imported is None else [f"imported {origin_of(imported)}"]
    bound = [f"binding {line}" for line in binding_lines(header)]
    return [*origin, method_of(header), *(f"buffers {one}" for one in buffer_lines(header)), *bound]


def _outcomes(results: list[CaseResult], planned: int) -> str:
    counts = Counter(_outcome(result) for result in results)
    parts = [f"{count} {escape(outcome)}" for outcome, count in counts.items()]
    of_planned = f" of {planned}" if len(results) < planned else ""
    return f"{len(results)}{of_planned} cases: {', '.join(parts) or 'none'}."


def _outcome(result: CaseResult) -> str:
    if result.status != "ok":
        return result.status
    return "unchecked" if result.verification is None else "correct"


def _beside(comparison: LibraryComparison) -> str:
    """Returns a table of the times of several libraries, with their ratios to the first."""
    columns = ["size", *heads(comparison)]
    lines = [columns, ["---:"] * len(columns)]
    lines += [[size_of(comparison.case, size), *cells(row)] for size, row in comparison.rows]
    table = "".join("| " + " | ".join(map(escape, line)) + " |\n" for line in lines)
    return f"\n## {escape(title(comparison.case))}: time in us\n\n{table}"


def _best(entry: OperationFindings) -> str:
    peak, latency = entry.peak, entry.latency
    if latency.summary is None or peak.summary is None:
        return ""
    return (
        f"{escape(entry.name)}: up to {peak.summary.busbw_bytes_per_s / BYTES_PER_GB:.2f} GB/s "
        f"of bus bandwidth at {format_size(peak.case.size_bytes)} {peak.case.placement}"
        f"{escape(marks_text(peak))}{half_peak_text(entry)}, "
        f"{latency.summary.time_s * US_PER_S:.2f} us at {format_size(latency.case.size_bytes)}"
        f"{escape(marks_text(latency))}."
    )


def _lead(row: PlacementRow) -> list[str]:
    case = row.case
    return [
        format_size(case.size_bytes),
        str(case.count),
        escape(case.dtype),
        escape(case.reduction or "-"),
        "-" if case.root is None else str(case.root),
    ]


def _figures(result: CaseResult | None) -> list[str]:
    if result is None or result.summary is None:
        return ["-"] * len(_PLACEMENT)
    return [
        f"{result.summary.time_s * US_PER_S:.2f}{escape(staged_mark(result))}",
        f"{result.summary.algbw_bytes_per_s / BYTES_PER_GB:.2f}",
        f"{result.summary.busbw_bytes_per_s / BYTES_PER_GB:.2f}",
        "N/A" if result.verification is None else str(result.verification.wrong),
    ]


def _device_time(result: CaseResult | None) -> str:
    """Returns the device's time, empty if it is the time of the row."""
    if result is None or result.device is None:
        return ""
    return f"{result.device.summary.time_s * US_PER_S:.2f}"


def _remarks(row: PlacementRow) -> str:
    remarks = [
        escape(f"{result.case.placement} {remark}")
        for result in row.results
        for remark in _remarks_on(result)
    ]
    return "; ".join(remarks)


def _remarks_on(result: CaseResult) -> list[str]:
    remarks = problems(result)
    if result.summary is None:
        return remarks
    if result.route not in ("native", ""):
        remarks.append(f"by {result.route}")
    if result.summary.slowest_rank is not None:
        remarks.append(f"slowest: rank {result.summary.slowest_rank}")
    if not result.converged:
        remarks.append("did not settle")
    if result.device is not None and not result.device.converged:
        remarks.append("device time did not settle")
    return remarks
