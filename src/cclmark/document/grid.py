"""Matrices and curves as lines of text: named rows and columns, wrapped to a width; drawings."""

from __future__ import annotations

import math
import shutil
import string
from collections.abc import Mapping, Sequence

from cclmark.base.printable import plain
from cclmark.base.standard_error import filled
from cclmark.document.blocks import Table
from cclmark.document.chart_model import Heat, Lines
from cclmark.document.paint import HEAT_STEPS, Paint
from cclmark.document.text import figure
from cclmark.work.sizes import format_size

_LEAST_CELL = 9
_BETWEEN = " " * 4  # maps side by side
_HEIGHT = 14
_AXIS = 11  # characters of the value axis
_LEAST_STEP, _MOST_STEP = 4, 9
_MOST_CURVES = 12  # more would not be distinguishable
MARKS = string.ascii_lowercase + string.ascii_uppercase
_WIDEST = 200  # characters of a line without a terminal


def grid_lines(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    *,
    paint: Paint,
    width: int,
) -> list[str]:
    """The lines of a matrix in parts of at most ``width`` characters. ``cells`` may be painted."""
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
            lines.append(f"{name:>{lead}}{padded}".rstrip())
    return lines


def heat_lines(
    heats: Sequence[Heat], paint: Paint, terminal: int | None, most_devices: int
) -> list[str]:
    """Returns the lines of a group of heat maps: side by side where they fit, else stacked.

    ``terminal``: its width, which sentences keep too; None without one.
    """
    width = terminal or usual_width()
    found: list[str] = []
    if heats and heats[0].group:
        found += ["", paint(f"  {plain(heats[0].group)}", "bold")]
        found += [paint(_sentence(text, terminal), "dim") for text in heats[0].meaning]
    maps = [_map_lines(heat, paint, terminal, most_devices) for heat in heats]
    found += _side_by_side(maps, width)
    hidden = {len(heat.columns) for heat in heats if heat.of_devices}
    for devices in hidden:
        found += hidden_line(devices, most_devices, paint)
    reasons = [text for heat in heats for text in heat.reasons]
    return found + [paint(_sentence(text, terminal), "yellow") for text in reasons]


def _map_lines(heat: Heat, paint: Paint, terminal: int | None, most_devices: int) -> list[str]:
    """The title and the cells, which have the colours of their values."""
    low, high = heat.scale

    def style(row: int, column: int) -> str:
        value = heat.values[row][column]
        if value is None:
            return "red" if (row, column) in heat.wrong else ""
        if high == low or (heat.centred and value == 0):
            return "dim"
        share = (value - low) / (high - low)
        return f"heat{round((share if heat.higher_is_better else 1 - share) * (HEAT_STEPS - 1))}"

    columns = len(heat.columns) if not heat.of_devices else most_devices
    rows = columns if list(heat.rows) == list(heat.columns) else len(heat.rows)
    cells = [
        [
            paint(text, own) if (own := style(row, column)) else text
            for column, text in enumerate(plain(one).rjust(_LEAST_CELL) for one in texts[:columns])
        ]
        for row, texts in enumerate(heat.texts[:rows])
    ]
    rows_shown, columns_shown = map(plain, heat.rows[:rows]), map(plain, heat.columns[:columns])
    lines = [paint(f"  {plain(heat.caption if heat.group else heat.title)}", "bold")]
    if not heat.group:
        meaning = (_sentence(text, terminal) for text in heat.meaning)
        lines = ["", *lines, *(paint(text, "dim") for text in meaning)]
    return lines + grid_lines(
        [*rows_shown], [*columns_shown], cells, paint=paint, width=terminal or usual_width()
    )


def _sentence(text: str, terminal: int | None) -> str:
    line = f"  {plain(text)}"
    return line if terminal is None else filled(line, terminal)


