"""The output format of FlagCX's perf programs."""

from __future__ import annotations

from cclmark.document.placement_rows import PlacementRow, RowCollector
from cclmark.document.remarks import closing, comment_lines, problem_lines, series
from cclmark.document.text import BYTES_PER_GB
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Footer, Header, Summary


class FlagcxExporter:
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
        self._notices = comment_lines(header.notices)
        return ""

    def add(self, result: CaseResult) -> str:
        """Returns the lines that ``result`` completes."""
        return self._headed("".join(self._lines(row) for row in self._rows.add(result)))

    def end(self, footer: Footer | None) -> str:
        """Returns the pending row, and why the run ended early."""
        text = "".join(self._lines(row) for row in self._rows.finish())
        message = closing(footer)
        return self._headed(text + (f"# {message}\n" if message else ""))

    def _headed(self, text: str) -> str:
        notices = self._notices if text else ""
        self._notices = "" if text else self._notices
        return notices + text

    def _lines(self, row: PlacementRow) -> str:
        text = ""
        if row.summary is not None:
            if series(row) != self._series:
                self._series = series(row)
                text += f"# {self._series}\n"
            text += _line(row.case.size_bytes, row.summary)
        return text + "".join(f"# {line}\n" for line in problem_lines(row))


def _line(size_bytes: int, summary: Summary) -> str:
    return (
        f"Comm size: {size_bytes} bytes; "
        f"Elapsed time: {summary.time_s:.6f} sec; "
        f"Algo bandwidth: {summary.algbw_bytes_per_s / BYTES_PER_GB:.6f} GB/s; "
        f"Bus bandwidth: {summary.busbw_bytes_per_s / BYTES_PER_GB:.6f} GB/s\n"
    )
