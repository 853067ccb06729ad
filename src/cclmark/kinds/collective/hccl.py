"""The table format of Ascend's hccl_test."""

from __future__ import annotations

from cclmark.document.placement_rows import PlacementRow, RowCollector
from cclmark.document.remarks import closing, problem_lines, series
from cclmark.document.text import BYTES_PER_GB, US_PER_S
from cclmark.plan.cases import Case
from cclmark.printable import plain
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Footer, Header, Summary

# The spelling ``aveg_time`` is hccl_test's; parsers search for it.
_COLUMNS = "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"


class HcclExporter:
    """A row for each size: out-of-place, or in-place if only that was measured.

    Microseconds, and GB/s of 10^9 bytes. ``check_result`` is ``failed`` if either placement is
    wrong on any rank, and NULL without a check. The head is repeated for each operation, data type,
    reduction and root, because hccl_test runs only one of them. Lines without ``|`` contain the
    placement of the following rows, and the cases without a row.
    """

    def __init__(self) -> None:
        self._rows = RowCollector()
        self._series = ""
        self._sweep: tuple[object, ...] = ()
        self._settings = ""
        self._notices = ""

    def begin(self, header: Header) -> str:
        """Returns an empty text: the head, with the notices, is written with the first row."""
        settings = header.settings
        self._settings = (
            f"the minbytes is {settings.begin_bytes}, maxbytes is {settings.end_bytes}, "
            f"iters is {settings.iterations or 0}, warmup_iters is {settings.warmup or 0}\n"
        )
        self._notices = "".join(_comment(plain(text)) for text in header.notices)
        return ""

    def add(self, result: CaseResult) -> str:
        """Returns the lines that ``result`` completes."""
        return self._headed("".join(self._lines(row) for row in self._rows.add(result)))

    def end(self, footer: Footer | None) -> str:
        """Returns the pending row, and why the run ended early."""
        text = "".join(self._lines(row) for row in self._rows.finish())
        message = closing(footer)
        return self._headed(text + (_comment(message) if message else ""))

    def _headed(self, text: str) -> str:
        notices = self._notices if text else ""
        self._notices = "" if text else self._notices
        return notices + text

    def _lines(self, row: PlacementRow) -> str:
        text = ""
        if row.summary is not None:
            if series(row) != self._series:
                self._series = series(row)
                text += _comment(self._series)
            if _sweep(row.case) != self._sweep:
                self._sweep = _sweep(row.case)
                text += self._settings + _COLUMNS
            text += _line(row.case.size_bytes, row.summary, _check_result(row))
        return text + "".join(_comment(line) for line in problem_lines(row))


def _sweep(case: Case) -> tuple[object, ...]:
    """Returns the common fields of one run of hccl_test, which has no placements."""
    return case.operation, case.dtype, case.reduction, case.root, case.ccl, case.ranks


def _line(size_bytes: int, summary: Summary, check_result: str) -> str:
    time_us = summary.time_s * US_PER_S
    algbw = summary.algbw_bytes_per_s / BYTES_PER_GB
    return f"{size_bytes:<17} | {time_us:<14.2f} | {algbw:<20.5f} | {check_result}\n"


def _check_result(row: PlacementRow) -> str:
    if any(it.status == "wrong" for it in row.results):
        return "failed"
    checked = any(it.verification is not None for it in row.results)
    return "success" if checked else "NULL"


def _comment(text: str) -> str:
    return f"# {text.replace('|', '/')}\n"
