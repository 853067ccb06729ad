"""Limits an axis of boxes if a few of them would flatten all others."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.statistics import quantile

BoxPlot = tuple[float, float, float, float, float]

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
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return [
        f"the axis ends at {low:+.1f} and {high:+.1f} %, beyond which whiskers reach to "
        + ", ".join(words[:_MOST_NAMED])
        + more
    ]
