"""Reads the lines of FlagCX's perf programs, on separate lines or, as in documents, joined."""

from __future__ import annotations

import re
from dataclasses import replace

from cclmark.importing.cleaned_text import Text, TextLine, read_count, read_figure
from cclmark.importing.ours import Shown, read_ending
from cclmark.importing.run import ForeignRun, ImportedRow
from cclmark.importing.series import RowSeries, read_series
from cclmark.importing.spelling import operation_in

_BEGIN = "Comm size:"
_WORD = r"([^\s;]+)"
_ROW = re.compile(
    rf"Comm size: {_WORD} bytes; Elapsed time: {_WORD} sec; Algo bandwidth: {_WORD} GB/s; "
    rf"Bus bandwidth: {_WORD} GB/s"
)


def is_flagcx(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _BEGIN in line.text), None)


def read_flagcx(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a row that cannot be read."""
    run = ForeignRun(
        "FlagCX perf",
        "the mean of the tool's iterations",
        "host",
        "flagcx",
        usual=("float32", "sum"),
    )
    series, shown = RowSeries(), Shown(run)
    begins = 0  # the line of the command before the rows
    lines = [line for line in text.lines() if line.text.strip()]
    for line in lines:
        ours = read_series(text, line)
        if ours is not None:
            series = ours
            run.tool, run.figure, run.clock = "cclmark", "the median of cclmark's samples", ""
        elif run.tool == "cclmark" and line.text.lstrip().startswith("#"):
            if not shown.take(line.number, line.text):
                read_ending(line.text, run)
        elif _BEGIN not in line.text:
            operation = operation_in(line.text)
            series = series if operation is None else RowSeries(operation=operation)
            begins = line.number if operation is not None else begins
        else:
            rows = _rows(text, line, series, run, last=line is lines[-1])
            run.rows += [replace(row, begins=begins) for row in rows]
            shown.added()
    return run


def _rows(
    text: Text, line: TextLine, series: RowSeries, run: ForeignRun, *, last: bool
) -> list[ImportedRow]:
    rows: list[ImportedRow] = []
    parts = line.text.split(_BEGIN)[1:]
    for number, part in enumerate(parts, start=1):
        row = _row(text, line.number, _BEGIN + part, series)
        if row is not None:
            rows.append(row)
        elif last and number == len(parts):
            run.notices.append(f"line {line.number}: truncated, omitted")
            run.whole = False
        else:
            raise text.refuse(line.number, f"cannot read {(_BEGIN + part).strip()[:60]!r}")
    return rows


def _row(text: Text, number: int, printed: str, series: RowSeries) -> ImportedRow | None:
    """Returns the row, None if it is incomplete. Raises UsageError for an invalid number."""
    found = _ROW.match(printed)
    if found is None:
        return None
    size = read_count(found[1])
    time, algbw, busbw = (read_figure(word) for word in found.groups()[1:])
    if size is None or time is None or algbw is None or busbw is None:
        raise text.refuse(number, f"no number in {found[0][:120]!r}")
    return ImportedRow(
        line=number,
        size_bytes=size,
        in_place=series.in_place,
        operation=series.operation,
        dtype=series.dtype,
        reduction=series.reduction,
        root=series.root,
        time=time,
        algbw=algbw.times(1e9),
        busbw=busbw.times(1e9),
        ranks=series.ranks,
        ccl=series.ccl,
    )
