"""A matrix as lines of text: rows and columns with names, wrapped to a width."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from cclmark.report.wording.paint import Paint

_LEAST_CELL = 9
_WIDEST = 200  # characters of a line where nobody's terminal sets a limit


def grid_lines(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    paint: Paint,
    width: int,
) -> list[str]:
    """The lines of a matrix, in as many parts below each other as ``width`` characters ask for.

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


def hidden_line(devices: int, most: int, paint: Paint) -> list[str]:
    """What to say below matrices that show at most ``most`` of ``devices``, if anything."""
    if devices <= most:
        return []
    verb = "is" if devices - most == 1 else "are"
    text = (
        f"  {devices - most} of {devices} devices {verb} not shown: see --max-display; the journal "
        "has them all"
    )
    return [paint(text, "dim")]


def usual_width() -> int:
    """Characters of a line, as the environment or the terminal says."""
    return shutil.get_terminal_size((_WIDEST, 24)).columns


def visible_width(text: str) -> int:
    """Characters of ``text`` that take room: what paints it does not."""
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
