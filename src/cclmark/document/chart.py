"""A text chart: several curves over sizes on one pair of logarithmic axes."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence

_HEIGHT = 14
_AXIS = 11  # characters of the value axis
_LEAST_STEP, _MOST_STEP = 4, 9
MARKS = string.ascii_lowercase + string.ascii_uppercase


def curves(
    series: Sequence[Mapping[int, float]], names: Mapping[int, str], unit: str, width: int
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

    cells: dict[tuple[int, int], str] = {}
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
    lines.append(f"{unit:>{_AXIS}}{labels}")
    return lines


def _fit(text: str, step: int) -> str:
    return text if len(text) < step else text[: step - 2] + "+"


def _level(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
