"""Statistics over samples of time: order statistics, because times are not normally distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

NORMAL_975 = 1.959964  # the limit of t with many degrees of freedom
# The 97.5 % quantile by degrees of freedom from 1 on; beyond the table see student_975.
_T_975 = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
)


def student_975(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with ``freedom`` degrees of freedom.

    Beyond the table it is computed from the first terms of its Cornish-Fisher expansion, with an
    error below 1e-4. Raises ValueError below one degree.
    """
    if freedom < 1:
        raise ValueError("no degrees of freedom")
    if freedom <= len(_T_975):
        return _T_975[freedom - 1]
    z = NORMAL_975
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def student_tails(t: float, freedom: int) -> float:
    """The probability that Student's t with ``freedom`` degrees is at least as far from 0 as ``t``.

    Computed from the incomplete beta function and its continued fraction (DLMF 8.17.22) with Lentz'
    method.
    """
    x = freedom / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if x >= (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    return _beta(x, a, b)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, for ``x`` below (a + 1) / (a + b + 2)."""
    if x <= 0:
        return 0.0
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logarithm + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    above, below = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = below
    for term in range(1, 300):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for numerator in (even, odd):
            below = 1 / (1 + numerator * below or tiny)
            above = 1 + numerator / above or tiny
            step = below * above
            fraction *= step
        if abs(step - 1) < 1e-12:
            break
    return front * fraction


_TAILS_IN_ONE = 40  # each side of a 95 % interval has a tail of 2.5 %


_LEAST_FOR_QUARTILES = 4
_FENCE = 3.0
_LEAST_OUTLYING = 0.10


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
    """The 95 % interval of the median; None for fewer than six values, which have none."""
    outside = _rank_of_interval(len(values))
    if outside < 0:
        return None
    ordered = sorted(values)
    return ordered[outside], ordered[-1 - outside]


def median_half_width(values: Sequence[float]) -> float | None:
    """Half the median's 95 % interval as a share of it; None without one, or for a zero median."""
    interval = median_interval(values)
    if interval is None:
        return None
    middle = median(values)
    return (interval[1] - interval[0]) / 2 / middle if middle > 0 else None


def interquartile_share(ordered: Sequence[float]) -> float | None:
    """The interquartile range of sorted values over their median; None with fewer than four."""
    middle = quantile(ordered, 0.5)
    if len(ordered) < _LEAST_FOR_QUARTILES or middle <= 0:
        return None
    return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / middle


def outlier_limit(ordered: Sequence[float]) -> float:
    """The value above which one of the sorted values is an outlier.

    It is Tukey's outer fence, three interquartile ranges above the third quartile (Exploratory Data
    Analysis, 1977), and at least 10 % above the median: where most values are equal, the range is
    next to nothing.
    """
    upper = quantile(ordered, 0.75)
    fence = upper + _FENCE * (upper - quantile(ordered, 0.25))
    return max(fence, (1 + _LEAST_OUTLYING) * quantile(ordered, 0.5))
