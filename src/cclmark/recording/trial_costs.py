"""How long trials take, estimated from the trials of a tuning run that were measured before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cclmark.analysis.statistics import median
from cclmark.kinds.experiment.result import TrialResult
from cclmark.launch.experiment_launch import Starts
from cclmark.plan.cases import Case


class TrialCosts:
    """The time of a trial by case, of starting a set of processes and of a communicator.

    The search may measure many communicators in one set of processes, and the proof has one in
    each: both times have to be known apart. Rounds with different numbers of communicators in a
    set of processes tell them apart; before, the ranks' own time for communicators and buffers
    does.
    """

    def __init__(self) -> None:
        #: By the number of communicators per set of processes: the seconds of such a set, without
        #: its trials.
        self._starts_s: dict[float, list[float]] = {}
        self._creations_s: list[float] = []
        self._by_case: dict[Case, list[float]] = {}

    def add(self, results: Iterable[TrialResult]) -> None:
        """Adds the durations of measured trials. Trials without figures end early."""
        for one in results:
            if one.is_measured:
                case = one.trial.case
                self._by_case.setdefault(case, []).append(one.duration_s)

    def add_round(
        self,
        elapsed_s: float,
        results: Sequence[TrialResult],
        starts: Starts,
        creation_s: float = 0.0,
    ) -> None:
        """Adds trials that took ``elapsed_s`` together, with what was started for them.

        ``creation_s``: the part of it in which ranks created communicators, as far as known.
        """
        self.add(results)
        own_s = max(0.0, elapsed_s - sum(one.duration_s for one in results))
        density = starts.communicators / starts.processes
        self._starts_s.setdefault(density, []).append(own_s / starts.processes)
        self._creations_s.append(creation_s / starts.communicators)

    def expected_s(self, cases: Iterable[Case], starts: Starts) -> float | None:
        """The seconds that trials of these cases take; None before the first round."""
        if not self._starts_s or not self._by_case:
            return None
        process_s, communicator_s = self._start_times()
        own_s = sum(map(self._of_case, cases))
        return starts.processes * process_s + starts.communicators * communicator_s + own_s

    def _start_times(self) -> tuple[float, float]:
        """The seconds to start a set of processes, and to create a communicator.

        From the fewest and the most communicators per set of processes so far, or from the ranks'
        own time for communicators as long as all rounds had the same number.
        """
        known = [(density, median(times)) for density, times in sorted(self._starts_s.items())]
        (least, least_s), (most, most_s) = known[0], known[-1]
        if least == most:
            slope_s = median(self._creations_s)
        else:
            slope_s = (most_s - least_s) / (most - least)
        communicator_s = min(max(0.0, slope_s), least_s / least)
        return least_s - least * communicator_s, communicator_s

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
