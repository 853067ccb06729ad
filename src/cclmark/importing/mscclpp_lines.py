"""Reads the lines of JSON that mscclpp-test writes with ``-o``: one for each measurement."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from cclmark.importing.cleaned_text import PrintedFigure, Text, TextLine, read_figure
from cclmark.importing.run import ForeignRun, ImportedRow, RankCount, ToolSettings
from cclmark.importing.spelling import operation_of

_FIGURE = (
    "the mean over ranks of the mean of operations in launches of a captured graph, by the host's "
    "clock"
)
_KEYS = {"name", "kernel", "ranks", "ranksPerNode", "size", "time", "algBw", "busBw"}
_REDUCING = ("all_reduce", "reduce_scatter")
_OUT_OF_PLACE = ("alltoall", "sendrecv")
_OUT_OF_PLACE_KERNELS = (2, 6, 7)  # of all_reduce; all other operations have one placement
_FIGURES = ("time", "algBw", "busBw")
_COMPUTED = (
    5e-7  # of a share: the tool writes all digits, and computes the bandwidths from the time
)
_MOST_RANKS = 1 << 20
_MOST = 1e12


class _Printed(str):
    """A number as it is written in a line."""


def is_mscclpp(lines: list[TextLine]) -> int | None:
    """Returns the first line that is unique to this format, None if there is none."""
    return next((line.number for line in lines if _is_row(line.text)), None)


def _is_row(words: str) -> bool:
    return words.lstrip().startswith("{") and '"algBw"' in words and '"kernel"' in words


def read_mscclpp(text: Text) -> ForeignRun:
    """Reads a text. Raises UsageError for a line that cannot be read."""
    run = ForeignRun(
        "mscclpp-test",
        _FIGURE,
        "host",
        "mscclpp",
        facts=ToolSettings(timing="graph", across_ranks="mean"),
    )
    lines = [line for line in text.lines() if line.text.strip()]
    for line in lines:
        if not line.text.lstrip().startswith("{"):
            continue
        try:
            found = json.loads(line.text, parse_float=_Printed)
        except (ValueError, RecursionError):
            if line is lines[-1]:
                run.notices.append(f"line {line.number}: truncated, omitted")
                run.whole = False
                continue
            raise text.refuse(line.number, "this line is not complete JSON") from None
        if not isinstance(found, dict) or not found.keys() >= _KEYS:
            missing = ", ".join(sorted(_KEYS - found.keys())) if isinstance(found, dict) else ""
            raise text.refuse(line.number, f"this line does not contain {missing or 'its fields'}")
        _add(text, line, found, run)
    if run.rows:
        run.notices.append(
            "ccl: the kernel of mscclpp-test (-k) follows mscclpp: in the name of the library"
        )
        run.notices.append(
            "the lines do not contain the placement: it is that of the operation and the kernel in "
            "mscclpp-test's sources"
        )
    return run


def _add(text: Text, line: TextLine, found: dict[str, Any], run: ForeignRun) -> None:
    """Adds the row of a line."""
    operation = operation_of(str(found["name"]))
    if operation is None:
        run.notices.append(
            f"line {line.number}: {str(found['name'])[:40]} is left out: no operation of cclmark"
        )
        return
    size = _whole(text, line, found, "size", 1 << 50)
    ranks = _whole(text, line, found, "ranks", _MOST_RANKS)
    kernel = _whole(text, line, found, "kernel", 10_000, least=0)
    time, algbw, busbw = _figures(text, line, found)
    run.rows.append(
        ImportedRow(
            line=line.number,
            size_bytes=size,
            in_place=_is_in_place(operation, kernel),
            operation=operation,
            dtype="int32",
            reduction="sum" if operation in _REDUCING else None,
            time=time.times(1e-6),
            algbw=algbw.times(1e9),
            busbw=busbw.times(1e9),
            ranks=RankCount(ranks, line.number),
            ccl=f"mscclpp:kernel{kernel}",
        )
    )


def _is_in_place(operation: str, kernel: int) -> bool:
    if operation == "all_reduce":
        return kernel not in _OUT_OF_PLACE_KERNELS
    return operation not in _OUT_OF_PLACE


def _whole(
    text: Text, line: TextLine, found: dict[str, Any], key: str, most: int, *, least: int = 1
) -> int:
    value = found[key]
    if type(value) is not int or not least <= value <= most:
        raise text.refuse(
            line.number, f"{key} is {str(value)[:40]}: expected a number from {least} to {most}"
        )
    return value


def _figures(text: Text, line: TextLine, found: dict[str, Any]) -> list[PrintedFigure]:
    """Returns time and bandwidths with their rounding errors.

    The tool writes all digits, but lines of documents are rounded, to a number of decimals or of
    digits. A number does not show it, because zeros at its end are not written: the figure of the
    line with the most does.
    """
    printed = []
    for key in _FIGURES:
        value = found[key]
        figure = read_figure(str(value)) if type(value) in (int, _Printed) else None
        if figure is None or figure.value >= _MOST:
            raise text.refuse(line.number, f"{key} is {str(value)[:40]}, not a figure")
        printed.append(Decimal(str(value).removesuffix(".0")))
    decimals = max(_decimals(one) for one in printed)
    digits = max(_digits(one) for one in printed)
    return [
        PrintedFigure(
            float(one),
            max(
                float(one) * _COMPUTED,
                0.5 * 10.0**-decimals,
                0.5 * 10.0 ** (one.adjusted() - digits + 1) if one else 0.0,
            ),
        )
        for one in printed
    ]


def _digits(number: Decimal) -> int:
    """Returns the written digits, without the zeros that a whole number may have for its size."""
    whole = number == number.to_integral_value()
    return len((number.normalize() if whole else number).as_tuple().digits)


def _decimals(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # of every finite number
    return max(0, -exponent)
