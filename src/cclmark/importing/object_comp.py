"""Reads all_gather_object_vs_all_reduce.py and …_vs_all_gather.py of Machine Learning Engineering.

Every rank prints the seconds of 1000 calls.
"""

from __future__ import annotations

import re

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_decimal
from cclmark.importing.run import ForeignRun, ImportedRow, RankCount, ToolSettings

_ROW = re.compile(r"(all_gather_object|all_reduce|all_gather) *= *(\d[\d.]{2,40})")
_OBJECT = "all_gather_object"
_CALLS = 1000
_BYTES = 4  # one float32


def is_object_comp(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _ROW.fullmatch(line.text.strip())), None)


def read_object_comp(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for one with different numbers of lines."""
    found: dict[str, list[tuple[PrintedFigure, int]]] = {}
    for line in text.lines():
        row = _ROW.fullmatch(line.text.strip())
        if row is None:
            continue
        figure = read_decimal(row[2])
        if figure is None or figure.value <= 0:
            raise text.refuse(line.number, f"the time {row[2][:40]!r} is not a time")
        found.setdefault(row[1], []).append((figure, line.number))
    run = ForeignRun(
        "all_gather_object_vs_….py",
        "the mean of 1000 calls on the slowest rank, without waiting for the devices",
        "host",
        "torch:nccl",
        facts=ToolSettings(iterations=_CALLS, across_ranks="max"),
    )
    numbers = {name: len(times) for name, times in found.items()}
    if len(set(numbers.values())) > 1:
        last = max(times[-1][1] for times in found.values())
        shown = ", ".join(f"{number} of {name}" for name, number in numbers.items())
        raise text.refuse(last, f"every rank prints all times, but the text has {shown}")
    for name, times in found.items():
        slowest, number = max(times, key=lambda one: one[0].value)
        if name == _OBJECT:
            run.notices.append(
                f"line {number}: all_gather_object is left out: it takes {slowest.value * 1e3:.1f} "
                "µs for a call; cclmark torch objects measures it"
            )
            continue
        run.rows.append(
            ImportedRow(
                line=number,
                size_bytes=_BYTES,
                in_place=name == "all_reduce",
                operation=name,
                dtype="float32",
                reduction="sum" if name == "all_reduce" else None,
                time=slowest.times(1 / _CALLS),
                ranks=RankCount(len(times), number),
                is_part=True,
            )
        )
    return run
