"""Finds values that are far from other values of the same kind, and rarely so by chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from cclmark.base.statistics import median, student_tails
from cclmark.journal.schema import Header

# The end of the notice of a run whose ranks share processors. The launcher writes it.
TIMES_MEAN_LITTLE = "they take turns, and their times are not meaningful"
_OLDER = "they take turns, and their times say little"  # in older journals


def times_mean_little(header: Header) -> bool:
    """Whether ranks shared processors: then the scheduler, not the link, makes a pair slow.

    False with an injected fault, which must still be found.
    """
    return _is_crowded(header) and not header.settings.inject


def least_factor(header: Header) -> float:
    """The least ratio to the usual value that stands out: 2 where ranks shared processors."""
    return _CROWDED_FACTOR if _is_crowded(header) else 1.0


def _is_crowded(header: Header) -> bool:
    return any(notice.endswith((TIMES_MEAN_LITTLE, _OLDER)) for notice in header.notices)


LEAST_VALUES = 4  # fewer give no usual value
_CROWDED_FACTOR = 2.0
_MAD_TO_SIGMA = 1.4826  # for normally distributed values
_LEAST_SIGMAS = 5.0
_MOST_SIGMAS = 1e6
_LEAST_SHARE = 0.03  # a smaller difference is no reason to look at a link
_FALSE_ALARM = 0.01  # of all values that are judged together


def looked_at(groups: Iterable[Sequence[object]]) -> int:
    """The number of values that ``outliers`` judges in groups that are judged together."""
    return sum(len(group) for group in groups if len(group) >= LEAST_VALUES)


def outliers(values: Sequence[float], of: int = 0) -> tuple[float, list[int]]:
    """The median of positive ``values``, and the places of the values that are far from it.

    A value is far if its distance exceeds three limits: 3 %; five standard deviations; and the
    number of standard deviations that one of ``of`` alike and normally distributed values exceeds
    in at most one of a hundred pages. The standard deviation is estimated from the median absolute
    deviation (Leys et al., 2013). Distances are logarithmic, so that half is as far away as twice.
    ``of``: see looked_at; at least the number of ``values``. Of fewer than four values none is far.
    """
    if len(values) < LEAST_VALUES:
        return (median(values) if values else 0.0), []
    logarithms = [math.log(value) for value in values]
    middle = median(logarithms)
    spread = _MAD_TO_SIGMA * median([abs(one - middle) for one in logarithms])
    sigmas = sigmas_allowed(len(values), max(of, len(values)))
    allowed = max(sigmas * spread, math.log(1 + _LEAST_SHARE))
    far = [place for place, one in enumerate(logarithms) if abs(one - middle) > allowed]
    return math.exp(middle), far


@lru_cache(maxsize=1024)
def sigmas_allowed(count: int, of: int) -> float:
    """The largest distance of ``count`` values from their median, in estimated standard deviations.

    The estimate itself is uncertain with so few values. Distances are therefore treated as
    Student's t with ``count / 2`` degrees of freedom, which a simulation confirms
    (benchmarks/outliers.py).
    """
    low, high = _LEAST_SIGMAS, _MOST_SIGMAS
    if student_tails(low, count // 2) * of <= _FALSE_ALARM:
        return low
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        if student_tails(middle, count // 2) * of > _FALSE_ALARM:
            low = middle
        else:
            high = middle
    return high
