"""The table of Ascend's hccl_test."""

from __future__ import annotations

import re
from dataclasses import replace

from cclmark.results.foreign.run import Facts, ForeignRun, Row
from cclmark.results.foreign.series import Series, read_series
from cclmark.results.foreign.text import Line, Text, read_count, read_figure
from cclmark.results.foreign.words import operation_in

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


def is_hccl(lines: list[Line]) -> int | None:
    """The first line that only such a text has, None where there is none."""
    return next((line.number for line in lines if _columns(line.text)), None)


def read_hccl(text: Text) -> ForeignRun:
    """What the text tells. Raises UsageError for a row that cannot be read."""
    run = ForeignRun(
        "hccl_test",
        "the mean of the tool's iterations",
        "device",
        "hccl",
        usual=("float32", "sum"),
    )
    series, columns = Series(), []
    lines = [line for line in text.lines() if line.text.strip()]
    for line in lines:
        ours = read_series(line.text)
        setup = _SETUP.search(line.text)
        if ours is not None:
            series = ours
            run.tool, run.figure, run.clock = "cclmark", "the median of cclmark's samples", ""
        elif setup is not None:
            run.facts = _facts(setup, run.facts)
        elif head := _columns(line.text):
            columns = head
        elif columns and line.text.count("|") and not line.text.lstrip().startswith("#"):
            row = _row(text, line, columns, series, last=line is lines[-1])
            if row is None:
                run.notices.append(f"line {line.number}: cut off, left out")
                run.whole = False
            else:
                run.rows.append(row)
        elif (operation := operation_in(line.text)) is not None:
            series = Series(operation=operation)
    return run


def _columns(line: str) -> list[str]:
    """The columns that a head names, in its order; empty for a line that is none."""
    cells = [_COLUMN.fullmatch(cell.strip()) for cell in line.split("|")]
    names = [_NAMES.get(cell[1], "") for cell in cells if cell is not None]
    whole = len(names) == len(cells) and {"size", "time", "algbw"} <= set(names)
    return names if whole else []


def _row(text: Text, line: Line, columns: list[str], series: Series, *, last: bool) -> Row | None:
    """The row, None for one that the end of the text cut off."""
    cells = [cell.strip() for cell in line.text.split("|")]
    if len(cells) != len(columns) or not all(cells):
        if last:
            return None
        raise text.refuse(line.number, f"{len(cells)} columns where the head has {len(columns)}")
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
    return Row(
        line=line.number,
        size_bytes=size,
        in_place=False,
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
    )


def _facts(setup: re.Match[str], before: Facts) -> Facts:
    begin, end, iterations, warmup = (int(word) for word in setup.groups())
    return replace(
        before,
        begin_bytes=begin,
        end_bytes=end,
        iterations=iterations or None,
        warmup=warmup or None,
    )
