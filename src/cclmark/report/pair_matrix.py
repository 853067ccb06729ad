"""Heat maps out of collectives of single pairs: titles, values, and how good a value is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.pairs import AtOnce, Pair, PairSweep
from cclmark.plan.cases import Case
from cclmark.plan.sizes import format_size
from cclmark.report.text import BYTES_PER_GB, US_PER_S
from cclmark.results.schema import CaseResult

_LEAST_RANGE = 0.10  # of the median: values that differ by less have nearly one colour
_NOTES = {"skipped": "n/a", "wrong": "WRONG"}
_ROOTED = {
    "broadcast": "the row's device is the root and sends to the column's",
    "reduce": "the row's device is the root and gets the reduction of both",
}
_BETWEEN = {
    "ping_pong": "half of a round trip between the two devices",
    "sendrecv": "both devices send to each other at once",
}


@dataclass(frozen=True)
class PairMatrix:
    """One figure of one size of a sweep: ``bandwidth`` in GB/s (algorithm) or ``time`` in µs."""

    sweep: PairSweep
    size_bytes: int
    figure: str

    @property
    def title(self) -> str:
        """What is shown, with its unit."""
        what = "algbw [GB/s]" if self.figure == "bandwidth" else "time [µs]"
        return f"{what} at {format_size(self.size_bytes)}"

    def value(self, place: Pair) -> float | None:
        """None where there is no figure: see ``note``."""
        summary = self.sweep.measured(self.size_bytes).get(place)
        if summary is None:
            return None
        if self.figure == "bandwidth":
            return summary.algbw_bytes_per_s / BYTES_PER_GB
        return summary.time_s * US_PER_S

    def note(self, place: Pair) -> str:
        """Why there is no figure: x where nothing was to be measured."""
        result: CaseResult | None = self.sweep.by_size.get(self.size_bytes, {}).get(place)
        return "x" if result is None else _NOTES.get(result.status, result.status)

    def goodness(self, place: Pair) -> float | None:
        """0 for the worst and 1 for the best value of the matrix, in which 0.5 is about usual."""
        value = self.value(place)
        if value is None:
            return None
        known = sorted(
            found
            for found in map(self.value, self.sweep.by_size[self.size_bytes])
            if found is not None
        )
        middle = known[len(known) // 2]
        low = min(known[0], middle * (1 - _LEAST_RANGE))
        high = max(known[-1], middle * (1 + _LEAST_RANGE))
        share = (value - low) / (high - low) if high > low else 0.5
        return share if self.figure == "bandwidth" else 1 - share


def matrices_of(sweep: PairSweep) -> list[PairMatrix]:
    """Bandwidth and time of the largest size, and the time of the smallest."""
    sizes = sweep.sizes
    if not sizes:
        return []
    wanted = [(sizes[-1], "bandwidth"), (sizes[-1], "time"), (sizes[0], "time")]
    return [PairMatrix(sweep, *which) for which in dict.fromkeys(wanted)]


def at_once_lines(found: AtOnce) -> list[str]:
    """Which cases were measured with other pairs at work, and why."""
    lines = [
        f"pairs at once: {found.kept} of {found.later} cases after the first round, others alone"
    ]
    for ratios, what in ((found.undisturbed, "taken"), (found.disturbed, "not taken")):
        if ratios is not None:
            lines.append(
                f"at once, {what}: {ratios[0] - 1:+.1%} of the time alone (median), "
                f"{ratios[1] - 1:+.1%} (worst), at the largest size"
            )
    return lines


def meaning_of(operation: str) -> str:
    """What rows and columns are."""
    if operation in _ROOTED:
        return _ROOTED[operation]
    return _BETWEEN.get(operation, "one figure for each pair, in both of its cells")


def names_of(series: Sequence[Case]) -> list[str]:
    """What to call each of ``series``: its operation, and what tells it from the others."""
    shared = {
        name: len({getattr(one, name) for one in series}) == 1
        for name in ("ccl", "dtype", "placement")
    }
    reductions = {one.reduction for one in series if one.reduction is not None}
    names = []
    for one in series:
        words = [one.operation]
        words += [getattr(one, name) for name, same in shared.items() if not same]
        words += [one.reduction] if one.reduction is not None and len(reductions) > 1 else []
        names.append(" ".join(words))
    return names
