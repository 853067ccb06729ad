"""The contents of charts for every renderer: numbers, names and texts, no colours and no pixels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cclmark.base.grouping import abridged
from cclmark.base.statistics import quantile

BoxPlot = tuple[float, float, float, float, float]

# Fields that the data of a page, for its script, does not have.
_OF_TEXTS = {"only": "texts"}
_OF_DRAWINGS = {"only": "drawings"}
_USUAL = 0.9  # of all boxes: these determine the axis
_LEAST = 4.0  # percent, of the typical range: in quiet runs, a small deviation is no outlier
_FAR = 2.5  # times the typical range: a longer axis would hide the other boxes
_ROOM = 0.05  # of the axis, at each end
_MOST_NAMED = 3


def spread_limits(boxes: Sequence[BoxPlot]) -> tuple[float, float] | None:
    """Returns the ends of the axis; None if no box hides the others."""
    highs = sorted(box[4] for box in boxes)
    lows = sorted(-box[0] for box in boxes)
    low, high = _furthest(lows), _furthest(highs)
    if (low, high) == (lows[-1], highs[-1]):
        return None
    room = (low + high) * _ROOM
    return -low - room, high + room


def _furthest(values: Sequence[float]) -> float:
    """Returns the largest value that is not far beyond the typical range. ``values`` are sorted."""
    far = max(quantile(values, _USUAL), _LEAST) * _FAR
    return next((value for value in reversed(values) if value <= far), values[-1])


def beyond(boxes: Sequence[tuple[BoxPlot, str]], limits: tuple[float, float] | None) -> list[str]:
    """Describes the boxes that extend beyond ``limits`` with their places, the furthest first."""
    if limits is None:
        return []
    low, high = limits
    far = [(box[4], f"{box[4]:+.0f} % ({place})") for box, place in boxes if box[4] > high]
    far += [(-box[0], f"{box[0]:+.0f} % ({place})") for box, place in boxes if box[0] < low]
    words = [text for _, text in sorted(far, key=lambda one: -one[0])]
    return [
        f"the axis ends at {low:+.1f} and {high:+.1f} %, beyond which whiskers reach to "
        + abridged(words, _MOST_NAMED)
    ]


_LONGEST_KEY = 100


@dataclass(frozen=True)
class ChartCurve:
    """One curve. ``low`` and ``high`` bound a band around it: None at points without a band, both
    empty if there is no band.

    ``colour`` is the number of a look; ``dashed`` distinguishes curves with the same number.
    ``faint``: drawn behind the others for comparison, and numbered separately. ``hover``: texts on
    the points, besides their figures. ``panel``: the number of its axis of values in the chart.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float | None] = field(default=(), metadata=_OF_DRAWINGS)
    high: Sequence[float | None] = field(default=(), metadata=_OF_DRAWINGS)
    colour: int = field(default=0, metadata=_OF_DRAWINGS)
    dashed: bool = field(default=False, metadata=_OF_DRAWINGS)
    faint: bool = field(default=False, metadata=_OF_DRAWINGS)
    hover: Sequence[str] = ()
    panel: int = field(default=0, metadata=_OF_DRAWINGS)


@dataclass(frozen=True)
class Level:
    """A named horizontal line: a limit, or the range that counts as equal."""

    name: str
    value: float


@dataclass(frozen=True)
class Mark:
    """A named place on the horizontal axis, drawn as a vertical line."""

    name: str
    x: float


@dataclass(frozen=True)
class Chart:
    """The common fields of all charts.

    ``key`` is the name of the picture file and unique in a report. ``says`` describes the chart in
    a sentence, for users who cannot see it.
    """

    key: str
    title: str
    says: str = field(metadata=_OF_DRAWINGS)


@dataclass(frozen=True)
class Lines(Chart):
    """Curves over one axis. ``x_kind``: bytes (logarithmic), log (numbers), or number.

    ``zero_based``: whether a linear value axis begins at 0. ``notes``: below the axes, phrases
    without a full stop. ``panels``: the titles of further axes of values, one below the other, each
    with its own curves; ``spans``: shaded parts of the axis that they share. ``in_texts``: whether
    texts have the curves too, as figures, and terminals as a drawing.
    """

    x_title: str
    y_title: str
    series: Sequence[ChartCurve]
    x_kind: str = "bytes"
    y_log: bool = field(default=False, metadata=_OF_DRAWINGS)
    levels: Sequence[Level] = field(default=(), metadata=_OF_DRAWINGS)
    marks: Sequence[Mark] = field(default=(), metadata=_OF_DRAWINGS)
    zero_based: bool = field(default=True, metadata=_OF_DRAWINGS)
    notes: Sequence[str] = field(default=(), metadata=_OF_DRAWINGS)
    panels: Sequence[str] = field(default=(), metadata=_OF_DRAWINGS)
    spans: Sequence[tuple[float, float]] = field(default=(), metadata=_OF_DRAWINGS)
    in_texts: bool = field(default=False, metadata=_OF_TEXTS)

    @property
    def parts(self) -> list[Lines]:
        """A chart for each axis of values that has curves; the first one has levels and marks."""
        found = []
        for number, title in enumerate((self.y_title, *self.panels)):
            own = [one for one in self.series if one.panel == number]
            part = replace(self, series=own, y_title=title)
            if number:
                part = replace(part, levels=(), marks=())
            found += [part] if own else []
        return found


