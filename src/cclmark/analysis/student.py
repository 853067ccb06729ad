"""Student's t: the distance of a mean of few values from the value that it estimates."""

from __future__ import annotations

import math

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
