"""Reads nccom-test of AWS Neuron: its table, and its JSON (``--report-to-json-file``).

The user guide describes both; the rows of the JSON have the names of the table's columns. In it
bandwidths are not rounded, but times are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cclmark.work.operations import DTYPE_BYTES
from cclmark_importers.cleaned_text import (
    Printed,
    PrintedFigure,
    Text,
    TextLine,
    dtype_of,
    operation_of,
    read_count,
    read_decimal,
    read_figure,
)
from cclmark_importers.line_reader import (
    LineReader,
    RunMarks,
    document_importer,
    importer,
)
from cclmark_importers.run import ForeignRun, ImportedRow, RankCount, ToolSettings

_MEDIAN = "the median of the tool's operations (time(us))"
_MEAN = "the mean of the tool's operations (time:avg(us))"
_GIB = float(1 << 30)
_OPERATIONS = {"allr": "all_reduce", "allg": "all_gather", "redsct": "reduce_scatter"}
_SIZE, _COUNT, _TYPE = "size(B)", "count(elems)", "type"
#: What a time is, and the bytes of a GB: versions that print medians compute with gibibytes.
_TIMES = {"time(us)": (_MEDIAN, _GIB), "time:avg(us)": (_MEAN, 1e9)}
_ALGBW, _BUSBW = "algbw(GB/s)", "busbw(GB/s)"


class _NccomReader(LineReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text, "nccom-test", "", "", "nccom", timing="")

    def time_of(self, columns: Iterable[str]) -> str:
        """Returns the column of times, empty unless there is one."""
        times = [name for name in columns if name in _TIMES]
        return times[0] if len(times) == 1 else ""

    def imported(
        self,
        line: TextLine,
        size_bytes: int,
        count: int,
        dtype: str,
        figures: Iterable[PrintedFigure],
        unit: float,
    ) -> ImportedRow:
        """Returns a row of time, algorithm bandwidth and bus bandwidth, as they are printed.

        Size and number of elements are of the whole operation, for all operations. Raises
        UsageError if they do not fit.
        """
        width = DTYPE_BYTES.get(dtype_of(dtype) or "", 0)
        if width and not 0 <= size_bytes - count * width < width:
            raise self.refuse(
                line,
                f"{_SIZE} {size_bytes} does not fit {_COUNT} {count} of {dtype}, which have "
                f"{count * width} bytes: copy the text again",
            )
        time, algbw, busbw = figures
        return ImportedRow(
            line=line.number,
            size_bytes=size_bytes,
            in_place=False,
            dtype=dtype_of(dtype) or dtype[:20],
            reduction="sum",
            time=time.times(1e-6),
            algbw=algbw.times(unit),
            busbw=busbw.times(unit),
        )


_COMMAND = re.compile(r"(?:^|[\s/])nccom-test\s(?P<words>.{1,1000})")
_WORKERS = re.compile(r"(?:^|\s)(?:-r|--nworkers)[ =](\d{1,7})(?=\s|$)")
_ITERATIONS = re.compile(r"(?:^|\s)(?:-n|--iters)[ =](\d{1,9})(?=\s|$)")
_WARMUP = re.compile(r"(?:^|\s)(?:-w|--warmup_iters)[ =](\d{1,9})(?=\s|$)")
_AVERAGE = re.compile(r"Avg bus bandwidth:\s{0,12}(\d[\d.]{0,30})GB/s")
_ERRORS = re.compile(r"\d{1,9} errors? found - test failed")


def _is_head(words: str) -> bool:
    columns = words.split()
    return columns[:1] == [_SIZE] and {_COUNT, _ALGBW, _BUSBW} <= {*columns}


class _TableReader(_NccomReader):
    def __init__(self, text: Text) -> None:
        super().__init__(text)
        self.run.whole = False
        self._operation: str | None = None
        self._is_left_out = False
        self._ranks: RankCount | None = None
        self._columns: list[str] = []
        self._shown: list[float] = []

    def take(self, line: TextLine, words: str) -> None:
        if (command := _COMMAND.search(words)) is not None:
            self._begin(line, command["words"])
        elif _is_head(words):
            self._head(line, words.split())
        elif (average := _AVERAGE.fullmatch(words)) is not None:
            self._end(line, average[1])
        elif _ERRORS.fullmatch(words) is not None:
            self.fail(words)
        elif words[0].isdigit() and self._columns:
            self._row(line, words)
        elif words[0].isdigit() and self._operation is not None and len(words.split()) > 3:
            raise self.refuse(line, "a row without the line of its columns above")

    def _begin(self, line: TextLine, command: str) -> None:
        """Reads a command, which contains the operation and the number of ranks."""
        run = self.run
        workers = _WORKERS.search(command)
        self._ranks = self.ranks_of(line, None if workers is None else workers[1])
        names = [_OPERATIONS.get(word) or operation_of(word) for word in command.split()]
        self._operation = next((name for name in names if name is not None), None)
        self._is_left_out = "permute" in command.split()
        if self._is_left_out:
            self.note(line, "permute is left out: no operation of cclmark")
        counts = [pattern.search(command) for pattern in (_ITERATIONS, _WARMUP)]
        iterations, warmup = (None if one is None else int(one[1]) for one in counts)
        facts = ToolSettings(timing="", iterations=iterations or None, warmup=warmup)
        if run.rows and facts != run.facts:
            raise self.split(line, "the settings differ from the table above")
        run.facts = facts
        self._columns = []

    def _head(self, line: TextLine, columns: list[str]) -> None:
        if self._columns:
            raise self.refuse(line, "a second table without its command above")
        time = self.time_of(columns)
        if _TYPE not in columns or not time or len({*columns}) < len(columns):
            raise self.refuse(line, "cannot read the columns of this table")
        figure, _ = _TIMES[time]
        if self.run.rows and self.run.figure != figure:
            raise self.split(line, "times of two kinds, medians and means", place="table")
        self.run.figure = figure
        self._columns, self._shown = columns, []

    def _row(self, line: TextLine, words: str) -> None:
        if "Failure" in words.split():
            self.run.failed = True
            self.note(line, f"omitted: {words[:120]}")
            return
        row = None if self._is_left_out else self.row(line, self._columns)
        if row is None:
            return
        time = self.time_of(self._columns)
        figures = [row.figure(name) for name in (time, _ALGBW, _BUSBW)]
        size, count, dtype = row.count(_SIZE), row.count(_COUNT), row.cells[_TYPE]
        found = self.imported(line, size, count, dtype, figures, _TIMES[time][1])
        found = replace(found, operation=self._operation, ranks=self._ranks)
        self.run.rows.append(found)
        self._shown.append(figures[-1].value)

    def _end(self, line: TextLine, average: str) -> None:
        """Ends a table: compares the tool's average with the rows."""
        printed = read_decimal(average)
        if printed is None:
            raise self.refuse(line, f"the average {average[:40]!r} is not a number")
        if self._shown:
            mean = sum(self._shown) / len(self._shown)
            if abs(mean - printed.value) > 0.0051 + printed.error:
                self.note(
                    line,
                    f"does not fit: the average is {printed.value:g}, but the rows above give "
                    f"{mean:.4f}",
                )
        self.run.whole = True
        self._columns, self._shown = [], []


