"""Decides when warm-up and sampling end. All ranks have all times and decide alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.base.statistics import median_half_width

# Operations that follow each other overlap at their ends, so the time of one depends on the number
# of operations timed together. nccl-tests times 20 by default; the same number makes figures
# comparable.
_OPERATIONS = 20
LEAST_BATCH_S = 100e-6  # in shorter batches the start of the ranks dominates
# Ranks of several hosts begin a batch tens of microseconds apart: the time of a message of their
# barrier. In a batch of 100 us that would be a fifth of the time.
LEAST_BATCH_BETWEEN_HOSTS_S = 5e-3
_MOST_BATCH_S = 10e-3  # of operations that long, the ends are a small part
_MOST_OPERATIONS = 1000


def operations_per_batch(time_s: float, least_s: float = LEAST_BATCH_S) -> int:
    """The number of operations of ``time_s`` seconds that are timed together, for ``least_s``."""
    if time_s <= 0:
        return _MOST_OPERATIONS
    least = math.ceil(least_s / time_s)
    most = math.ceil(_MOST_BATCH_S / time_s)
    return min(max(_OPERATIONS, least), most, _MOST_OPERATIONS)


def operations_per_graph(operations: int, time_s: float, launches: int) -> int:
    """The number of operations in a graph that is launched ``launches`` times in a batch.

    As many as ``operations`` of ``time_s`` seconds, so that launches take a small part of the time,
    unless the batch would become long.
    """
    if time_s <= 0:
        return operations
    return max(1, min(operations, math.ceil(_MOST_BATCH_S / (time_s * launches))))


@dataclass(frozen=True)
class WarmUp:
    """Ends when two batches in a row agree, or after too many batches or too much time."""

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
        if len(times_s) < 2:
            return False
        last, before = times_s[-1], times_s[-2]
        return abs(last - before) <= self.agreement * max(last, before)


@dataclass(frozen=True)
class Precision:
    """Ends when the median is known within ``half_width``, or at the limit of samples or time."""

    half_width: float
    most_time_s: float
    least_samples: int = 6
    most_samples: int = 1000

    def reached(self, times_s: Sequence[float]) -> bool:
        """Whether the median's 95 % interval is narrow enough."""
        width = median_half_width(times_s)
        return width is not None and width <= self.half_width

    def done(self, times_s: Sequence[float], elapsed_s: float) -> bool:
        """Whether sampling ends."""
        if not times_s:
            return False
        if elapsed_s >= self.most_time_s or len(times_s) >= self.most_samples:
            return True
        return len(times_s) >= self.least_samples and self.reached(times_s)


def precision_of_rounds(half_width: float, most_time_s: float) -> Precision:
    """The rule for rounds that compare several ways to transfer the same data."""
    return Precision(half_width, most_time_s, least_samples=7, most_samples=200)
