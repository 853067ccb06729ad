"""Ends and ticks of axes: round values, powers of ten, sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_TICKS = 9
_WIDE, _NARROW = 100, 4  # the largest over the smallest value of a logarithmic axis
_MARGIN = 1.15  # of a narrow logarithmic axis, a factor


def log_ticks(values: Sequence[float]) -> tuple[list[float], tuple[float, float] | None] | None:
    """Returns the ticks of a logarithmic axis, and its ends if the ticks need them.

    None if powers of ten are enough. ``values``: at least one, all positive.
    """
    least, most = min(values), max(values)
    if most / least >= _WIDE:
        return None
    if most / least >= _NARROW:
        powers = range(math.floor(math.log10(least)), math.floor(math.log10(most)) + 1)
        return [digit * 10.0**power for power in powers for digit in (1, 2, 5)], None
    limits = least / _MARGIN, most * _MARGIN
    return round_ticks(*limits), limits


def round_ticks(low: float, high: float, least_step: float = 0.0) -> list[float]:
    """Returns at most seven multiples of 1, 2 or 5 times a power of ten from low to high.

    ``low`` < ``high``. ``least_step``: the smallest distance of two ticks.
    """
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    steps = (factor * power for factor in (1, 2, 5, 10))
    step = max(least_step, next(one for one in steps if one >= (high - low) / 6))
    return [at * step for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


def byte_ticks(sizes: Sequence[float]) -> list[int]:
    """Returns the ticks of an axis of sizes: powers of two, or round sizes in a narrow range.

    ``sizes``: at least one, all positive.
    """
    least, most = min(sizes), max(sizes)
    if least == most:
        return [round(least)]
    if most / least < _NARROW and not all(math.log2(size).is_integer() for size in sizes):
        unit = 1024.0 ** math.floor(math.log(least, 1024))
        ticks = round_ticks(least / unit, most / unit, least_step=1 / unit)
        return [round(tick * unit) for tick in ticks]
    low = int(min(sizes)).bit_length() - 1
    high = (int(max(sizes)) - 1).bit_length()
    step = max(1, -(-(high - low) // (_MOST_TICKS - 1)))
    return [1 << power for power in range(low, high + 1, step)]


@dataclass(frozen=True)
class Scale:
    """An axis from ``low`` to ``high``, drawn between two coordinates. ``is_log``: logarithmic."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """Returns the coordinate of a value; values beyond the ends are at the ends."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            # The ratio of the ends may be beyond the largest number.
            low = math.log(self.low)
            share = (math.log(value) - low) / (math.log(self.high) - low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)
