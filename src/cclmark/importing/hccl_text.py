"""The table of Ascend's hccl_test."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from cclmark.importing.cleaned_text import Text, TextLine, read_count, read_figure
from cclmark.importing.header import how
from cclmark.importing.ours import Shown, read_ending
from cclmark.importing.run import ForeignRun, ImportedRow, ToolSettings
from cclmark.importing.series import RowSeries, read_series
from cclmark.importing.spelling import operation_in

# The newest version, then older ones. Every rank prints its own, before or after the root's row.
_FAILED = re.compile(
    r"\b(?:local )?rank[_ ]id (\d{1,7}), check result failed(?:, *(\d{1,20})(?=\s*\||\s*$))?"
)


@dataclass(frozen=True)
class _Failure:
    """``before``: the number of rows read before it. ``size_bytes``: None if not printed."""

    line: int
    rank: int
    size_bytes: int | None
    before: int


@dataclass
class Failures:
    """The failures of one table, whose lines may arrive in any order, even before its head."""

    run: ForeignRun
    found: list[_Failure] = field(default_factory=list)
    first: int = 0

    def take(self, number: int, line: str) -> bool:
        """Whether the line reports a failure, which is then recorded."""
        told = _FAILED.search(line)
        if told is None:
            return False
        size_bytes = read_count(told[2]) if told[2] else None
        self.found.append(_Failure(number, int(told[1]), size_bytes, len(self.run.rows)))
        return True

    def settle(self) -> None:
        """Ends the table: marks its rows that a rank has reported as wrong."""
        for failure in self.found:
            places = self._places(failure)
            for place in places:
                self.run.rows[place] = replace(self.run.rows[place], wrong=None, failed=True)
            if not places:
                self.run.failed = True
                of = "" if failure.size_bytes is None else f" of {failure.size_bytes} bytes"
                self.run.notices.append(
                    f"line {failure.line}: the check of rank {failure.rank} failed, but the text "
                    f"has no row{of}"
                )
        self.found = []
        self.first = len(self.run.rows)

    def _places(self, failure: _Failure) -> list[int]:
        """Returns the rows that a failure refers to."""
        rows = range(self.first, len(self.run.rows))
        if failure.size_bytes is not None:
            return [one for one in rows if self.run.rows[one].size_bytes == failure.size_bytes]
        # The root prints its own before its row. The other ranks' order is unknown.
        place = min(failure.before, len(self.run.rows) - 1)
        if place not in rows:
            return []
        self.run.notices.append(
            f"line {failure.line}: the check of rank {failure.rank} failed for an unknown size: "
            f"the nearest row, on line {self.run.rows[place].line}, is marked; any row of this "
            "table may be wrong"
        )
        return [place]


_NAMES = {
    "data_size": "size",
    "aveg_time": "time",
    "avg_time": "time",
    "alg_bandwidth": "algbw",
    "check_result": "check",
}
_COLUMN = re.compile(r"(\w+)(?:\((?:Bytes|us|GB/s)\))?:?")
_SETUP = re.compile(
    r"the minbytes is (\d{1,18}), maxbytes is (\d{1,18}), iters is (\d{1,9}), "
    r"warmup_iters is (\d{1,9})"
)
_CHECKS = {"success": 0, "NULL": None, "failed": None}


def is_hccl(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _columns(line.text)), None)


def read_hccl(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a row that cannot be read."""
    run = ForeignRun(
        "hccl_test",
        "the mean of the tool's iterations",
        "device",
        "hccl",
        usual=("float32", "sum"),
    )
    reader = _Reader(text, run)
    for line in reader.lines:
        reader.take(line)
    reader.failures.settle()
    return run


