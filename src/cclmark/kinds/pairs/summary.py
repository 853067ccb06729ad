"""The findings on collectives of pairs, in sentences shared by all text formats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from cclmark.analysis.pair_results import (
    PairDeviation,
    PairPoint,
    PairSweep,
    at_once,
    pair_outliers,
    sweeps,
)
from cclmark.document.deviations import relative
from cclmark.document.device_labels import labels, pair_name, way_between
from cclmark.document.explained_pairs import explained_pair_lines
from cclmark.document.matrix import figure
from cclmark.document.remarks import planned_results, unsettled_text
from cclmark.document.text import BYTES_PER_GB, US_PER_S
from cclmark.plan.cases import Case
from cclmark.plan.pair_cases import Pair
from cclmark.plan.sizes import format_size
from cclmark.printable import plain
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Explanation, Header

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


_MOST_NAMED = 10
_GIVEN_UP = ("timeout", "died")
_LEAST_AT_ONCE = 4  # devices: with fewer, a round has only one pair


class PairSummary:
    """Sentences on all results of a run."""

    def __init__(
        self,
        header: Header,
        names: Sequence[str],
        results: Sequence[CaseResult],
        sweeps: Sequence[tuple[PairSweep, str]],
    ) -> None:
        """``names``: of the devices; ``sweeps``: each with its name."""
        self._header = header
        self._names = names
        self._results = results
        self._sweeps = sweeps

    def course(self, sweep: PairSweep) -> str:
        """Describes the bandwidth at the largest and the time at the smallest size."""
        points = sweep.measured
        if not points:
            statuses = {result.status for result in sweep.points[-1].results.values()}
            return "every pair was wrong" if "wrong" in statuses else "nothing was measured"
        rates = {
            place: summary.algbw_bytes_per_s / BYTES_PER_GB
            for place, summary in points[-1].once.items()
        }
        text = (
            f"{figure((points[-1].bytes_per_s or 0.0) / BYTES_PER_GB)} GB/s at "
            f"{format_size(points[-1].size_bytes)}"
        )
        if len(rates) > 1:
            worst, best = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
            text += (
                f", from {figure(rates[worst])} ({self._pair(worst, sweep.series)}) to "
                f"{figure(rates[best])} ({self._pair(best, sweep.series)})"
            )
        time_s = points[0].time_s or 0.0
        return f"{text}; {figure(time_s * US_PER_S)} µs at {format_size(points[0].size_bytes)}"

    def standing_out(self) -> list[tuple[PairDeviation, str]]:
        """Returns the pairs that stand out, the slowest first."""
        names = {sweep.series: name for sweep, name in self._sweeps}
        sweeps_of_all = [sweep for sweep, _ in self._sweeps]
        found = [
            (one, f"{self._pair(one.pair, one.series)}: {_deviation(one)}: {names[one.series]}, "
            f"{format_size(one.size_bytes)}")
            for one in pair_outliers(sweeps_of_all, self._header)
        ]  # fmt: skip
        return found[:_MOST_NAMED]

    def mismatches(self, sweep: PairSweep) -> list[str]:
        """Describes wrong data by the first wrong element of each output."""
        lines: dict[str, None] = {}
        for point in sweep.points:
            for result in point.results.values():
                for found in result.verification.findings if result.verification else []:
                    lines[
                        f"{self._case(result.case)}: "
                        f"{self._names[found.rank]} got {found.wrong} wrong, "
                        f"first at index {found.first_element}: expected {found.expected}, "
                        f"got {found.actual}" + self._beside(result)
                    ] = None
        return list(lines)

    def skipped(self, sweep: PairSweep) -> list[str]:
        """Describes cases without figures: the sign in the cells, the size or pair, the reason."""
        groups: dict[tuple[str, str, str], list[Case]] = {}
        for point in sweep.points:
            for case, result in {one.case: one for one in point.results.values()}.items():
                if result.summary is None and case.pair is not None:
                    sign = NOTES.get(result.status, result.status)
                    given_up = result.status in _GIVEN_UP
                    about = (
                        self._pair(case.pair, case) if given_up else format_size(case.size_bytes)
                    )
                    groups.setdefault((sign, about, result.reason), []).append(case)
        return [
            f"{sign}  {self._case(cases[0]) if len(cases) == 1 else about}: {plain(reason)}"
            for (sign, about, reason), cases in groups.items()
        ]

    def explained(self) -> list[str]:
        """Returns what the library did for each pair; empty without ``--explain``."""
        return explained_pair_lines(self._results, self._way)

    def at_once(self) -> list[str]:
        """Describes how many cases were measured beside other pairs, and the effect on times."""
        header, found = self._header, at_once(self._results)
        if found is not None:
            return [
                f"{found.kept} of {len(self._results)} cases were measured with other pairs at "
                "work, because a message of another size took the same pairs "
                f"{found.median_ratio - 1:+.1%} (median), {found.worst_ratio - 1:+.1%} (worst) "
                "longer so than alone"
            ]
        if len(header.devices) < _LEAST_AT_ONCE or header.settings.one_by_one or not self._results:
            return []
        return ["every pair was measured alone"]

    def outcome(self) -> str:
        """Counts the measured and the checked cases."""
        results = self._results
        planned = planned_results(self._header)
        checked = sum(result.verification is not None for result in results)
        wrong = sum(result.status == "wrong" for result in results)
        skipped = sum(result.status == "skipped" for result in results)
        given_up = sum(result.status in _GIVEN_UP for result in results)
        text = f"{checked} of {max(planned, len(results))} cases checked, {wrong} wrong"
        if results and not self._header.settings.check and not checked + wrong:
            text = f"{max(planned, len(results))} cases, not checked (-c 0)"
        text += f", {skipped} skipped" if skipped else ""
        return text + (f", {given_up} given up" if given_up else "")

    def unsettled(self) -> str:
        """Describes medians that did not reach the requested precision; empty if all did."""
        return unsettled_text(self._header.settings, self._results)

    def _pair(self, pair: Pair, series: Case) -> str:
        return pair_name(pair, series.operation, self._names)

    def _case(self, case: Case) -> str:
        return f"{format_size(case.size_bytes)} {self._way(case)}"

    def _way(self, case: Case) -> str:
        return way_between(case, self._names)

    @staticmethod
    def _beside(result: CaseResult) -> str:
        if not result.beside:
            return ""
        return f" (with {result.beside} other pair{'s' * (result.beside > 1)} at work)"


class GatheredPairs:
    """The base of exporters that print at the end: only the last pair completes a matrix."""

    def __init__(self) -> None:
        self._results: list[CaseResult] = []
        self._explanations: dict[int, Explanation] = {}

    def begin(self, header: Header) -> str:
        """Stores the devices and returns the opening."""
        self._header = header
        self._names = labels(header.devices)
        return self.opening()

    def add(self, result: CaseResult) -> str:
        """Stores the result; returns an empty text."""
        # Without raw samples, because pairs are many.
        self._results.append(msgspec.structs.replace(result, samples=None))
        return ""

    def explain(self, explanation: Explanation) -> None:
        """Stores the explanation of a case."""
        self._explanations[explanation.index] = explanation

    def opening(self) -> str:
        """Returns the text before the results."""
        raise NotImplementedError

    def gathered(self) -> tuple[list[tuple[PairSweep, str]], PairSummary]:
        """Returns the sweeps with their names, and the summary of all results."""
        for result in self._results:
            result.explanation = self._explanations.get(result.index, result.explanation)
        found = sweeps(self._results)
        named = list(zip(found, names_of([sweep.series for sweep in found]), strict=True))
        return named, PairSummary(self._header, self._names, self._results, named)


def _deviation(one: PairDeviation) -> str:
    return (
        f"{figure(one.time_s * US_PER_S)} µs, usual for {one.kind} "
        f"{figure(one.usual_s * US_PER_S)} µs "
        f"({relative(one.time_s, one.usual_s, lower_is_better=True)})"
    )
