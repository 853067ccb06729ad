"""The text table: the machine above, a row for each size, and the findings below."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cclmark.analysis.findings import OperationFindings, findings
from cclmark.analysis.links import link_limit
from cclmark.analysis.summary import wanted_clock
from cclmark.document.connection_words import connection_lines
from cclmark.document.explained import explained_lines
from cclmark.document.head import method_of, opening_lines
from cclmark.document.paint import Paint, unpainted
from cclmark.document.placement_rows import PlacementRow, RowCollector
from cclmark.document.reference_notes import ReferenceNotes, latency_text, verdict_of
from cclmark.document.remarks import (
    convergence_text,
    half_peak_text,
    launches_in_words,
    marks_text,
    planned_results,
    staged_legend,
    staged_mark,
    unsettled_text,
)
from cclmark.document.side_by_side import side_by_side
from cclmark.document.text import counted, format_time_us
from cclmark.document.why import why_lines
from cclmark.kinds.collective.findings import of_kinks
from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.results.item_results import CaseResult
from cclmark.results.journal import Journal
from cclmark.results.schema import Explanation, Footer, Header, Paths, Settings, Summary

_LEAD_COLUMNS = {"cycle": 5, "size": 10, "count": 11, "dtype": 8, "op": 4, "root": 4}
_NARROW_COLUMNS = {"size": 9, "dtype": 7}  # the widths of their longest texts
# Left out on a narrow terminal; the journal contains them.
_DISPENSABLE_COLUMNS = ("count", "root", "op", "dtype")
_SHORT_PLACEMENTS = {"out-of-place": "out", "in-place": "in"}
_GAP = "  "
_TIME = "  {:>9}"
_DEVICE = "  {:>6}"  # of cases that take a few microseconds
_PART = "  {:>7}  {:>7}  {:>5}  {:>6}"
_PART_WIDTH = len(_TIME.format("") + _PART.format("", "", "", ""))
_SHARE = "  {:>8}"  # of a reference, if requested
_GBPS = "  {:>8}  {:>8}"  # algorithm and bus bandwidth in Gbit/s, if requested
_SHORT_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
_NO_LIMIT = 200  # characters of a line without a terminal
_NOISY = 0.10  # spread that is printed in a warning colour


class TableExporter:
    """Fixed columns, a line for each size, suited to watching, pipes, comparison and pasting.

    On a narrow terminal, each placement of a size has its own line.
    """

    def __init__(
        self,
        *,
        paint: Paint = unpainted,
        out_of_place: bool = True,
        in_place: bool = True,
        terminal_columns: int | None = None,
        references: ReferenceNotes | None = None,
        shares: bool = False,
        why: bool = False,
        gbps: bool = False,
    ) -> None:
        """``paint`` colours for a terminal of ``terminal_columns``; None: unlimited width.

        ``references`` are compared with the peak, and with ``shares`` with every row. ``why``: the
        library's predictions are shown too. ``gbps``: so are bandwidths in Gbit/s. The other flags
        are the placements that the run measures.
        """
        self._why = why
        self._gbps = gbps
        self._references = references or ReferenceNotes()
        self._shares = shares
        self._with_device = False
        self._paint = paint
        self._terminal_columns = terminal_columns
        self._placements = [
            name
            for name, wanted in (("out-of-place", out_of_place), ("in-place", in_place))
            if wanted
        ]
        self._rows = RowCollector(single=len(self._placements) == 1)
        self._results: list[CaseResult] = []
        self._paths: list[Paths] = []
        self._section: tuple[str, str] | None = None
        self._header: Header | None = None
        self._lead, self._stacked = self._layout(None)

    def begin(self, header: Header) -> str:
        """Returns the machine, the libraries with their paths, and the method."""
        self._header = header
        self._with_device = header.settings.timing == "auto"
        self._lead, self._stacked = self._layout(header.settings)
        lines = opening_lines(header, "rank", method_of(header), self._paint)
        return "\n".join(lines) + "\n"

    def add(self, result: CaseResult) -> str:
        """Returns the rows that the result completes."""
        # Without raw samples: the memory of a run that repeats for hours must stay bounded.
        self._results.append(msgspec.structs.replace(result, samples=None))
        return "".join(self._line(row) for row in self._rows.add(result))

    def explain(self, explanation: Explanation) -> None:
        """Keeps the explanation for the end: the rows are printed already."""
        for result in self._results:
            if result.index == explanation.index:
                result.explanation = explanation

    def connect(self, paths: Paths) -> None:
        """Keeps the paths of a library for the end."""
        self._paths.append(paths)

    def end(self, footer: Footer | None) -> str:
        """Returns the findings: peak, latency, ranks that stand out, wrong data, the end."""
        text = "".join(self._line(row) for row in self._rows.finish())
        lines = side_by_side(self._results, self._paint, self._terminal_columns or _NO_LIMIT)
        lines.append("")
        lines += [self._paint(f"  {line}", "dim") for line in staged_legend(self._results)]
        lines += [self._paint(f"  {line}", "dim") for line in self._references.legend()]
        for found in findings(self._results):
            lines += self._found(found)
        lines += self._kinks()
        lines += explained_lines(self._results)
        if self._header is not None:
            lines += connection_lines(self._header, self._paths, self._paint)
        if self._why:
            lines += [*why_lines(self._results, self._paint), ""]
        lines += self._checked()
        if footer is not None and footer.message:
            ended = f"  ended early: {footer.message.splitlines()[0]}"
            lines.append(self._paint(ended, "red"))
        return text + "\n".join(lines) + "\n"

    def _line(self, row: PlacementRow) -> str:
        case = row.case
        section = (case.operation, case.ccl)
        text = "" if section == self._section else self._section_head(row)
        self._section = section
        return text + self._cells(row) + "\n"

    def _part_width(self, *, gbps: bool) -> int:
        """Returns the width of a placement's figures, with or without Gbit/s."""
        device = len(_DEVICE.format("")) if self._with_device else 0
        return (
            _PART_WIDTH
            + device
            + len(_GBPS.format("", "")) * gbps
            + (len(_SHARE.format("")) if self._shares else 0)
        )

    def _layout(self, settings: Settings | None) -> tuple[dict[str, int], bool]:
        """Returns the columns before the figures, and whether each placement has its own line."""
        columns = _lead_columns(settings)
        most = self._terminal_columns
        width = self._part_width(gbps=self._gbps)
        if most is None or _width(columns) + width * len(self._placements) <= most:
            return columns, False
        stacked = len(self._placements) > 1
        columns |= _NARROW_COLUMNS
        if stacked:
            columns["place"] = max(map(len, _SHORT_PLACEMENTS.values()))
        for name in _DISPENSABLE_COLUMNS:
            if _width(columns) + width > most:
                del columns[name]
        return columns, stacked

    def _section_head(self, row: PlacementRow) -> str:
        title = f"{row.case.operation} · {row.case.ccl}"
        route = row.results[0].route
        if route not in ("native", "") and row.summary is not None:
            title += f" ({route})"
        names = _TIME.format("time µs")
        names += _DEVICE.format("device") if self._with_device else ""
        names += _PART.format("algbw", "busbw", "wrong", "spread")
        gbps = self._shows_gbps(row.case)
        names += _GBPS.format("alg Gbps", "bus Gbps") if gbps else ""
        names += _SHARE.format("of ref") if self._shares else ""
        columns = self._aligned({name: name for name in self._lead} | {"place": ""})
        title = f"\n{self._paint(title, 'bold')}"
        if self._stacked:
            legend = ", ".join(f"{short}: {name}" for name, short in _SHORT_PLACEMENTS.items())
            return f"{title}  {self._paint(legend, 'dim')}\n{self._paint(columns + names, 'dim')}\n"
        width = self._part_width(gbps=gbps)
        heads = "".join(f"{name:─^{width - 2}}".rjust(width) for name in self._placements)
        return (
            f"{title}\n"
            f"{' ' * len(columns)}{self._paint(heads, 'dim')}\n"
            f"{self._paint(columns + names * len(self._placements), 'dim')}\n"
        )

    def _cells(self, row: PlacementRow) -> str:
        lead = _lead(row)
        if all(result.summary is None for result in row.results):
            result = row.results[0]
            reason = self._paint(f"  {result.status}: {plain(result.reason)}", "yellow")
            return self._aligned(lead) + reason
        if self._stacked:
            return self._stack(row, lead) + self._mismatch(row)
        shown = {"out-of-place": row.out_of_place, "in-place": row.in_place}
        if not moves_data(row.case.operation):
            shown = dict.fromkeys(self._placements[:1], row.results[0])
        width = self._part_width(gbps=self._shows_gbps(row.case))
        parts = "".join(self._part(shown.get(name), width) for name in self._placements)
        return (self._aligned(lead) + parts).rstrip() + self._mismatch(row)

    def _stack(self, row: PlacementRow, lead: dict[str, str]) -> str:
        """Returns a line for each placement; the case is described only in the first one."""
        lines = []
        width = self._part_width(gbps=self._shows_gbps(row.case))
        for result in row.results:
            if moves_data(row.case.operation):
                lead["place"] = _SHORT_PLACEMENTS[result.case.placement]
            lines.append(self._aligned(lead) + self._part(result, width))
            lead = dict.fromkeys(lead, "")
        return "\n".join(lines)

    def _aligned(self, cells: Mapping[str, str]) -> str:
        return _GAP.join(f"{cells.get(name, ''):>{width}}" for name, width in self._lead.items())

    def _shows_gbps(self, case: Case) -> bool:
        """Whether the rows of a case have bandwidths in Gbit/s: a barrier has no bandwidth."""
        return self._gbps and moves_data(case.operation)

    def _part(self, result: CaseResult | None, width: int) -> str:
        if result is None:
            return " " * width
        if result.summary is None:
            return self._paint(f"  {result.status:>{width - 2}}", "yellow")
        summary = result.summary
        checked = result.verification
        bad = result.status == "wrong"
        # A failed check of another tool may not report the number of elements.
        wrong = ("some" if bad else "-") if checked is None else _in_five(checked.wrong)
        spread = _percent(summary.cv) if summary.samples > 1 else "-"
        return (
            f"{_TIME.format(format_time_us(summary.time_s))}{staged_mark(result) or ' '}"
            f"{self._device(result)}"
            f" {_bandwidth(summary.algbw_bytes_per_s, result.case):>7}"
            f"  {_bandwidth(summary.busbw_bytes_per_s, result.case):>7}"
            f"  {self._if_bad(f'{wrong:>5}', bad, 'red')}"
            f"  {self._if_bad(f'{spread:>6}', summary.cv > _NOISY, 'yellow')}"
            f"{_in_gbps(summary) if self._shows_gbps(result.case) else ''}"
            f"{self._of_reference(result) if self._shares else ''}"
        )

    def _device(self, result: CaseResult) -> str:
        """Returns the device's time, empty if it is the time of the row."""
        if not self._with_device:
            return ""
        known = result.device
        time = "" if known is None else format_time_us(known.summary.time_s)
        return _DEVICE.format(time)

    def _of_reference(self, result: CaseResult) -> str:
        assert self._header is not None
        match = self._references.match(result, self._header)
        text = _SHARE.format(self._references.cell(match))
        return self._if_bad(text, verdict_of(match) == "low", "yellow")

    def _if_bad(self, text: str, bad: bool, style: str) -> str:
        return self._paint(text, style) if bad else text

    def _mismatch(self, row: PlacementRow) -> str:
        """Returns why placements have no figures, or their first wrong elements, below a row."""
        text = ""
        for result in row.results:
            if result.summary is None:
                reason = f"{result.case.placement} {result.status}: {plain(result.reason)}"
                text += "\n" + self._paint(f"{'':>12}{reason}", "yellow")
            elif result.status == "wrong" and result.verification is None:
                reason = f"wrong: {result.case.placement}: {plain(result.reason)}"
                text += "\n" + self._paint(f"{'':>12}{reason}", "red")
            for found in result.verification.findings if result.verification else []:
                text += "\n" + self._paint(
                    f"{'':>12}wrong: {result.case.placement}, rank {found.rank}: {found.wrong} "
                    f"element{'s' * (found.wrong > 1)}, first at index {found.first_element}: "
                    f"expected {found.expected}, got {found.actual}",
                    "red",
                )
        return text

    def _found(self, found: OperationFindings) -> list[str]:
        latency, peak = found.latency, found.peak
        assert latency.summary is not None
        assert peak.summary is not None
        name = self._paint(found.name, "bold")
        if not moves_data(found.operation):
            time_us = format_time_us(latency.summary.time_s)
            return [f"  {name}: {time_us} µs{convergence_text(latency)}"]
        at_smallest = (
            f"{format_time_us(latency.summary.time_s)} µs at {format_size(latency.case.size_bytes)}"
            f"{marks_text(latency)}"
        )
        if latency.case.ranks == 1:
            return [f"  {name}: {at_smallest}; with one rank nothing passes a bus"]
        lines = [
            f"  {name}: peak bus bandwidth "
            f"{_gigabytes(peak.summary.busbw_bytes_per_s)} GB/s at "
            f"{format_size(peak.case.size_bytes)} {peak.case.placement}{marks_text(peak)}"
            f"{self._share(peak.summary)}{half_peak_text(found)}; "
            f"{at_smallest}"
        ]
        lines += self._verdict(peak, latency)
        if launches := launches_in_words(found):
            lines.append(f"    {launches}")
        if peak.summary.clock == "host" and self._wants_device_times():
            lines.append("    by the host's clock: there are no times of the device")
        return lines + self._ranks_apart(found)

    def _ranks_apart(self, found: OperationFindings) -> list[str]:
        """Names the late rank and the slow rank, if any."""
        lines = []
        if found.late_rank is not None:
            lines.append(f"    rank {found.late_rank} comes late: the others wait for it")
        if found.slowest_rank is not None:
            lines.append(f"    rank {found.slowest_rank} is slower than the others")
        return [self._paint(line, "yellow") for line in lines]

    def _verdict(self, peak: CaseResult, latency: CaseResult) -> list[str]:
        """Whether the peak is normal and the latency plausible, if a reference is comparable."""
        if self._header is None:
            return []
        match = self._references.match(peak, self._header)
        lines = self._references.verdict_lines(peak, self._header)
        lines = [
            self._if_bad(f"    {line}", verdict_of(match) == "low", "yellow") for line in lines
        ]
        verdict = self._references.latency(latency, self._header)
        if verdict is not None:
            text = latency_text(verdict, latency.case.size_bytes)
            lines.append(self._if_bad(f"    {text}", verdict.slow, "yellow"))
        return lines

    def _kinks(self) -> list[str]:
        """Describes sizes that take longer than their neighbours suggest."""
        if self._header is None:
            return []
        found = of_kinks(Journal(self._header, [*self._results]), self._references)
        return [self._if_bad(f"  {one.text}", one.kind == "look", "yellow") for one in found]

    def _wants_device_times(self) -> bool:
        header = self._header
        if header is None or header.imported is not None:
            return False
        return wanted_clock(header.settings) == "device"

    def _share(self, summary: Summary) -> str:
        header = self._header
        limit = link_limit(header.links, header.hosts) if header is not None else None
        if limit is None:
            return ""
        return (
            f" ({summary.busbw_bytes_per_s / limit:.0%} of the {limit / 1e9:.0f} GB/s link limit)"
        )

    def _checked(self) -> list[str]:
        checked = [r for r in self._results if r.verification is not None or r.status == "wrong"]
        wrong = sum(result.status == "wrong" for result in checked)
        skipped = sum(result.status == "skipped" for result in self._results)
        planned = planned_results(self._header)
        if not self._results and not planned:
            return []
        if len(self._results) < planned:
            measured = sum(result.summary is not None for result in self._results)
            text = f"{measured} of {planned} cases measured, {len(checked)} checked"
        elif not checked and self._header is not None and not self._header.settings.check:
            text = f"{counted(len(self._results), 'case')}, not checked{_by_option(self._header)}"
        else:
            text = f"{len(checked)} of {len(self._results)} cases checked"
        if checked:
            text += f", {wrong} wrong"
        if skipped:
            text += f", {skipped} skipped"
        return [f"  {self._if_bad(text, wrong > 0, 'red')}", *self._unsettled()]

    def _unsettled(self) -> list[str]:
        """Describes medians that did not converge."""
        if self._header is None:
            return []
        text = unsettled_text(self._header.settings, self._results)
        return [self._paint(f"  {text}", "yellow")] if text else []


