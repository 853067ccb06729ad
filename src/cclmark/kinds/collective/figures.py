"""The drift of each case through the cycles of a soak."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cclmark.base.statistics import median, median_interval
from cclmark.journal.item_results import CaseResult
from cclmark.journal.schema import Header
from cclmark.work.cases import Case

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
class CaseTimes:
    """The median times of one case by cycle. ``compared``: the number of those in ``ratios``."""

    times_s: array[float] = field(default_factory=lambda: array("d"))
    cycles: array[int] = field(default_factory=lambda: array("Q"))
    compared: int = 0
    at_first_s: float = 0.0


@dataclass
class SoakFigures:
    """A soak in a few bytes for each result, see ReportKind.reduction."""

    times: dict[Case, CaseTimes] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    elapsed_s: float = 0.0
    _begun_s: float | None = None
    _failed: set[Case] = field(default_factory=set)

    def add(self, result: CaseResult) -> bool:
        """Adds a result. Returns whether it is of the first cycle, or a case's first failure."""
        self.statuses[result.status] += 1
        self.checked += result.verification is not None
        if result.started_at_s:
            if self._begun_s is None:
                self._begun_s = result.started_at_s
            self.elapsed_s = result.started_at_s + result.duration_s - self._begun_s
        if result.summary is not None and result.summary.time_s > 0:
            times = self.times.setdefault(result.case, CaseTimes())
            times.times_s.append(result.summary.time_s)
            times.cycles.append(max(0, result.cycle))
        if result.cycle == 0 or result.status == "ok" or result.case in self._failed:
            return result.cycle == 0
        self._failed.add(result.case)
        return True

    def add_all(self, results: Sequence[CaseResult]) -> list[CaseResult]:
        """Adds all of a run. Returns the results of which ``add`` is true."""
        return [one for one in results if self.add(one)]

    def drifts(self) -> dict[Case, Drift]:
        """The drift of each case."""
        return {case: drift_of(times.times_s) for case, times in self.times.items()}

    def ratios(self) -> list[tuple[float, Case]]:
        """The times since the last call over the times before the first one."""
        ratios = []
        for case, times in self.times.items():
            recent = times.times_s[times.compared :]
            if recent and times.compared:
                ratios.append((median(recent) / times.at_first_s, case))
            elif recent:
                times.at_first_s = median(recent)
            times.compared = len(times.times_s)
        return ratios


def soak_of(header: Header) -> SoakFigures | None:
    """The figures of a soak without results; None for other runs."""
    return SoakFigures() if header.settings.duration_s > 0 else None