class _Reader:
    def __init__(self, text: Text, run: ForeignRun) -> None:
        self._text = text
        self._run = run
        self._series = RowSeries()
        self._columns: list[str] = []
        self._shown = Shown(run)
        self.failures = Failures(run)
        self.lines = [line for line in text.lines() if line.text.strip()]

    def take(self, line: TextLine) -> None:
        """Reads the next line."""
        text = line.text
        if (ours := read_series(self._text, line)) is not None:
            self.failures.settle()
            self._series = ours
            self._run.tool, self._run.figure = "cclmark", "the median of cclmark's samples"
            self._run.clock = ""
        elif (setup := _SETUP.search(text)) is not None:
            self.failures.settle()
            self._run.facts = _facts(self._text, line.number, setup, self._run)
        elif self.failures.take(line.number, text):
            pass
        elif head := _columns(text):
            self._columns = head
        elif text.lstrip().startswith("#"):
            self._comment(line)
        elif self._columns and "|" in text:
            self._row(line)
        elif (operation := operation_in(text)) is not None:
            self.failures.settle()
            self._series = RowSeries(operation=operation)

    def _comment(self, line: TextLine) -> None:
        if self._run.tool != "cclmark":
            return
        if not self._shown.take(line.number, line.text):
            read_ending(line.text, self._run)

    def _row(self, line: TextLine) -> None:
        last = line is self.lines[-1]
        row = _row(self._text, line, self._columns, self._series, last=last)
        if row is None:
            self._run.notices.append(f"line {line.number}: truncated, omitted")
            self._run.whole = False
        else:
            self._run.rows.append(row)
            self._shown.added()


def _columns(line: str) -> list[str]:
    """Returns the columns of a table head, in its order; empty for any other line."""
    cells = [_COLUMN.fullmatch(cell.strip()) for cell in line.split("|")]
    names = [_NAMES.get(cell[1], "") for cell in cells if cell is not None]
    whole = len(names) == len(cells) and {"size", "time", "algbw"} <= set(names)
    return names if whole else []


def _row(
    text: Text, line: TextLine, columns: list[str], series: RowSeries, *, last: bool
) -> ImportedRow | None:
    """Returns the row, None if the end of the text truncates it."""
    cells = [cell.strip() for cell in line.text.split("|")]
    if len(cells) != len(columns) or not all(cells):
        if last:
            return None
        raise text.refuse(line.number, f"{len(cells)} columns, but the header has {len(columns)}")
    told = dict(zip(columns, cells, strict=True))
    size, time, algbw = (
        read_count(told["size"]),
        read_figure(told["time"]),
        read_figure(told["algbw"]),
    )
    check = told.get("check", "NULL")
    if size is None or time is None or algbw is None or check not in _CHECKS:
        if last and check not in _CHECKS:
            return None
        raise text.refuse(line.number, f"cannot read the row {line.text.strip()[:80]!r}")
    return ImportedRow(
        line=line.number,
        size_bytes=size,
        in_place=series.in_place,
        operation=series.operation,
        dtype=series.dtype,
        reduction=series.reduction,
        root=series.root,
        time=time.times(1e-6),
        algbw=algbw.times(1e9),
        wrong=_CHECKS[check],
        failed=check == "failed",
        ranks=series.ranks,
        ccl=series.ccl,
        rounds_up=series.ccl is None,  # cclmark measures the size it prints
    )


def _facts(text: Text, number: int, setup: re.Match[str], run: ForeignRun) -> ToolSettings:
    """Returns a table's settings, with earlier tables' sizes. Raises UsageError for another run."""
    begin, end, iterations, warmup = (int(word) for word in setup.groups())
    before = run.facts
    now = replace(before, iterations=iterations or None, warmup=warmup or None)
    if run.rows and how(now) != how(before):
        raise text.refuse(
            number,
            f"different from the results above: settings {how(before)} there, {how(now)} here, so "
            "this is another run. Split the text before this line and import the parts one by one",
        )
    sizes = [begin, end]
    if run.rows:
        sizes += [size for size in (before.begin_bytes, before.end_bytes) if size is not None]
    return replace(now, begin_bytes=min(sizes), end_bytes=max(sizes))
