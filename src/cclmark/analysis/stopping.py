"""When to stop warming up and when to stop sampling. All ranks see all times and decide alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.statistics import median_half_width

# Operations that follow each other overlap at their ends, so the time of one depends on how many
# are timed together. nccl-tests times 20 by default; with as many the figures compare.
_OPERATIONS = 20
_LEAST_BATCH_S = 100e-6  # shorter ones would show how the ranks start, not how they go on
_MOST_BATCH_S = 10e-3  # of operations that long, the ends are a small part
_MOST_OPERATIONS = 1000


def operations_per_batch(time_s: float) -> int:
    """How many operations of ``time_s`` seconds are timed together."""
    if time_s <= 0:
        return _MOST_OPERATIONS
    least = math.ceil(_LEAST_BATCH_S / time_s)
    most = math.ceil(_MOST_BATCH_S / time_s)
    return min(max(_OPERATIONS, least), most, _MOST_OPERATIONS)


@dataclass(frozen=True)
class WarmUp:
    """Ends when two batches in a row agree, or when it has cost too much."""

    agreement: float = 0.03
    least_batches: int = 2
    most_batches: int = 12
    most_time_s: float = 0.5

    def done(self, times_s: Sequence[float], elapsed_s: float) -> bool:
        """Whether the batches measured so far (seconds per operation) suffice."""
        if len(times_s) < self.least_batches:
            return False
        if len(times_s) >= self.most_batches or elapsed_s >= self.most_time_s:
            return True
        last, before = times_s[-1], times_s[-2]
        return abs(last - before) <= self.agreement * max(last, before)


@dataclass(frozen=True)
class Precision:
    """Ends when the median is known within ``half_width``, or after ``most_time_s``."""

    half_width: float
    most_time_s: float
    least_samples: int = 6
    most_samples: int = 1000

    def reached(self, times_s: Sequence[float]) -> bool:
        """Whether the median's 95 % interval is narrow enough."""
        width = median_half_width(times_s)
        return width is not None and width <= self.half_width

    def done(self, times_s: Sequence[float], elapsed_s: float) -> bool:
        """Whether to stop sampling."""
        if not times_s:
            return False
        if elapsed_s >= self.most_time_s or len(times_s) >= self.most_samples:
            return True
        return len(times_s) >= self.least_samples and self.reached(times_s)
