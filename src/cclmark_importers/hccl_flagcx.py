"""Reads two tables that cclmark writes too: of Ascend's hccl_test and of FlagCX's programs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from cclmark_importers.cclmark_output import SERIES, RowSeries, SeriesReader
from cclmark_importers.cleaned_text import Text, TextLine, operation_in, read_count, read_figure
from cclmark_importers.line_reader import (
    RunMarks,
    importer,
)
from cclmark_importers.run import ForeignRun, ImportedRow, how, listed_device

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
class _Failures:
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


def _columns(line: str) -> list[str]:
    """Returns the columns of a table head, in its order; empty for any other line."""
    cells = [_COLUMN.fullmatch(cell.strip()) for cell in line.split("|")]
    names = [_NAMES.get(cell[1], "") for cell in cells if cell is not None]
    whole = len(names) == len(cells) and {"size", "time", "algbw"} <= set(names)
    return names if whole else []


class _HcclReader(SeriesReader):
    def __init__(self, text: Text) -> None:
        figure = "the mean of the tool's iterations"
        super().__init__(text, "hccl_test", figure, "device", "hccl")
        self.run.usual = ("float32", "sum")
        self._columns: list[str] = []
        self._failures = _Failures(self.run)

    def take(self, line: TextLine, words: str) -> None:
        if self.take_series(line, words):
            self._failures.settle()
        elif (setup := _SETUP.search(words)) is not None:
            self._failures.settle()
            self._set_up(line, setup)
        elif self._failures.take(line.number, words):
            pass
        elif head := _columns(words):
            self._columns = head
        elif words.startswith("#"):
            self.take_comment(line, words)
        elif self._columns and "|" in words:
            row = self._row(line, words)
            if row is None:
                self.truncated(line)
            else:
                self.run.rows.append(row)
                self.shown.added()
        elif (operation := operation_in(words)) is not None:
            self._failures.settle()
            self.series = RowSeries(operation=operation)

    def finish(self) -> None:
        self._failures.settle()

    def _row(self, line: TextLine, words: str) -> ImportedRow | None:
        """Returns the row, None if the end of the text truncates it."""
        is_last, columns = line is self.lines[-1], self._columns
        cells = [cell.strip() for cell in words.split("|")]
        if len(cells) != len(columns) or not all(cells):
            if is_last:
                return None
            raise self.refuse(line, f"{len(cells)} columns, but the header has {len(columns)}")
        told = dict(zip(columns, cells, strict=True))
        size, check = read_count(told["size"]), told.get("check", "NULL")
        time, algbw = read_figure(told["time"]), read_figure(told["algbw"])
        if size is None or time is None or algbw is None or check not in _CHECKS:
            if is_last and check not in _CHECKS:
                return None
            raise self.refuse(line, f"cannot read the row {words[:80]!r}")
        return replace(
            self.series.row(line, size, time.times(1e-6), algbw),
            wrong=_CHECKS[check],
            failed=check == "failed",
            rounds_up=self.series.ccl is None,  # cclmark measures the size it prints
        )

    def _set_up(self, line: TextLine, setup: re.Match[str]) -> None:
        """Reads a table's settings. Raises UsageError if they are of another run."""
        begin, end, iterations, warmup = (int(word) for word in setup.groups())
        before = self.run.facts
        now = replace(before, iterations=iterations or None, warmup=warmup or None)
        sizes = [begin, end]
        if self.run.rows:
            if how(now) != how(before):
                raise self.split(
                    line,
                    f"different from the results above: settings {how(before)} there, {how(now)} "
                    "here",
                )
            sizes += [size for size in (before.begin_bytes, before.end_bytes) if size is not None]
        self.run.facts = replace(now, begin_bytes=min(sizes), end_bytes=max(sizes))


def _goes_on(words: str) -> bool | None:
    return True if SERIES.fullmatch(words) else None


HCCL = importer(
    _HcclReader,
    _columns,
    marks=RunMarks(
        begins=[_columns, _SETUP.search],
        results=re.compile(r"\d{1,20}\s*\|").match,
        goes_on=_goes_on,
    ),
)

# FlagCX's lines are separate or, as in documents, joined.
_BEGIN = "Comm size:"
# In tables of documents: | Nvidia A800*2 + Metax C550 * 2 | FlagCX | Comm size: …
_LABEL = re.compile(r"\s*\|\s*([^|]{1,200}?)\s*\|")
_DEVICES = re.compile(r"([^*×]{1,80}?)\s*[*×]\s*(\d{1,4})")
_WORD = r"([^\s;]+)"
_ROW = re.compile(
    rf"Comm size: {_WORD} bytes; Elapsed time: {_WORD} sec; Algo bandwidth: {_WORD} GB/s; "
    rf"Bus bandwidth: {_WORD} GB/s"
)


class _FlagcxReader(SeriesReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, "FlagCX perf", "the mean of the tool's iterations", "host", "flagcx")
        self.run.usual = ("float32", "sum")
        self._begins = 0  # the line of the command before the rows

    def take(self, line: TextLine, words: str) -> None:
        if self.take_series(line, words) or self.take_comment(line, words):
            return
        if _BEGIN in words:
            self._label(words.partition(_BEGIN)[0])
            self._rows(line, words.split(_BEGIN)[1:])
            self.shown.added()
        elif (operation := operation_in(words)) is not None:
            self.series = RowSeries(operation=operation)
            self._begins = line.number

    def _label(self, before: str) -> None:
        """The devices that the first cell of a table names, with their numbers."""
        cell = _LABEL.match(before)
        found = [_DEVICES.fullmatch(one.strip()) for one in cell[1].split("+")] if cell else []
        named = [one for one in found if one is not None]
        if named and len(named) == len(found):
            names = [one[1].strip() for one in named for _ in range(int(one[2]))]
            self.run.devices = [listed_device(rank, name) for rank, name in enumerate(names)]
            self.run.names_devices = True

    def _rows(self, line: TextLine, parts: list[str]) -> None:
        for number, part in enumerate(parts, start=1):
            row = self._row(line, _BEGIN + part)
            if row is not None:
                self.run.rows.append(row)
            elif line is self.lines[-1] and number == len(parts):
                self.truncated(line)
            else:
                raise self.refuse(line, f"cannot read {(_BEGIN + part).strip()[:60]!r}")

    def _row(self, line: TextLine, printed: str) -> ImportedRow | None:
        """Returns the row, None if it is incomplete. Raises UsageError for an invalid number."""
        found = _ROW.match(printed)
        if found is None:
            return None
        size = read_count(found[1])
        time, algbw, busbw = (read_figure(word) for word in found.groups()[1:])
        if size is None or time is None or algbw is None or busbw is None:
            raise self.refuse(line, f"no number in {found[0][:120]!r}")
        row = self.series.row(line, size, time, algbw)
        return replace(row, busbw=busbw.times(1e9), begins=self._begins)


def _is_row(words: str) -> bool:
    return _BEGIN in words


def _sizes(words: str) -> list[int]:
    return [int(size) for size in re.findall(rf"{_BEGIN} (\d{{1,18}}) bytes;", words)]


FLAGCX = importer(
    _FlagcxReader,
    _is_row,
    marks=RunMarks(results=_is_row, goes_on=_goes_on, sizes=_sizes, by_results=True),
)
