"""Changes over hours: times at the end of a soak against its beginning, and devices' conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cclmark.analysis.statistics import median, median_interval
from cclmark.results.schema import Condition

_LEAST_IN_PART = 6  # fewer have no 95 % interval of their median


@dataclass(frozen=True)
class Drift:
    """The times of one case through the cycles of a soak.

    ``first_s`` and ``last_s`` are medians over the first and the last ``part`` cycles. ``apart``:
    whether their 95 % confidence intervals do not overlap, which is more than noise; None with too
    few cycles for intervals. ``worst`` is the place of the longest time, ``worst_ratio`` that time
    over the median of all.
    """

    cycles: int
    part: int
    first_s: float
    last_s: float
    apart: bool | None
    worst: int
    worst_ratio: float

    @property
    def ratio(self) -> float:
        """The time at the end over that at the beginning."""
        return self.last_s / self.first_s


def drift_of(times_s: Sequence[float]) -> Drift:
    """The drift of positive times, one for each cycle. Raises ValueError without times.

    The parts are thirds, which show a slow drift best, or halves if thirds would have no intervals.
    """
    number = len(times_s)
    third = number // 3
    part = max(1, third if third >= _LEAST_IN_PART else number // 2)
    first, last = times_s[:part], times_s[-part:]
    before, after = median_interval(first), median_interval(last)
    apart = None
    if before is not None and after is not None:
        apart = after[0] > before[1] or after[1] < before[0]
    worst = max(range(number), key=lambda place: times_s[place], default=0)
    usual_s = median(times_s)
    return Drift(
        cycles=number,
        part=part,
        first_s=median(first),
        last_s=median(last),
        apart=apart,
        worst=worst,
        worst_ratio=times_s[worst] / usual_s,
    )


@dataclass
class Range:
    """The smallest and the largest of values; None before the first value."""

    least: float | None = None
    most: float | None = None

    def add(self, value: float | None) -> None:
        """Adds a value unless it is None."""
        if value is not None:
            self.least = value if self.least is None else min(self.least, value)
            self.most = value if self.most is None else max(self.most, value)

    @property
    def width(self) -> float:
        """The largest minus the smallest value."""
        return 0.0 if self.least is None or self.most is None else self.most - self.least


@dataclass
class DeviceConditions:
    """The observed conditions of one device, in constant memory."""

    readings: int = 0
    clock_hz: Range = field(default_factory=Range)
    memory_clock_hz: Range = field(default_factory=Range)
    temperature_c: Range = field(default_factory=Range)
    power_w: Range = field(default_factory=Range)
    throttle_count: Range = field(default_factory=Range)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, condition: Condition) -> None:
        """Adds a reading."""
        self.readings += 1
        self.clock_hz.add(condition.clock_hz)
        self.memory_clock_hz.add(condition.memory_clock_hz)
        self.temperature_c.add(condition.temperature_c)
        self.power_w.add(condition.power_w)
        self.throttle_count.add(condition.throttle_count)
        self.reasons.update(condition.reasons)
