"""A matrix as lines of text: named rows and columns, wrapped to a width."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from cclmark.document.chart_model import Heat
from cclmark.document.paint import HEAT_STEPS, Paint
from cclmark.printable import plain

_LEAST_CELL = 9
_WIDEST = 200  # characters of a line without a terminal


def grid_lines(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    paint: Paint,
    width: int,
) -> list[str]:
    """Returns the lines of a matrix, split into parts below each other to fit ``width`` characters.

    ``cells`` may be painted.
    """
    lead = max([len(name) for name in rows] + [4]) + 2
    cell_width = max(_LEAST_CELL, *(len(name) + 1 for name in columns)) if columns else _LEAST_CELL
    per_part = max(1, (width - lead) // (cell_width + 1))
    lines = []
    for first in range(0, len(columns), per_part):
        part = range(first, min(first + per_part, len(columns)))
        heads = "".join(f" {columns[number]:>{cell_width}}" for number in part)
        lines.append(paint(" " * lead + heads, "dim"))
        for name, row in zip(rows, cells, strict=True):
            padded = "".join(" " + _right(row[number], cell_width) for number in part)
            lines.append(f"{name:>{lead}}" + padded)
    return lines


def heat_lines(heat: Heat, paint: Paint, width: int) -> list[str]:
    """Returns the lines of a heat map, whose cells have the colours of their values."""
    low, high = heat.scale

    def style(row: int, column: int) -> str:
        value = heat.values[row][column]
        if value is None:
            return "red" if (row, column) in heat.wrong else ""
        if high == low or (heat.centred and value == 0):
            return "dim"
        share = (value - low) / (high - low)
        return f"heat{round((share if heat.higher_is_better else 1 - share) * (HEAT_STEPS - 1))}"

    cells = [
        [
            paint(text, own) if (own := style(row, column)) else text
            for column, text in enumerate(plain(one).rjust(_LEAST_CELL) for one in texts)
        ]
        for row, texts in enumerate(heat.texts)
    ]
    names = [plain(name) for name in heat.rows]
    return grid_lines(names, [plain(one) for one in heat.columns], cells, paint=paint, width=width)


def hidden_line(devices: int, most: int, paint: Paint) -> list[str]:
    """Returns the line below matrices limited to ``most`` of ``devices``; none if all are shown."""
    if devices <= most:
        return []
    verb = "is" if devices - most == 1 else "are"
    text = (
        f"  {devices - most} of {devices} devices {verb} not shown: see --max-display; the journal "
        "has them all"
    )
    return [paint(text, "dim")]


def usual_width() -> int:
    """Returns the characters of a line, from the environment or the terminal."""
    return shutil.get_terminal_size((_WIDEST, 24)).columns


def visible_width(text: str) -> int:
    """Counts the visible characters of ``text``, without control sequences of colours."""
    width, inside = 0, False
    for character in text:
        if character == "\x1b":
            inside = True
        elif not inside:
            width += 1
        elif character == "m":
            inside = False
    return width


def _right(text: str, width: int) -> str:
    return " " * (width - visible_width(text)) + text