NCCOM = importer(_TableReader, _is_head, marks=RunMarks([_is_head]))

_ROW = re.compile(r'"size\(B\)"\s{0,20}:')
_RESULTS = "results"


def _is_json(text: Text) -> bool:
    content = text.content
    names = (f'"{_RESULTS}"', f'"{_ALGBW}"')
    return (
        content.lstrip().startswith("{")
        and _ROW.search(content) is not None
        and all(name in content for name in names)
    )


class _JsonReader(_NccomReader):
    def read(self) -> ForeignRun:
        """Reads the document."""
        content = self.text.content
        try:
            document = json.loads(content, parse_float=Printed, parse_int=Printed)
        except (ValueError, RecursionError) as error:
            raise self.refuse(
                self.text.line_of_error(error),
                "this JSON is truncated or damaged: copy the file again",
            ) from None
        rows = document.get(_RESULTS) if isinstance(document, dict) else None
        if not isinstance(rows, list):
            raise self.refuse(self.text.first, f'the document has no list "{_RESULTS}"')
        lines = [self.text.line_at(one.start()) for one in _ROW.finditer(content)]
        if len(lines) != len(rows):
            raise self.refuse(
                self.text.first, f"{len(rows)} results, but {len(lines)} of them have {_SIZE}"
            )
        for line, row in zip(lines, rows, strict=True):
            self._add(TextLine(line, ""), row)
        others = sorted(str(key)[:40] for key in document if key != _RESULTS)
        if others:
            self.run.notices.append(f"not read: {', '.join(others[:8])}")
        return self.run

    def _add(self, line: TextLine, row: Any) -> None:
        """Adds a row. The operation and the number of ranks are not in it."""
        if not isinstance(row, dict):
            raise self.refuse(line, "this result is not an object")
        time = self.time_of(row)
        missing = [name for name in (_SIZE, _COUNT, _TYPE, _ALGBW, _BUSBW) if name not in row]
        if missing or not time:
            raise self.refuse(line, f"this result has no {', '.join(missing or _TIMES)}")
        figure, unit = _TIMES[time]
        if self.run.figure not in ("", figure):
            raise self.refuse(line, "times of two kinds, medians and means, are in this document")
        self.run.figure = figure
        figures = [self._figure(line, row, name) for name in (time, _ALGBW, _BUSBW)]
        size, count = (read_count(str(row[name])) for name in (_SIZE, _COUNT))
        if size is None:
            raise self.refuse(line, f"{_SIZE} is {str(row[_SIZE])[:40]}, not a number of bytes")
        if count is None:
            raise self.refuse(
                line, f"{_COUNT} is {str(row[_COUNT])[:40]}, not a number of elements"
            )
        dtype = str(row[_TYPE])[:20]
        self.run.rows.append(self.imported(line, size, count, dtype, figures, unit))

    def _figure(self, line: TextLine, row: dict[str, Any], name: str) -> PrintedFigure:
        value = row[name]
        found = read_figure(value) if isinstance(value, Printed) else None
        if found is None:
            raise self.refuse(line, f"{name} is {str(value)[:40]}, not a figure")
        return found


NCCOM_JSON = document_importer(_JsonReader, _is_json)
