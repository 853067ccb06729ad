"""A matrix as lines of text: rows and columns with names, wrapped to a width."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.report.paint import Paint

_LEAST_CELL = 9


def grid_lines(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    paint: Paint,
    width: int,
    most: int,
) -> list[str]:
    """The lines of a matrix, in as many parts side by side as ``width`` characters ask for.

    ``cells`` may be painted. Of a matrix of devices at most ``most`` rows and columns are shown,
    and the last line says so.
    """
    lead = max([len(name) for name in rows] + [4]) + 2
    cell_width = max(_LEAST_CELL, *(len(name) + 1 for name in columns)) if columns else _LEAST_CELL
    shown = list(range(min(len(columns), most)))
    most_rows = most if rows == columns else len(rows)
    per_part = max(1, (width - lead) // (cell_width + 1))
    lines = []
    for first in range(0, len(shown), per_part):
        part = shown[first : first + per_part]
        heads = "".join(f" {columns[number]:>{cell_width}}" for number in part)
        lines.append(paint(" " * lead + heads, "dim"))
        for name, row in list(zip(rows, cells, strict=True))[:most_rows]:
            padded = "".join(" " + _right(row[number], cell_width) for number in part)
            lines.append(f"{name:>{lead}}" + padded)
    if len(columns) > most:
        lines.append(
            paint(
                f"  {len(columns) - most} of {len(columns)} devices are not shown: see "
                "--max-display; the journal has them all",
                "dim",
            )
        )
    return lines


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
