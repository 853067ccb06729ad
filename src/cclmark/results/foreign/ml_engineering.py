"""The table of all_reduce_bench.py, of the book Machine Learning Engineering."""

from __future__ import annotations

import re
from dataclasses import replace

from cclmark.results.foreign.run import Facts, ForeignRun, Row
from cclmark.results.foreign.text import Figure, Line, Text, read_count, read_figure
from cclmark.results.schema import LibraryDescription

# Translations of the book have another word for the payload.
_HEAD = re.compile(r"\|[^|]+\|\s*busbw\s*\|\s*algbw\s*\|\s*")
_RULE = re.compile(r"[|:\s-]+")
_SIZE = re.compile(r"(\d{1,6})\s*([KMGTPE]?)i?B")
_RATE = re.compile(r"(\S+?)\s*GBps")
_RANKS = re.compile(
    r"bandwidth of all_reduce over (\d{1,7}) ranks \((\d{1,9}) warmups / (\d{1,9}) trials\)"
)
_SOFTWARE = re.compile(r"- software: torch=([^\s,]+).*?nccl=\((\d+), (\d+), (\d+)\)")
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def is_ml_engineering(lines: list[Line]) -> int | None:
    """The first line that only such a text has, None where there is none."""
    return next((line.number for line in lines if _HEAD.fullmatch(line.text.strip())), None)


def read_ml_engineering(text: Text) -> ForeignRun:
    """What the text tells. Raises UsageError for a row that cannot be read."""
    run = ForeignRun(
        "all_reduce_bench.py",
        "size over the mean of the algorithm bandwidths of the tool's iterations, each alone",
        "device",
        "torch:nccl",
        facts=Facts(timing="blocking", across_ranks="mean"),
    )
    within, ranks = False, None
    lines = [line for line in text.lines() if line.text.strip()]
    for line in lines:
        row = line.text.strip()
        if (told := _RANKS.search(row)) is not None:
            ranks = int(told[1])
            run.facts = replace(run.facts, warmup=int(told[2]) or None, iterations=int(told[3]))
        elif (software := _SOFTWARE.search(row)) is not None:
            version = ".".join(software.groups()[1:])
            run.libraries = [
                LibraryDescription("torch", software[1], ""),
                LibraryDescription("nccl", version, ""),
            ]
        elif _HEAD.fullmatch(row):
            within = True
        elif within and row.startswith("|"):
            if _RULE.fullmatch(row) is None:
                _add(run, text, line, ranks, last=line is lines[-1])
        else:
            within = False
    return run


def _add(run: ForeignRun, text: Text, line: Line, ranks: int | None, *, last: bool) -> None:
    cells = [cell.strip() for cell in line.text.strip().strip("|").split("|")]
    size = _SIZE.fullmatch(cells[0])
    rates = [_rate(cell) for cell in cells[1:]]
    if size is None or len(rates) != 2 or None in rates:
        if last:
            run.notices.append(f"line {line.number}: cut off, left out")
            run.whole = False
            return
        raise text.refuse(line.number, f"cannot read the row {line.text.strip()[:80]!r}")
    bytes_ = (read_count(size[1]) or 0) * 1024 ** _UNITS[size[2]]
    run.rows.append(
        Row(
            line=line.number,
            size_bytes=bytes_,
            in_place=True,
            operation="all_reduce",
            dtype="float32",
            reduction="sum",
            algbw=rates[1],
            busbw=rates[0],
            ranks=ranks,
        )
    )


def _rate(cell: str) -> Figure | None:
    found = _RATE.fullmatch(cell)
    figure = None if found is None else read_figure(found[1])
    return None if figure is None else figure.times(1e9)
