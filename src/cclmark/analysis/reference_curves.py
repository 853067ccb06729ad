"""Curves of references: the figures of one source under the same conditions, by size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cclmark.analysis.reference_match import bandwidth_of
from cclmark.plan.sizes import format_size
from cclmark.results.reference import Reference

# From here on a larger message is hardly faster: beyond the ends of a curve, and with another
# number of devices of one host, only such figures are compared.
SATURATED_BYTES = 256 << 20
_WIDEST_GAP = (
    4.0  # between two sizes of a curve, for what lies between: a factor of 2 to one of them
)
_MOST_APART = 2.0
# Between two figures that differ by more there may be a change of algorithm: nothing is decided.
_STEEPEST = 1.2


@dataclass(frozen=True)
class Point:
    """What a curve says for a size. ``distance`` to the figure, in powers of 2; ``doubts``: why it
    decides nothing.
    """

    reference: Reference
    bandwidth: float
    words: str
    distance: float
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Curve:
    """Figures that have ``series`` in common: size in bytes, bytes per second, where from."""

    series: Reference
    known: Sequence[tuple[int, float, Reference]]

    def at(self, size_bytes: int) -> Point | None:
        """What it says for a message of ``size_bytes``; None where that is too far from all."""
        known = self.known
        if not known or size_bytes <= 0:
            return None
        size, bandwidth, one = min(known, key=lambda entry: abs(math.log2(entry[0] / size_bytes)))
        distance = abs(math.log2(size / size_bytes))
        if distance == 0:
            return Point(one, bandwidth, format_size(size), 0.0)
        below = [entry for entry in known if entry[0] < size_bytes][-1:]
        above = [entry for entry in known if entry[0] > size_bytes][:1]
        if below and above and above[0][0] / below[0][0] <= _WIDEST_GAP:
            (low, slower, _), (high, faster, _) = below[0], above[0]
            # A time is a latency and so much for every byte: a straight line between two sizes.
            share = (size_bytes - low) / (high - low)
            between = size_bytes / ((1 - share) * low / slower + share * high / faster)
            words = f"between {format_size(low)} and {format_size(high)}"
            steep = max(slower, faster) > _STEEPEST * min(slower, faster)
            doubts = ("the bandwidth changes much between the two sizes there",) if steep else ()
            return Point(one, between, words, distance, doubts)
        if min(size, size_bytes) >= SATURATED_BYTES and distance <= math.log2(_MOST_APART):
            return Point(one, bandwidth, format_size(size), distance)
        return None


def curves_of(references: Iterable[Reference]) -> dict[str, list[Curve]]:
    """All curves by operation, each with its sizes rising."""
    found: dict[Reference, list[tuple[int, float, Reference]]] = {}
    for one in references:
        bandwidth = bandwidth_of(one)
        if bandwidth and one.size_bytes > 0:
            found.setdefault(one.series(), []).append((one.size_bytes, bandwidth, one))
    by_operation: dict[str, list[Curve]] = {}
    for series, known in found.items():
        curve = Curve(series, sorted(known, key=lambda entry: entry[0]))
        by_operation.setdefault(series.operation, []).append(curve)
    return by_operation
