"""Statistics over samples of time: order statistics, because times are not normally distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

_TAILS_IN_ONE = 40  # each side of a 95 % interval has a tail of 2.5 %


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the sorted ``ordered`` lies, interpolated linearly.

    (Hyndman and Fan's type 7.) Raises ValueError without values.
    """
    if not ordered:
        raise ValueError("no samples")
    place = (len(ordered) - 1) * share
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    """The median. Raises ValueError without values."""
    return quantile(sorted(values), 0.5)


@lru_cache(maxsize=4096)
def _rank_of_interval(count: int) -> int:
    """The number of ``count`` sorted values outside the 95 % interval of the median, on each side.

    -1 if even smallest to largest covers less. The number of values below the true median is
    binomial with p = 1/2 for any distribution (Le Boudec, Performance Evaluation, table A.1;
    Hoefler and Belli, Scientific Benchmarking of Parallel Computing Systems, SC 2015).
    """
    # In whole numbers, each binomial coefficient from the one before: exact for any count, and this
    # is computed between batches of a measurement.
    below, coefficient = 0, 1
    for outside in range(count // 2 + 1):
        below += coefficient
        if below * _TAILS_IN_ONE > 1 << count:
            return outside - 1
        coefficient = coefficient * (count - outside) // (outside + 1)
    return count // 2


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The ends of the median's 95 % confidence interval.

    None with fewer than six values, which have no such interval.
    """
    outside = _rank_of_interval(len(values))
    if outside < 0:
        return None
    ordered = sorted(values)
    return ordered[outside], ordered[-1 - outside]


def median_half_width(values: Sequence[float]) -> float | None:
    """Half the width of the median's 95 % confidence interval, as a share of the median.

    None without such an interval, and for a median of zero.
    """
    interval = median_interval(values)
    if interval is None:
        return None
    middle = median(values)
    return (interval[1] - interval[0]) / 2 / middle if middle > 0 else None


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Standard deviation over mean; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    if mean == 0:
        return 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance) / mean
