"""Stages of ranks as bars over time: coordinates for the template of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cclmark.document.text import counted
from cclmark.plan.sizes import format_size
from cclmark.results.schema import TracedStage

LOOKS = 16  # different looks of bars: eight colours, each full and half transparent
_WIDTH = 1000.0
_LEFT = 76.0  # of the names of the rows
_ROW = 22.0
_BAR = 15.0
_AXIS = 24.0
_LEAST_WIDTH = 1.0  # of a bar
_TICKS = 8
_MOST_ROWS = 64


@dataclass(frozen=True)
class Bar:
    """A stage. Coordinates in units of the drawing, downwards. ``says``: its time and bytes."""

    x: float
    y: float
    width: float
    look: int
    says: str


@dataclass(frozen=True)
class Tick:
    """A time on the axis."""

    x: float
    label: str


@dataclass(frozen=True)
class StageBars:
    """A drawing. ``rows``: the names of the rows, with the middle of each. ``legend``: by look."""

    title: str
    says: str
    width: float
    height: float
    bars: Sequence[Bar]
    rows: Sequence[tuple[float, str]]
    ticks: Sequence[Tick]
    legend: Sequence[tuple[int, str]]
    note: str = ""
    bar_height: float = _BAR


def stage_bars(
    title: str,
    what: str,
    stages: Mapping[int, Sequence[TracedStage]],
    names: Mapping[int, str] | None = None,
) -> StageBars:
    """Draws the stages of each rank or device, by its number. ``what``: it in one word.

    ``names``: of the rows, by default ``what`` and the number.
    """
    shown = dict(list(stages.items())[:_MOST_ROWS])
    every = [stage for of_one in shown.values() for stage in of_one]
    end_s = max((stage.begin_s + stage.time_s for stage in every), default=0.0) or 1.0
    looks = {name: number for number, name in enumerate(dict.fromkeys(one.name for one in every))}
    scale = (_WIDTH - _LEFT - 2) / end_s
    bars, rows = [], []
    for place, (number, of_one) in enumerate(shown.items()):
        top = place * _ROW
        row = f"{what} {number}" if names is None else names[number]
        rows.append((top + _BAR / 2, row))
        for stage in of_one:
            size = f", {format_size(stage.size_bytes)}" if stage.size_bytes else ""
            bars.append(
                Bar(
                    _LEFT + stage.begin_s * scale,
                    top,
                    max(_LEAST_WIDTH, stage.time_s * scale),
                    looks[stage.name] % LOOKS,
                    f"{row}: {stage.name}, {stage.time_s * 1e3:.2f} ms{size}",
                )
            )
    step_s = _nice(end_s / _TICKS)
    ticks: list[Tick] = []
    while len(ticks) * step_s <= end_s:
        time_s = len(ticks) * step_s
        ticks.append(Tick(_LEFT + time_s * scale, f"{time_s * 1e3:g} ms"))
    longest = max(every, key=lambda one: one.time_s, default=None)
    says = f"The stages of {counted(len(shown), what)} over time."
    if longest is not None:
        says += f" The longest is {longest.name}, {longest.time_s * 1e3:.2f} ms."
    more = len(stages) - len(shown)
    return StageBars(
        title,
        says,
        _WIDTH,
        len(shown) * _ROW + _AXIS,
        bars,
        rows,
        ticks,
        [(number % LOOKS, name) for name, number in looks.items()],
        f"{more} more are in the table of stages and in the trace" if more > 0 else "",
    )


def _nice(value: float) -> float:
    """The next larger of 1, 2, 5 times a power of ten."""
    power = 1e-9
    while power * 10 < value:
        power *= 10
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)
