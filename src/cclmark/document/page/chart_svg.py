"""Charts as SVG: curves, boxes and heat maps, without colours, which are the style's.

Each view of a chart is a complete drawing; a page shows the first, and has the others ready.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

from cclmark.document.chart_model import Boxes, BoxSeries, Chart, ChartCurve, Heat, Lines
from cclmark.document.text import three_digits
from cclmark.document.ticks import Scale, byte_ticks, log_ticks, round_ticks
from cclmark.work.sizes import format_size

COLOURS = 8
#: The shapes of markers, each for four colours, which are easy to distinguish: within -5 to 5.
SHAPES = (
    "M4 0a4 4 0 1 1-8 0a4 4 0 1 1 8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-5l5 5l-5 5l-5-5z",
    "M0-4.6l4.8 8.4h-9.6z",
    "M-1.7-4.6h3.4v2.9h2.9v3.4h-2.9v2.9h-3.4v-2.9h-2.9v-3.4h2.9z",
    "M0 4.6l4.8-8.4h-9.6z",
    "M0-4.8l4.6 3.3l-1.8 5.5h-5.6l-1.8-5.5z",
    "M0-5.2l1.5 3.4l3.7.4l-2.8 2.5l.8 3.7l-3.2-1.9l-3.2 1.9l.8-3.7l-2.8-2.5l3.7-.4z",
)
# With the markers, 96 curves are all different.
_FULL = ("", "10 3 2 3", "12 4")
_DASHED = ("6 4", "6 3 2 3 2 3", "3 3")
_FAINT = ("2 3", "8 3 2 3")
_FAINT_COLOURS = 2

_WIDTH, _HEIGHT = 600.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 16.0, 26.0, 46.0
_CHARACTER = 6.6  # the width of one, of labels
_ROW_CHARACTER = 8.4  # in rows of a heat map, whose labels are larger where a chart is narrow
_LINE = 16.0
_HEADROOM = 1.05  # above the highest value, a factor
_ENOUGH = 20.0  # between a name and a curve
_FAR_LEVEL = 4.0  # times the highest value: a level further away is not drawn
_AT_ZERO = 0.025  # of the highest value: lower points of a linear axis cannot be told from 0
_MOST_DECADES = 8
_MOST_LABELS = 10
_MOST_MARKERS = 100  # of a curve: with more points, those between its ends have none
_MANY_TICKS = 7  # that have no room in half of a chart's usual width
_PANEL, _PANEL_TOP = 150.0, 34.0  # the height of one of several panels, and of its title
_MOST_BOXES = 64  # of a series: of more, every second one and so on is drawn
_LONGEST_NAME = 26  # characters of a row of a heat map
_CELL, _LOW_CELL, _LEAST_CELL = 26.0, 20.0, 4.0  # heights
_FEW_ROWS, _SOME_ROWS = 10, 34
_MOST_MAP = 640.0  # the height of a map with very many rows
_STEPS = 16  # of the colours of cells
_ZERO = re.compile(r"(^|[ -])0\.")
_FIGURE = re.compile(r"\d+\.\d+")
_STRONG = 0.75  # from this share of a colour on texts in it are light


@dataclass(frozen=True)
class Look:
    """How a curve is drawn. ``colour``: its number, after COLOURS those of faint curves.

    ``shape``: of its markers, -1 for none. ``is_hollow``: the markers, over larger filled ones, so
    that both are visible where two points coincide.
    """

    colour: int
    dash: str
    shape: int = -1
    is_hollow: bool = False
    turn: int = 0

    @property
    def marker(self) -> str:
        """The id of the marker, empty for none."""
        return "" if self.shape < 0 else f"m{self.colour}-{self.shape}{'o' * self.is_hollow}"


def look_of(one: ChartCurve | BoxSeries) -> Look:
    """Returns the look of a curve or of the boxes of a series."""
    if isinstance(one, ChartCurve) and one.faint:
        return Look(COLOURS + one.colour % _FAINT_COLOURS, _FAINT[one.colour % len(_FAINT)])
    turn = one.colour // COLOURS % len(_FULL)
    dash = (_DASHED if one.dashed else _FULL)[turn]
    shape = one.colour // 4 % len(SHAPES)
    return Look(one.colour % COLOURS, dash, shape, one.dashed, turn)


@dataclass(frozen=True)
class ChartView:
    """A drawing of the chart with the key ``key``. ``name``: of what distinguishes it."""

    name: str
    svg: str
    key: str


def views_of(chart: Chart, twin: Heat | None = None) -> list[ChartView]:
    """Returns the drawings of a chart and of its twin, if it has one; one for most charts."""
    return [ChartView(*own, chart.key) for own in _drawings(chart)] + (
        [ChartView(twin.unit, _heat(twin), twin.key)] if twin is not None else []
    )


def _drawings(chart: Chart) -> list[tuple[str, str]]:
    if isinstance(chart, Lines):
        logarithmic = prefers_logarithm(chart)
        kinds = [logarithmic, not logarithmic] if _can_be_logarithmic(chart) else [False]
        if chart.panels:
            return [("", _panels(chart))]
        return [
            ("Logarithmic axis" if is_log else "Linear axis", _lines(chart, is_log))
            for is_log in kinds
        ]
    if isinstance(chart, Boxes):
        return [("", _boxes(chart))]
    assert isinstance(chart, Heat)
    return [(chart.unit, _heat(chart))]


def _can_be_logarithmic(chart: Lines) -> bool:
    return all(one > 0 for one in _values(chart)) and any(True for _ in _values(chart))


def prefers_logarithm(chart: Lines) -> bool:
    """Whether the axis of values is logarithmic: half of the points would otherwise be at 0."""
    if not _can_be_logarithmic(chart):
        return False
    values = [*_values(chart)]
    low = sum(value < max(values) * _AT_ZERO for value in values)
    return chart.y_log or (chart.zero_based and 2 * low >= len(values))


def _values(chart: Lines) -> Iterator[float]:
    for one in chart.series:
        yield from (y for x, y in zip(one.x, one.y, strict=True) if _is_drawn(x, y))


def _is_drawn(x: float, y: float) -> bool:
    return math.isfinite(x) and math.isfinite(y)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _line(points: Iterable[tuple[float, float]], per_unit: int = 10) -> str:
    """The path through points, each by its distance from the one before, which is short.

    Places on the x axis are whole. ``per_unit``: the precision of heights.
    """
    places = [(round(x), round(y * per_unit)) for x, y in points]
    begin = f"M{places[0][0]} {places[0][1] / per_unit:g}"
    return (
        begin
        + "l" * (len(places) > 1)
        + _joined(
            step
            for (left, upper), (right, lower) in pairwise(places)
            for step in (str(right - left), f"{(lower - upper) / per_unit:g}")
        )
    )


def _joined(numbers: Iterable[str]) -> str:
    """Numbers without what SVG does not need: zeros before a point, spaces before a sign."""
    text = " ".join(numbers)
    return _ZERO.sub(r"\1.", text).replace(" -", "-")


def _label(value: float) -> str:
    return f"{value:.12g}" if abs(value) < 1e6 or abs(value) >= 1e15 else f"{value:.3g}"


def _text(x: float, y: float, text: str, of: str, more: str = "") -> str:
    return f'<text class="{of}" x="{_number(x)}" y="{_number(y)}"{more}>{escape(text)}</text>'


def _svg(parts: Iterable[str], height: float = _HEIGHT, top: float = 0) -> str:
    size = f"{_number(_WIDTH)} {_number(height)}"
    return f'<svg class="chart" viewBox="0 {_number(top)} {size}">{"".join(parts)}</svg>'


# ---- curves


def _lines(chart: Lines, is_log: bool) -> str:
    values = [*_values(chart)]
    if not values:
        return _empty("No values")
    x, x_ticks = _x_axis(chart)
    y, y_ticks = _y_axis(chart, values, is_log)
    # Faint curves are behind the others, hollow markers over filled ones.
    order = sorted(
        range(len(chart.series)),
        key=lambda at: (not chart.series[at].faint, chart.series[at].dashed),
    )
    return _svg(
        [
            *_frame(y, y_ticks, chart.y_title),
            *_x_labels([(x(at), label) for at, label in x_ticks], chart.x_title),
            *_marks(chart, x),
            *_levels(chart, x, y),
            *(_band(chart.series[at], at, x, y) for at in order),
            *(_curve(chart.series[at], at, x, y) for at in order),
        ]
    )


def _panels(chart: Lines) -> str:
    """Axes of values one above the other; the last one ends where that of other charts does."""
    parts = chart.parts
    if not any(True for _ in _values(chart)):
        return _empty("No values")
    x, x_ticks = _x_axis(chart)
    height = _PANEL if len(parts) > 1 else _HEIGHT - _BOTTOM
    begin = _HEIGHT - _BOTTOM - height * len(parts)
    first, end = begin + _PANEL_TOP, _HEIGHT - _BOTTOM
    drawn = [*_spans(chart, x, first, end)]
    drawn += _x_labels([(x(at), label) for at, label in x_ticks], chart.x_title)
    numbers = {id(one): number for number, one in enumerate(chart.series)}
    for place, part in enumerate(parts):
        top = begin + place * height
        y, ticks = _y_axis(part, [*_values(part)], False, top + _PANEL_TOP, top + height)
        drawn += [*_frame(y, ticks, ""), _text(0, top + _PANEL_TOP - 13, part.y_title, "title")]
        drawn += [*_levels(part, x, y)]
        for draw in (_band, _curve):
            drawn += [draw(one, numbers[id(one)], x, y) for one in part.series]
    return _svg([*drawn, *_marks(chart, x, first)], _HEIGHT - begin, begin)


def _spans(chart: Lines, x: Scale, top: float, bottom: float) -> Iterator[str]:
    """Shaded parts of the horizontal axis; short ones are as wide as a line."""
    for begin, end in chart.spans:
        width = max(x(end) - x(begin), 1.0)
        yield (
            f'<rect fill="currentColor" fill-opacity=".14" x="{_number(x(begin))}" '
            f'y="{_number(top)}" width="{_number(width)}" height="{_number(bottom - top)}"/>'
        )


def _empty(text: str) -> str:
    return _svg([_text(_WIDTH / 2, 40, text, "x")], 80)


def _x_axis(chart: Lines) -> tuple[Scale, list[tuple[float, str]]]:
    places = [
        x
        for one in chart.series
        for x, y in zip(one.x, one.y, strict=True)
        if _is_drawn(x, y) and (x > 0 or chart.x_kind == "number")
    ] or [1.0]
    least, most = min(places), max(places)
    begin, end = _LEFT + 10, _WIDTH - _RIGHT - 10
    if chart.x_kind == "bytes":
        room = 1.0 if most > least else 2.0
        scale = Scale(least / room, most * room, begin, end, is_log=True)
        ticks = [(float(tick), format_size(tick)) for tick in byte_ticks(places)]
    elif chart.x_kind == "log":
        powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
        found = (log_ticks(places) or ([10.0**power for power in powers], None))[0]
        scale = Scale(least / 1.1, most * 1.1, begin, end, is_log=True)
        ticks = [(tick, _label(tick)) for tick in found]
    else:
        room = 0.0 if most > least else 1.0
        scale = Scale(least - room, most + room, begin, end)
        found = round_ticks(least, most) if most > least else [float(f"{least:.4g}")]
        ticks = [(tick, _label(tick)) for tick in found]
    return scale, [(at, label) for at, label in ticks if scale.low <= at <= scale.high]


def _y_axis(
    chart: Lines,
    values: Sequence[float],
    is_log: bool,
    top: float = _TOP,
    bottom: float = _HEIGHT - _BOTTOM,
) -> tuple[Scale, list[tuple[float, str]]]:
    ends = [*values]
    for one in chart.series:
        ends += [end for end in (*one.low, *one.high) if end is not None and math.isfinite(end)]
    most = max(ends)
    near = [one.value for one in chart.levels if one.value <= most * _FAR_LEVEL]
    if is_log:
        ends = [end for end in (*ends, *near) if end > 0]
        found = log_ticks(ends)
        if found is None:
            powers = range(math.floor(math.log10(min(ends))), math.ceil(math.log10(max(ends))) + 1)
            step = -(-len(powers) // _MOST_DECADES)
            ticks, limits = [10.0**power for power in powers[::step]], None
        else:
            ticks, limits = found
        low, high = limits or (min(ends) / 1.1, max(ends) * 1.1)
        scale = Scale(low, high, bottom, top, is_log=True)
    else:
        low, high = min([*ends, *near]), max([*ends, *near])
        if chart.zero_based:
            low, high = min(0.0, low), max(0.0, high * _HEADROOM)
        else:
            room = (high - low) * (_HEADROOM - 1)
            low, high = low - room, high + room
        if high <= low:
            low, high = low - 1.0, high + 1.0
        scale = Scale(low, high, bottom, top)
        ticks = round_ticks(low, high)
    return scale, [(at, _label(at)) for at in ticks if scale.low <= at <= scale.high]


def _frame(y: Scale, ticks: Sequence[tuple[float, str]], title: str) -> Iterator[str]:
    """The lines across the chart with the labels at their left, and the title above them."""
    right = _WIDTH - _RIGHT
    lines = "".join(f"M{_number(_LEFT)} {_number(y(at))}H{_number(right)}" for at, _ in ticks)
    yield f'<path class="grid" d="{lines}"/>'
    yield f'<g class="y" transform="translate({_number(_LEFT - 6)} 4)">'
    yield from (f'<text y="{_number(y(at))}">{escape(label)}</text>' for at, label in ticks)
    yield "</g>"
    yield _text(0, 13, title, "title")


def _x_labels(ticks: Sequence[tuple[float, str]], title: str) -> Iterator[str]:
    """Every second one is left out where the chart is narrow, so that they do not overlap."""
    bottom = _HEIGHT - _BOTTOM
    lines = "".join(f"M{_number(at)} {_number(bottom)}v5" for at, _ in ticks)
    yield f'<path class="axis" d="M{_number(_LEFT)} {_number(bottom)}H{_number(_WIDTH - _RIGHT)}'
    yield f'{lines}"/>'
    of = "x labels many" if len(ticks) > _MANY_TICKS else "x labels"
    yield f'<g class="{of}" transform="translate(0 {_number(bottom + 20)})">'
    yield from (f'<text x="{_number(at)}">{escape(label)}</text>' for at, label in ticks)
    yield "</g>"
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, title, "x title")


def _levels(chart: Lines, x: Scale, y: Scale) -> Iterator[str]:
    """Lines across the chart, named at the end where curves are further away.

    Names of levels that are close are at different ends.
    """
    before = math.inf
    is_left = True
    for level in sorted(chart.levels, key=lambda one: one.value):
        if not y.low <= level.value <= y.high:
            continue
        at = y(level.value)
        name_at = at - 4 if at > _TOP + _LINE else at + 13
        if abs(before - at) < _LINE:
            is_left = not is_left
        else:
            is_left = _room(chart, x, y, name_at, left=True) >= _room(
                chart, x, y, name_at, left=False
            )
        before = at
        yield f'<path class="level" d="M{_number(_LEFT)} {_number(at)}H{_WIDTH - _RIGHT:.0f}"/>'
        place = _LEFT + 4 if is_left else _WIDTH - _RIGHT - 2
        yield _text(place, name_at, level.name, "level" if is_left else "level end")


def _room(chart: Lines, x: Scale, y: Scale, at: float, *, left: bool) -> float:
    """The distance from a height to the nearest point in the left or right third; enough is 20."""
    third = (_WIDTH - _LEFT) / 3
    near = [
        abs(y(value) - at)
        for one in chart.series
        for place, value in zip(one.x, one.y, strict=True)
        if _is_drawn(place, value)
        and (x(place) < _LEFT + third if left else x(place) > _WIDTH - third)
    ]
    return min([*near, _ENOUGH])


def _marks(chart: Lines, x: Scale, top: float = _TOP) -> Iterator[str]:
    """Vertical lines, their names one below the other on the side with more room."""
    bottom = _HEIGHT - _BOTTOM
    for number, mark in enumerate(chart.marks):
        at = x(mark.x)
        is_left = at < _WIDTH / 2
        yield f'<path class="mark" d="M{_number(at)} {_number(top)}V{_number(bottom)}"/>'
        height = top + 10 + number * (_LINE + 3)
        yield _text(at + (3 if is_left else -3), height, mark.name, "mark" + " end" * (not is_left))


def _runs(one: ChartCurve, known: Sequence[bool]) -> Iterator[range]:
    """Yields the places of points that follow each other, all of them ``known``."""
    begin = 0
    for at, is_known in enumerate([*known, False]):
        if not is_known:
            if at > begin:
                yield range(begin, at)
            begin = at + 1


def _curve(one: ChartCurve, number: int, x: Scale, y: Scale) -> str:
    look = look_of(one)
    known = [_is_drawn(*point) for point in zip(one.x, one.y, strict=True)]
    marker, is_dense = look.marker, len(one.x) > _MOST_MARKERS
    parts = []
    for places in _runs(one, known):
        line = _line((x(one.x[at]), y(one.y[at])) for at in places)
        if not is_dense:
            # With no step at its ends, all points are in the middle and have that marker.
            place, *steps = line.partition("l")
            line = f"{place}h0{''.join(steps)}h0"
        parts.append(line)
    dash = f' stroke-dasharray="{look.dash}"' if look.dash else ""
    marked = "".join(
        f' marker-{place}="url(#{marker})"'
        for place in (("start", "end") if is_dense else ("mid",))
        if marker
    )
    return (
        f'<path class="curve c{look.colour}" data-series="{number}" d="{"".join(parts)}"'
        f"{dash}{marked}/>"
    )


def _band(one: ChartCurve, number: int, x: Scale, y: Scale) -> str:
    """The area between the ends; a bar at a point whose neighbours have none."""
    if not (one.low and one.high):
        return ""
    low = [math.nan if end is None else end for end in one.low]
    high = [math.nan if end is None else end for end in one.high]
    known = [
        math.isfinite(place) and _is_drawn(*ends)
        for place, *ends in zip(one.x, low, high, strict=True)
    ]
    areas, bars = [], []
    for places in _runs(one, known):
        upper = [(x(one.x[at]), y(high[at])) for at in places]
        lower = [(x(one.x[at]), y(low[at])) for at in reversed(places)]
        line = _line([*upper, *lower], per_unit=1)
        if len(places) > 1:
            areas.append(f"{line}z")
        else:
            bars.append(line)
    colour = look_of(one).colour
    found = ""
    for of, parts in (("band", areas), ("bar", bars)):
        if parts:
            found += f'<path class="{of} c{colour}" data-series="{number}" d="{"".join(parts)}"/>'
    return found


# ---- boxes


def _boxes(chart: Boxes) -> str:
    known = [box for one in chart.series for box in one.boxes if box is not None]
    if not known:
        return _empty("No samples")
    low, high = chart.limits or (min(box[0] for box in known), max(box[4] for box in known))
    room = max(0.5, (high - low) * (_HEADROOM - 1)) if chart.limits is None else 0.0
    y = Scale(low - room, high + room, _HEIGHT - _BOTTOM, _TOP)
    width = (_WIDTH - _LEFT - _RIGHT) / len(chart.columns)
    places = [_LEFT + (at + 0.5) * width for at in range(len(chart.columns))]
    ticks = [(at, f"{_label(at)} %") for at in round_ticks(y.low, y.high)]
    step = -(-len(chart.columns) // _MOST_BOXES)
    each = width * step * 0.8 / len(chart.series)
    first = width * step * 0.4
    return _svg(
        [
            *_frame(y, ticks, chart.y_title),
            *_x_labels(_some(places, chart.columns), chart.x_title),
            f'<g data-columns="{_LEFT:g} {width:.3f} {width / 2 - first:.3f} {each:.3f}">',
            *(
                _boxes_of(
                    replace(one, boxes=one.boxes[::step]),
                    number,
                    y,
                    each,
                    [at - first + number * each for at in places[::step]],
                )
                for number, one in enumerate(chart.series)
            ),
            "</g>",
        ]
    )


def _some(places: Sequence[float], names: Sequence[str]) -> list[tuple[float, str]]:
    """Returns as many labels as have room below an axis, at even intervals."""
    room = (max(map(len, names)) + 2) * _CHARACTER
    between = (places[-1] - places[0]) / max(1, len(places) - 1) or _WIDTH
    step = max(1, math.ceil(room / between), -(-len(places) // _MOST_LABELS))
    return list(zip(places, names, strict=True))[::step]


def _boxes_of(one: BoxSeries, number: int, y: Scale, each: float, lefts: Sequence[float]) -> str:
    look = look_of(one)
    whiskers, boxes, medians = [], [], []
    width = round(max(1.0, each * 0.85))
    for left, box in zip(map(round, lefts), one.boxes, strict=True):
        if box is not None:
            low, first, middle, third, high = (round(y(value)) for value in box)
            whiskers.append(
                f"M{left + width // 2} {low}v{first - low}m0 {third - first}v{high - third}"
            )
            boxes.append(f"M{left} {first}h{width}v{third - first}h-{width}z")
            medians.append(f"M{left} {middle}h{width}")
    filled = "hollow" if look.is_hollow else f"turn{look.turn}"
    lines = "".join(whiskers + medians).replace(" -", "-")
    return (
        f'<path class="box c{look.colour} {filled}" data-series="{number}" d="{"".join(boxes)}"/>'
        f'<path class="whisker c{look.colour}" data-series="{number}" d="{lines}"/>'
    )


# ---- heat maps


def _heat(chart: Heat) -> str:
    rows, columns = len(chart.rows), len(chart.columns)
    if not rows or not columns:
        return _empty("No values")
    names = [_shortened(name) for name in chart.rows]
    left = max(24.0, max(map(len, names)) * _ROW_CHARACTER + 10)
    width = (_WIDTH - left - 2) / columns
    cell = _CELL if rows <= _FEW_ROWS else _LOW_CELL
    if rows > _SOME_ROWS:
        cell = max(_LEAST_CELL, min(_LOW_CELL, _MOST_MAP / rows))
    top = 36.0 if chart.column_title else 20.0
    places = [left + (at + 0.5) * width for at in range(columns)]
    bottom = top + rows * cell
    step = max(1, math.ceil(12 / cell))
    return _svg(
        [
            _text((left + _WIDTH) / 2, 12, chart.column_title, "x title"),
            *(_text(at, top - 7, name, "x") for at, name in _some(places, chart.columns)),
            *(
                _text(left - 6, top + (at + 0.5) * cell + 4, names[at], "y row")
                for at in range(0, rows, step)
            ),
            *_cells(chart, left, top, width, cell),
            *_cell_texts(chart, places, top, width, cell),
            *_colour_key(chart, left, bottom + 12),
        ],
        bottom + 34,
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _shares(chart: Heat) -> list[list[float | None]]:
    """Returns the place of each value in the scale of colours, from 0 to 1, centred from -1."""
    low, high = chart.scale
    if chart.centred:
        low = 0.0
    span = high - low

    def share(value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return None
        return (value - low) / span if span > 0 else 0.0 if chart.centred else 1.0

    return [[share(value) for value in row] for row in chart.values]


def _cells(chart: Heat, left: float, top: float, width: float, cell: float) -> Iterator[str]:
    """A path for each colour, with all cells that have it, in units of cells."""
    colours = (
        ("less", "more") if chart.centred else ("best" if chart.higher_is_better else "worst",) * 2
    )
    found: dict[tuple[str, int], list[str]] = {}
    for row, shares in enumerate(_shares(chart)):
        for column, share in enumerate(shares):
            step = -1 if share is None else round(abs(share) * _STEPS)
            key = ("none" if share is None else colours[share >= 0]), step
            found.setdefault(key, []).append(f"M{column} {row}h1v1h-1z")
    grid = f"{_number(left)} {_number(top)} {width:.3f} {cell:.3f}"
    place = f"translate({_number(left)} {_number(top)}) scale({width:.3f} {cell:.3f})"
    gap = " gaps" if min(width, cell) > 8 else ""
    yield f'<g class="cells{gap}" data-grid="{grid}" transform="{place}">'
    yield f'<rect class="cell" width="{len(chart.columns)}" height="{len(chart.rows)}"/>'
    for (colour, step), areas in sorted(found.items()):
        opacity = f' fill-opacity="{step / _STEPS:g}"' if step >= 0 else ""
        yield f'<path class="{colour}"{opacity} d="{"".join(areas)}"/>'
    yield "</g>"


def _cell_texts(
    chart: Heat, places: Sequence[float], top: float, width: float, cell: float
) -> Iterator[str]:
    """The figures in the cells, if all of them fit."""
    texts = chart.texts or [[_label(value or 0.0) for value in row] for row in chart.values]
    longest = max((len(text) for row in texts for text in row), default=0)
    if cell < 13 or longest * _CHARACTER > width:
        return
    for row, shares in enumerate(_shares(chart)):
        cells = []
        for column, (share, text) in enumerate(zip(shares, texts[row], strict=True)):
            if text:
                of = ' class="strong"' if share is not None and abs(share) >= _STRONG else ""
                short = escape(_FIGURE.sub(lambda found: three_digits(float(found[0])), text))
                cells.append(f'<tspan x="{places[column]:.0f}"{of}>{short}</tspan>')
        yield f'<text class="v" y="{_number(top + (row + 0.5) * cell + 4)}">{"".join(cells)}</text>'


def _colour_key(chart: Heat, left: float, top: float) -> Iterator[str]:
    """The colours below the map, with the values at their ends."""
    low, high = chart.scale
    if low == high and not chart.centred:
        return
    colours = "less", "more"
    if not chart.centred:
        colours = ("best" if chart.higher_is_better else "worst",) * 2
    each = 16.0
    number = _STEPS // 2
    begin = left + 60
    yield _text(begin - 6, top + 10, _label(float(f"{low:.3g}")), "y")
    yield f'<g transform="translate({_number(begin)} {_number(top)})">'
    yield f'<rect class="cell" width="{each * (number + 1):g}" height="12"/>'
    for at in range(number + 1):
        share = 2 * at / number - 1 if chart.centred else at / number
        area = f"M{at * each:g} 0h{each:g}v12h-{each:g}z"
        yield f'<path class="{colours[share >= 0]}" fill-opacity="{abs(share):.2g}" d="{area}"/>'
    yield "</g>"
    unit = f" {chart.unit}" if chart.unit else ""
    place = begin + (number + 1) * each + 6
    yield _text(place, top + 10, f"{_label(float(f'{high:.3g}'))}{unit}", "level")


# ---- markers and legends


def markers_of(charts: Iterable[Chart]) -> dict[str, Look]:
    """Returns the looks of the markers in the charts, by the ids of the markers."""
    looks = (look_of(one) for chart in charts if isinstance(chart, Lines) for one in chart.series)
    return {look.marker: look for look in looks if look.marker}


def legend_of(chart: Chart) -> list[tuple[str, str]]:
    """Returns the names of the curves with their swatches; none for a single one."""
    if isinstance(chart, Lines) and len(chart.series) > 1:
        return [(one.name, _curve_swatch(look_of(one))) for one in chart.series]
    if isinstance(chart, Boxes) and len(chart.series) > 1:
        return [(one.name, _box_swatch(look_of(one))) for one in chart.series]
    return []


def _swatch(content: str) -> str:
    return f"<svg>{content}</svg>"  # the style has its size


def _curve_swatch(look: Look) -> str:
    dash = f' stroke-dasharray="{look.dash}"' if look.dash else ""
    marked = f' marker-mid="url(#{look.marker})"' if look.marker else ""
    return _swatch(f'<path class="curve c{look.colour}" d="M0 6h14h14"{dash}{marked}/>')


def _box_swatch(look: Look) -> str:
    filled = "hollow" if look.is_hollow else f"turn{look.turn}"
    return _swatch(f'<path class="box c{look.colour} {filled}" d="M6 1h16v10h-16z"/>')