@dataclass(frozen=True)
class Boxes(Chart):
    """Quantile boxes side by side, one for each column and series that has values.

    A box is (minimum, first quartile, median, third quartile, 95th percentile or maximum).
    ``limits``: the ends of the value axis if a few boxes extend so far that the others would be
    invisible; ``notes`` describe those boxes.
    """

    x_title: str
    y_title: str
    columns: Sequence[str]
    series: Sequence[BoxSeries]
    limits: tuple[float, float] | None = field(default=None, metadata=_OF_DRAWINGS)
    notes: Sequence[str] = field(default=(), metadata=_OF_DRAWINGS)


@dataclass(frozen=True)
class BoxSeries:
    """The boxes of one curve, by column; None for columns without samples."""

    name: str
    boxes: Sequence[tuple[float, float, float, float, float] | None]
    colour: int = field(default=0, metadata=_OF_DRAWINGS)
    dashed: bool = field(default=False, metadata=_OF_DRAWINGS)


@dataclass(frozen=True)
class Heat(Chart):
    """A matrix of values, as [row][column]. ``texts``: in the cells; ``hover``: details.

    A chart that texts have too, as a table; pages have one of devices without any value as a table.
    ``higher_is_better`` False reverses the scale; ``centred``: the middle of the scale is 0.
    ``least_span``: the smallest range of the scale, so that nearly equal values look equal.
    ``numbers``: the texts with numbers in place of words, where noise decides; empty if alike.
    ``wrong``: the rows and columns of cells without a value because of wrong data or a failure.
    ``notes``: on the colours. ``meaning``: of rows, columns and cells; ``reasons``: why cells have
    no value or wrong data. ``group``: the beginning of the titles of maps that follow each other,
    which terminals write side by side. ``of_devices``: columns, and rows of the same names, are
    devices, of which terminals show a limited number. ``is_detail``: texts have it on request.
    ``twin_of``: the key of the map with the same cells in another unit; pages switch between both.
    """

    column_title: str = field(metadata=_OF_DRAWINGS)
    unit: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    texts: Sequence[Sequence[str]]
    hover: Sequence[Sequence[str]]
    higher_is_better: bool = field(default=True, metadata=_OF_DRAWINGS)
    centred: bool = field(default=False, metadata=_OF_DRAWINGS)
    least_span: float = field(default=0.0, metadata=_OF_DRAWINGS)
    notes: Sequence[str] = field(default=(), metadata=_OF_DRAWINGS)
    wrong: Sequence[tuple[int, int]] = field(default=(), metadata=_OF_DRAWINGS)
    meaning: Sequence[str] = field(default=(), metadata=_OF_TEXTS)
    reasons: Sequence[str] = field(default=(), metadata=_OF_TEXTS)
    numbers: Sequence[Sequence[str]] = field(default=(), metadata=_OF_TEXTS)
    group: str = field(default="", metadata=_OF_TEXTS)
    of_devices: bool = field(default=False, metadata=_OF_TEXTS)
    is_detail: bool = field(default=False, metadata=_OF_TEXTS)
    twin_of: str = field(default="", metadata=_OF_TEXTS)

    def with_numbers(self) -> Heat:
        """Returns the map with numbers in the cells that have a word in their place."""
        return replace(self, texts=self.numbers, numbers=()) if self.numbers else self

    @property
    def caption(self) -> str:
        """The title without the name of the group."""
        return self.title.removeprefix(f"{self.group}: ")

    @property
    def scale(self) -> tuple[float, float]:
        """The values with the first and the last colour."""
        known = [value for row in self.values for value in row if value is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        if self.centred:
            high = max(abs(low), abs(high), self.least_span)
            return -high, high
        missing = self.least_span - (high - low)
        return (low - missing / 2, high + missing / 2) if missing > 0 else (low, high)


def marked(charts: Sequence[Chart], mark: str) -> list[Chart]:
    """Returns the charts with ``mark`` in their keys, which makes them unique among runs."""
    return [replace(chart, key=f"{chart.key}{mark}") for chart in charts]


def key_of(title: str, taken: set[str]) -> str:
    """Returns a chart's key, valid as a file name, from its title; unique among ``taken``."""
    words = re.sub(r"[^a-z0-9_]+", "-", title.lower()).strip("-")[:_LONGEST_KEY]
    key, number = words, 1
    while key in taken:
        number += 1
        key = f"{words}-{number}"
    taken.add(key)
    return key
