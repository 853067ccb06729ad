"""The outputs of FlagCX's perf programs and of Ascend's hccl_test: a line for each size."""

from __future__ import annotations

from collections.abc import Iterable

from cclmark.base.printable import plain
from cclmark.document.exporter import Exporter
from cclmark.document.placement_rows import PlacementRow, RowCollector
from cclmark.document.remarks import closing, problem_lines, series
from cclmark.document.text import BYTES_PER_GB, US_PER_S
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Footer, Header, Summary
from cclmark.work.cases import Case


class FlagcxExporter(Exporter[CaseResult]):
    """A line for each size: out-of-place, or in-place if only that was measured.

    Seconds, and GB/s of 10^9 bytes. FlagCX runs one operation and checks nothing, so its lines do
    not contain an operation, a placement or an error: these are on separate lines that start with
    ``#``.
    """

    def __init__(self) -> None:
        self._rows = RowCollector()
        self._series = ""
        self._notices = ""

    def begin(self, header: Header) -> str:
        """Returns an empty text: the notices are written as comments with the first row."""
        self._notices = "".join(self._comment(plain(text)) for text in header.notices)
        return ""

    def add(self, result: CaseResult) -> str:
        """Returns the lines that ``result`` completes."""
        return self._headed(map(self._lines, self._rows.add(result)))

    def end(self, footer: Footer | None) -> str:
        """Returns the pending row, and why the run ended early."""
        message = closing(footer)
        ending = self._comment(message) if message else ""
        return self._headed([*map(self._lines, self._rows.finish()), ending])

    def _headed(self, texts: Iterable[str]) -> str:
        text = "".join(texts)
        notices = self._notices if text else ""
        self._notices = "" if text else self._notices
        return notices + text

    def _lines(self, row: PlacementRow) -> str:
        text = ""
        if row.summary is not None:
            if series(row) != self._series:
                self._series = series(row)
                text += self._comment(self._series)
            text += self._line(row, row.summary)
        return text + "".join(map(self._comment, problem_lines(row)))

    def _line(self, row: PlacementRow, summary: Summary) -> str:
        return (
            f"Comm size: {row.case.size_bytes} bytes; "
            f"Elapsed time: {summary.time_s:.6f} sec; "
            f"Algo bandwidth: {summary.algbw_bytes_per_s / BYTES_PER_GB:.6f} GB/s; "
            f"Bus bandwidth: {summary.busbw_bytes_per_s / BYTES_PER_GB:.6f} GB/s\n"
        )

    @staticmethod
    def _comment(text: str) -> str:
        return f"# {text}\n"


# The spelling ``aveg_time`` is hccl_test's; parsers search for it.
_COLUMNS = "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"


class HcclExporter(FlagcxExporter):
    """A row for each size in the same way.

    Microseconds, and GB/s of 10^9 bytes. ``check_result`` is ``failed`` if either placement is
    wrong on any rank, and NULL without a check. The head is repeated for each operation, data type,
    reduction and root, because hccl_test runs only one of them. Lines without ``|`` contain the
    placement of the following rows, and the cases without a row.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sweep: tuple[object, ...] = ()
        self._settings = ""

    def begin(self, header: Header) -> str:
        """Returns an empty text: the head, with the notices, is written with the first row."""
        settings = header.settings
        self._settings = (
            f"the minbytes is {settings.begin_bytes}, maxbytes is {settings.end_bytes}, "
            f"iters is {settings.iterations or 0}, warmup_iters is {settings.warmup or 0}\n"
        )
        return super().begin(header)

    def _line(self, row: PlacementRow, summary: Summary) -> str:
        head = ""
        if _sweep(row.case) != self._sweep:
            self._sweep = _sweep(row.case)
            head = self._settings + _COLUMNS
        time_us = summary.time_s * US_PER_S
        algbw = summary.algbw_bytes_per_s / BYTES_PER_GB
        figures = f"{row.case.size_bytes:<17} | {time_us:<14.2f} | {algbw:<20.5f}"
        return f"{head}{figures} | {_check_result(row)}\n"

    @staticmethod
    def _comment(text: str) -> str:
        return f"# {text.replace('|', '/')}\n"


def _sweep(case: Case) -> tuple[object, ...]:
    """Returns the common fields of one run of hccl_test, which has no placements."""
    return case.operation, case.dtype, case.reduction, case.root, case.ccl, case.ranks


def _check_result(row: PlacementRow) -> str:
    if any(it.status == "wrong" for it in row.results):
        return "failed"
    checked = any(it.verification is not None for it in row.results)
    return "success" if checked else "NULL"