def _by_option(header: Header) -> str:
    """Returns the option that switched the check off, if cclmark measured."""
    return " (-c 0)" if header.imported is None else ""


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
    return _gigabytes(bytes_per_s) if moves_data(case.operation) else "-"


def _in_gbps(summary: Summary) -> str:
    rates = (summary.algbw_bytes_per_s, summary.busbw_bytes_per_s)
    return _GBPS.format(*(f"{rate * 8 / 1e9:.1f}" for rate in rates))


def _lead_columns(settings: Settings | None) -> dict[str, int]:
    """Returns the columns that describe the case, with their widths."""
    columns = dict(_LEAD_COLUMNS)
    if settings is None or settings.cycles == 1:
        del columns["cycle"]
    if settings is not None:
        # The number of elements never exceeds the largest size in bytes.
        columns["count"] = max(columns["count"], len(str(settings.end_bytes)))
    return columns


def _width(columns: Mapping[str, int]) -> int:
    return sum(columns.values()) + len(_GAP) * (len(columns) - 1)


def _lead(row: PlacementRow) -> dict[str, str]:
    case = row.case
    cycle = {"cycle": str(row.results[0].cycle)}
    if not moves_data(case.operation):
        return dict.fromkeys(_LEAD_COLUMNS, "-") | cycle
    return cycle | {
        "size": format_size(case.size_bytes),
        "count": str(case.count),
        "dtype": _SHORT_DTYPES.get(case.dtype, case.dtype),
        "op": (case.reduction or "-"),
        "root": "-" if case.root is None else str(case.root),
    }
