"""The time of an operation or a copy in a batch."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST_BATCHES = 5  # a difference between fewer of them is mostly noise


@dataclass(frozen=True)
class BatchTime:
    """The median time of an operation or a copy, over ``batches`` batches of ``number``."""

    time_s: float
    number: int
    batches: int

    def change_from(self, untraced_s: float) -> float | None:
        """The relative difference from ``untraced_s``; None if there are too few batches."""
        if self.batches < _LEAST_BATCHES or untraced_s <= 0:
            return None
        return self.time_s / untraced_s - 1
