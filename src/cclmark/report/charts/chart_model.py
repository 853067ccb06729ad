"""What a chart holds, whoever draws it: numbers, names and words, no colours and no pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Series:
    """One curve. ``low`` and ``high`` bound a band round it, None at points without one, both
    empty for none at all.

    ``colour`` numbers looks; curves of one number are told apart by ``dashed``. ``faint``: behind
    the others, to compare them with, and numbered on its own. ``hover``: what there is to say of
    each point besides its figures.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    colour: int = 0
    dashed: bool = False
    faint: bool = False
    hover: Sequence[str] = ()


@dataclass(frozen=True)
class Level:
    """A horizontal line with a name: a limit, or what counts as equal."""

    name: str
    value: float


@dataclass(frozen=True)
class Chart:
    """What all charts have.

    ``key`` names the picture's file and is unique in a report; ``says`` is the chart in a sentence,
    for those who do not see it.
    """

    key: str
    title: str
    says: str


@dataclass(frozen=True)
class Lines(Chart):
    """Curves over one axis. ``x_kind``: bytes (logarithmic) or number.

    ``zero_based``: whether a linear axis of values begins at 0.
    """

    x_title: str
    y_title: str
    series: Sequence[Series]
    x_kind: str = "bytes"
    y_log: bool = False
    levels: Sequence[Level] = ()
    zero_based: bool = True


@dataclass(frozen=True)
class Boxes(Chart):
    """Boxes of quantiles side by side: one for each column and series that has any.

    A box is (least, first quartile, median, third quartile, 95th percentile or most). ``limits``:
    the ends of the axis of values where a few boxes reach so far that the others could not be seen;
    ``notes`` tell which.
    """

    x_title: str
    y_title: str
    columns: Sequence[str]
    series: Sequence[BoxSeries]
    limits: tuple[float, float] | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class BoxSeries:
    """The boxes of one curve, by column; None where there were no samples."""

    name: str
    boxes: Sequence[tuple[float, float, float, float, float] | None]
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Heat(Chart):
    """A matrix of values, as [row][column]; ``texts`` stands in the cells, ``hover`` says more.

    ``higher_is_better`` False turns the scale round; ``centred``: the scale has its middle at 0.
    ``least_span``: of the scale, so that values that hardly differ do not look as if they did.
    """

    column_title: str
    unit: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    texts: Sequence[Sequence[str]]
    hover: Sequence[Sequence[str]]
    higher_is_better: bool = True
    centred: bool = False
    least_span: float = 0.0
    notes: Sequence[str] = field(default=())


def marked(charts: Sequence[Chart], mark: str) -> list[Chart]:
    """With keys that no other run's have."""
    return [replace(chart, key=f"{chart.key}{mark}") for chart in charts]
