"""The time of an operation or a copy in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_LEAST_BATCHES = 5  # a difference between fewer of them is mostly noise


@dataclass(frozen=True)
class BatchTime:
    """The time of an operation or a copy in each of several batches of ``number``."""

    times_s: Sequence[float]
    number: int

    @property
    def time_s(self) -> float:
        """The median over the batches."""
        return median(self.times_s)

    def change_from(self, untraced_s: float) -> float | None:
        """The relative difference from ``untraced_s``; None if there are too few batches."""
        if len(self.times_s) < _LEAST_BATCHES or untraced_s <= 0:
            return None
        return self.time_s / untraced_s - 1