def _side_by_side(blocks: Sequence[list[str]], width: int) -> list[str]:
    lines: list[str] = []
    row: list[str] = []
    for block in blocks:
        taken = max(map(visible_width, row), default=0) + len(_BETWEEN)
        if row and len(row) == len(block) and taken + max(map(visible_width, block)) <= width:
            pads = [" " * (taken - visible_width(line)) for line in row]
            row = [left + pad + right for left, pad, right in zip(row, pads, block, strict=True)]
        else:
            lines += row
            row = block
    return lines + row


def curve_table(chart: Lines, marks: Sequence[str] = ()) -> Table:
    """Returns the figures of curves, a column for each. ``marks``: before their names."""
    values = [dict(zip(one.x, one.y, strict=True)) for one in chart.series]
    places = sorted({x for own in values for x in own})
    rows = [
        [_place(x, chart), *(figure(own[x]) if x in own else "-" for own in values)] for x in places
    ]
    names = [
        f"{marks[number] if marks else ''} {one.name}".strip()
        for number, one in enumerate(chart.series)
    ]
    return Table(chart.title, ("", *names), rows, ">" * (len(names) + 1))


def _place(x: float, chart: Lines) -> str:
    return format_size(round(x)) if chart.x_kind == "bytes" else f"{x:g}"


def curve_lines(chart: Lines, paint: Paint, width: int) -> list[str]:
    """Returns the figures of curves, and the curves as a drawing unless they are too many."""
    is_drawn = len(chart.series) <= _MOST_CURVES
    table = curve_table(chart, MARKS if is_drawn else ())
    names, columns = [row[0] for row in table.rows], [*table.head[1:]]
    cells = [row[1:] for row in table.rows]
    lines = grid_lines(names, columns, cells, paint=paint, width=width)
    if not is_drawn:
        return lines
    labels = {
        x: _short(_place(x, chart)) for x in sorted({x for one in chart.series for x in one.x})
    }
    drawn = curves([dict(zip(one.x, one.y, strict=True)) for one in chart.series], labels, width)
    return [*lines, "", *drawn] if drawn else lines


def _short(size: str) -> str:
    """Shortens a size for the axis of a chart: 8, 128K, 4M."""
    return size.replace(" ", "").replace("iB", "").replace("B", "")


def curves(
    series: Sequence[Mapping[float, float]], names: Mapping[float, str], width: int
) -> list[str]:
    """Returns the lines of a chart.

    Each of ``series`` maps places on the axis to positive values and is drawn with its letter of
    MARKS. Curves that meet share a cell; ``+`` stands for the letters that do not fit into it.
    ``names``: the labels of the axis, in order.

    Places that do not fit into ``width`` characters are left out at even intervals; the last one is
    kept.
    """
    values = [value for one in series for value in one.values() if value > 0]
    if not values or len(names) < 2:
        return []
    places = list(names)
    room = max(2, (width - _AXIS - 1) // _LEAST_STEP)
    stride = math.ceil(len(places) / room)
    places = places[::-stride][::-1]
    step = min(_MOST_STEP, max(_LEAST_STEP, (width - _AXIS - 1) // len(places)))
    low, high = math.log(min(values)), math.log(max(values))
    span = max(high - low, 1e-9)

    def row_of(value: float) -> int:
        return round((math.log(value) - low) / span * (_HEIGHT - 1))

    cells: dict[tuple[int, float], str] = {}
    for mark, one in zip(MARKS, series, strict=False):
        for place, value in one.items():
            if value > 0:
                key = row_of(value), place
                cells[key] = cells.get(key, "") + mark
    lines = []
    for row in reversed(range(_HEIGHT)):
        level = math.exp(low + span * row / (_HEIGHT - 1))
        texts = "".join(f"{_fit(cells.get((row, place), ''), step):>{step}}" for place in places)
        lines.append(f"{_level(level):>{_AXIS - 2}} │{texts}".rstrip())
    lines.append(" " * (_AXIS - 1) + "└" + "─" * (step * len(places)))
    labels = "".join(f"{names[place][: step - 1]:>{step}}" for place in places)
    return [*lines, " " * _AXIS + labels]


def _fit(text: str, step: int) -> str:
    return text if len(text) < step else text[: step - 2] + "+"


def _level(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


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
