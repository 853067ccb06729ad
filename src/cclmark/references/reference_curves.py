"""Curves of references: the figures of one source under the same conditions, by size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from cclmark.base.grouping import by_key
from cclmark.references.match import bandwidth_of, device_bandwidth_of
from cclmark.references.reference import Reference
from cclmark.work.sizes import format_size

# From this size on a larger message is hardly faster. Beyond the ends of a curve, and with another
# number of devices of one host, only figures of this size or more are compared.
SATURATED_BYTES = 256 << 20
_WIDEST_GAP = (
    4.0  # between two sizes of a curve: a size between them is within a factor of 2 of one of them
)
_MOST_APART = 2.0
# Two figures that differ by a larger factor decide nothing: the algorithm may change between them.
_STEEPEST = 1.2


@dataclass(frozen=True)
class CurveValue:
    """The value of a curve for a size.

    ``bandwidth``: bytes per second by the cost of a call, ``by_device`` by the time of the devices,
    None if it is unknown. ``distance``: to the size of the nearest figure, in powers of 2.
    ``doubts``: the reasons why it decides nothing.
    """

    reference: Reference
    bandwidth: float
    by_device: float | None
    words: str
    distance: float
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class CurveFigure:
    """A figure of a curve, with its two bandwidths as in CurveValue."""

    reference: Reference
    bandwidth: float
    by_device: float | None

    @property
    def size_bytes(self) -> int:
        """Bytes of the message."""
        return self.reference.size_bytes


@dataclass(frozen=True)
class Curve:
    """Figures of one ``series`` with ascending sizes."""

    series: Reference
    known: Sequence[CurveFigure]
    _values: dict[int, CurveValue | None] = field(default_factory=dict, compare=False, repr=False)

    def at(self, size_bytes: int) -> CurveValue | None:
        """The value for a message of ``size_bytes``; None if that is too far from all figures."""
        if size_bytes not in self._values:  # thousands of cases have the same sizes
            self._values[size_bytes] = self._at(size_bytes)
        return self._values[size_bytes]

    def _at(self, size_bytes: int) -> CurveValue | None:
        known = self.known
        if not known or size_bytes <= 0:
            return None
        one = min(known, key=lambda figure: abs(math.log2(figure.size_bytes / size_bytes)))
        distance = abs(math.log2(one.size_bytes / size_bytes))
        itself = CurveValue(
            one.reference, one.bandwidth, one.by_device, format_size(one.size_bytes), distance
        )
        if distance == 0:
            return itself
        below = [figure for figure in known if figure.size_bytes < size_bytes][-1:]
        above = [figure for figure in known if figure.size_bytes > size_bytes][:1]
        if below and above and above[0].size_bytes / below[0].size_bytes <= _WIDEST_GAP:
            return _between(below[0], above[0], size_bytes, itself)
        if min(one.size_bytes, size_bytes) >= SATURATED_BYTES and distance <= math.log2(
            _MOST_APART
        ):
            return itself
        return None


def _between(
    low: CurveFigure, high: CurveFigure, size_bytes: int, nearest: CurveValue
) -> CurveValue:
    # A time is a latency plus a time for each byte: a straight line between two sizes.
    share = (size_bytes - low.size_bytes) / (high.size_bytes - low.size_bytes)

    def bandwidth(slower: float, faster: float) -> float:
        time_s = (1 - share) * low.size_bytes / slower + share * high.size_bytes / faster
        return size_bytes / time_s

    rates = [(low.bandwidth, high.bandwidth)]
    by_device = None
    if low.by_device is not None and high.by_device is not None:
        rates.append((low.by_device, high.by_device))
        by_device = bandwidth(*rates[1])
    steep = any(max(pair) > _STEEPEST * min(pair) for pair in rates)
    return CurveValue(
        nearest.reference,
        bandwidth(*rates[0]),
        by_device,
        f"between {format_size(low.size_bytes)} and {format_size(high.size_bytes)}",
        nearest.distance,
        ("the bandwidth changes much between the two sizes there",) if steep else (),
    )


class CurveGroup:
    """Curves that differ only in the pair of devices; a single curve if the source has no pairs."""

    def __init__(self, series: Reference) -> None:
        """``series``: the common properties of the curves."""
        self.series = series
        self._curves: dict[tuple[int, int] | None, Curve] = {}
        self._nearest: dict[int, tuple[Reference, CurveValue] | None] = {}

    def add(self, curve: Curve) -> None:
        """Adds a curve."""
        self._curves[curve.series.pair] = curve

    def at(
        self, size_bytes: int, pair: tuple[int, int] | None
    ) -> tuple[Reference, CurveValue] | None:
        """The pair's own value for the size, else the best curve's; None if all are too far."""
        own = self._curves.get(pair)
        point = own.at(size_bytes) if own is not None else None
        if own is not None and point is not None:
            return own.series, point
        # Thousands of pairs request the same sizes.
        if size_bytes not in self._nearest:
            points = [(one.series, one.at(size_bytes)) for one in self._curves.values()]
            known = [(series, point) for series, point in points if point is not None]
            self._nearest[size_bytes] = min(
                known, key=lambda entry: (len(entry[1].doubts), entry[1].distance), default=None
            )
        return self._nearest[size_bytes]


def groups_of(references: Iterable[Reference]) -> dict[str, list[CurveGroup]]:
    """All curves by operation, each with ascending sizes."""
    found: dict[Reference, list[CurveFigure]] = {}
    for one in references:
        bandwidth = bandwidth_of(one)
        if bandwidth and one.size_bytes > 0:
            figure = CurveFigure(one, bandwidth, device_bandwidth_of(one))
            found.setdefault(one.series(), []).append(figure)
    groups: dict[Reference, CurveGroup] = {}
    for series, known in found.items():
        common = series if series.pair is None else msgspec.structs.replace(series, pair=None)
        group = groups.setdefault(common, CurveGroup(common))
        group.add(Curve(series, sorted(known, key=lambda figure: figure.size_bytes)))
    return by_key((group.series.operation, group) for group in groups.values())
