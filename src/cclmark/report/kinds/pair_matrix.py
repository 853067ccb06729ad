"""Heat maps of collectives of single pairs: titles, values, and the quality of each value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from cclmark.analysis.pair_results import PairPoint, PairSweep
from cclmark.plan.cases import Case
from cclmark.plan.pair_cases import Pair
from cclmark.plan.sizes import format_size
from cclmark.document.text import BYTES_PER_GB, US_PER_S

_LEAST_RANGE = 0.10  # of the median: smaller differences have nearly the same colour
NOTES = {"skipped": "n/a", "wrong": "WRONG", "timeout": "hung"}
_ROOTED = {
    "broadcast": "the row's device is the root and sends to the column's",
    "send": "the row's device sends to the column's",
    "reduce": "the row's device is the root and gets the reduction of both",
}
_BETWEEN = {
    "ping_pong": "half of a round trip between the two devices",
    "sendrecv": "both devices send to each other at once",
}


class PairMatrix:
    """One figure of one size of a sweep: ``bandwidth`` in GB/s (algorithm) or ``time`` in µs."""

    def __init__(self, point: PairPoint, figure: str) -> None:
        self.point = point
        self.figure = figure

    @property
    def title(self) -> str:
        """The figure with its unit."""
        what = "algbw [GB/s]" if self.figure == "bandwidth" else "time [µs]"
        return f"{what} at {format_size(self.point.size_bytes)}"

    @cached_property
    def values(self) -> dict[Pair, float]:
        """The values by row and column; ``note`` has the reasons for missing ones."""
        if self.figure == "bandwidth":
            return {
                place: summary.algbw_bytes_per_s / BYTES_PER_GB
                for place, summary in self.point.figures.items()
            }
        return {place: one.time_s * US_PER_S for place, one in self.point.figures.items()}

    def note(self, place: Pair) -> str:
        """Returns why there is no figure: x on the diagonal, - if nothing was measured (yet)."""
        if place[0] == place[1]:
            return "x"
        result = self.point.results.get(place)
        return "-" if result is None else NOTES.get(result.status, result.status)

    @cached_property
    def _range(self) -> tuple[float, float]:
        known = sorted(self.values.values())
        middle = known[len(known) // 2]
        return (
            min(known[0], middle * (1 - _LEAST_RANGE)),
            max(known[-1], middle * (1 + _LEAST_RANGE)),
        )

    def goodness(self, place: Pair) -> float | None:
        """Returns 0 for the worst and 1 for the best value of the matrix; about 0.5 is typical."""
        if place not in self.values:
            return None
        low, high = self._range
        share = (self.values[place] - low) / (high - low) if high > low else 0.5
        return share if self.figure == "bandwidth" else 1 - share


def matrices_of(sweep: PairSweep) -> list[PairMatrix]:
    """Returns bandwidth and time of the largest size, and the time of the smallest."""
    ends = sweep.ends()
    matrices = [PairMatrix(ends[-1], "bandwidth"), PairMatrix(ends[-1], "time")]
    return matrices + ([PairMatrix(ends[0], "time")] if len(ends) > 1 else [])


def meaning_of(operation: str) -> str:
    """Describes the meaning of rows and columns."""
    if operation in _ROOTED:
        return _ROOTED[operation]
    return _BETWEEN.get(operation, "one figure for each pair, in both of its cells")


def names_of(series: Sequence[Case]) -> list[str]:
    """Names each of ``series`` by its operation and the properties that distinguish it.

    In-place is always named.
    """
    shared = {
        name: len({getattr(one, name) for one in series}) == 1
        for name in ("ccl", "dtype", "placement")
    }
    reductions = {one.reduction for one in series if one.reduction is not None}
    # Out-of-place is the default, so one placement for all is named only if it is the other one.
    shared["placement"] = shared["placement"] and not any(one.in_place for one in series)
    names = []
    for one in series:
        words = [one.operation]
        words += [getattr(one, name) for name, same in shared.items() if not same]
        words += [one.reduction] if one.reduction is not None and len(reductions) > 1 else []
        names.append(" ".join(words))
    return names
