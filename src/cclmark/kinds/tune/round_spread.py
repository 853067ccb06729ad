"""How far apart the times of one value are from round to round, pooled over all measured values.

Two or three rounds of one value say little about their spread: they may agree by chance. The spread
of all values together is known after two rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cclmark.analysis.paired import Times
from cclmark.analysis.ratio import RatioEstimate
from cclmark.analysis.statistics import median
from cclmark.kinds.tune.search import deviation_of

_EFFICIENCY = 0.37  # of the median of absolute deviations as an estimate of a standard deviation
# The largest variance of a mean without a fifth of the values at each end, in variances of the
# mean of all of them, for normal noise: that of five values.
_TRIMMED_VARIANCE = 1.14
# A value's own deviation over the pooled one. With equal noise, 2 % of three rounds have more.
_CLEARLY_MORE = 2


@dataclass(frozen=True)
class RoundSpread:
    """The standard deviation of the logarithm of one time, and its degrees of freedom."""

    deviation: float
    freedom: int

    def estimates(self, estimate: RatioEstimate) -> list[RatioEstimate]:
        """The estimate of a ratio with the pooled deviation, or with its own if that is larger.

        Of a value whose own deviation is clearly larger also the estimate itself, with the degrees
        of freedom of its rounds alone: the pooled ones are too many for a noisy value.
        A ratio has the variance of two times, and the mean of ``runs`` ratios that divided by
        ``runs``, up to _TRIMMED_VARIANCE times as large because means are trimmed.
        """
        pooled = self.deviation * math.sqrt(2 * _TRIMMED_VARIANCE / estimate.runs)
        deviation = max(pooled, estimate.deviation)
        found = [estimate.with_deviation(deviation, self.freedom)]
        return [*found, estimate] if estimate.deviation > _CLEARLY_MORE * pooled else found


class SpreadSoFar:
    """The spread between the rounds that were added, at the size with the index ``size``.

    The change of the logarithm of a value's time from one of its rounds to the next one has twice
    the variance of that logarithm (Rice, Annals of Statistics 12, 1984, for a mean that changes
    slowly). What the m values of two rounds have in common, the median of their changes, is
    subtracted, which leaves (m - 1) / m of the variance. The deviation is 1.4826 times the median
    of the absolute values, which single slow times do not move, over the square root of 2. The
    changes have m - 1 degrees of freedom in each pair of rounds, and the median of absolute values
    is as precise as a standard deviation with 37 % of them (Rousseeuw and Croux, Journal of the
    American Statistical Association 88, 1993).
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rounds = 0
        self._latest: dict[int, tuple[int, float]] = {}  # the round and the logarithm of each value
        self._found: list[float] = []
        self._freedom = 0

    def add(self, times: Times) -> None:
        """Adds the next round."""
        changes: dict[int, list[float]] = {}  # by the earlier round
        for (value, size), time_s in times.items():
            if size != self._size or time_s is None:
                continue
            log = math.log(time_s)
            if value in self._latest:
                before, earlier = self._latest[value]
                changes.setdefault(before, []).append(log - earlier)
            self._latest[value] = self._rounds, log
        for own in changes.values():
            if len(own) > 1:
                common = median(own)
                scale = math.sqrt(len(own) / (len(own) - 1) / 2)
                self._found += [(one - common) * scale for one in own]
                self._freedom += len(own) - 1
        self._rounds += 1

    @property
    def spread(self) -> RoundSpread | None:
        """None without two values in two rounds."""
        deviation = deviation_of(self._found)
        if deviation is None:
            return None
        return RoundSpread(deviation, max(1, int(_EFFICIENCY * self._freedom)))


def round_spread(rounds: Iterable[Times], size: int) -> RoundSpread | None:
    """The spread between these rounds, at one size; None without two values in two rounds."""
    so_far = SpreadSoFar(size)
    for times in rounds:
        so_far.add(times)
    return so_far.spread
