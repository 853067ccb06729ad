"""How long trials take, estimated from the trials of a tuning run that were measured before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cclmark.analysis.statistics import median
from cclmark.plan.cases import Case
from cclmark.results.kinds import TrialResult


class TrialCosts:
    """The time of a set of processes without its trials, and the time of a trial by case."""

    def __init__(self) -> None:
        self._starts_s: list[float] = []
        self._by_case: dict[Case, list[float]] = {}

    def add(self, results: Iterable[TrialResult]) -> None:
        """Adds the durations of measured trials. Trials without figures end early."""
        for one in results:
            if one.is_measured:
                case = one.trial.case
                self._by_case.setdefault(case, []).append(one.duration_s)

    def add_round(self, elapsed_s: float, results: Sequence[TrialResult], processes: int) -> None:
        """Adds trials that took ``elapsed_s`` together, in ``processes`` sets of processes."""
        self.add(results)
        own_s = sum(one.duration_s for one in results)
        self._starts_s.append(max(0.0, elapsed_s - own_s) / max(1, processes))

    def expected_s(self, cases: Iterable[Case], processes: int) -> float | None:
        """The seconds that trials of these cases take; None before the first round."""
        if not self._starts_s or not self._by_case:
            return None
        return processes * median(self._starts_s) + sum(map(self._of_case, cases))

    def _of_case(self, case: Case) -> float:
        """The median time of a trial of this case, or of those of the nearest sizes."""
        known = self._by_case.get(case)
        if known is None:
            alike = [one for one in self._by_case if one.operation == case.operation]
            by_size = sorted(
                alike or self._by_case, key=lambda one: abs(one.size_bytes - case.size_bytes)
            )
            known = self._by_case[by_size[0]]
        return median(known)
