"""Trials whose times a function gives, see cclmark.kinds.experiment.measured_trials.Measuring."""

import random
from collections.abc import Mapping, Sequence

from cclmark.kinds.experiment.measured_trials import TrialTimes
from cclmark.kinds.experiment.plan import Trial

NOISE = 0.003


class SimulatedTrials:
    """Subclasses have ``_time``: seconds of a trial, None where it fails."""

    def __init__(self, *, seed: int = 0) -> None:
        self.number = 0
        self.seen: list[Trial] = []
        self._random = random.Random(seed)
        self._times: dict[Trial, float | None] = {}

    def expected_s(self, trials: Sequence[Trial]) -> float | None:
        """No times are known before a trial."""
        return None

    def measure(self, trials: Sequence[Trial]) -> Mapping[Trial, float | None]:
        """The times of trials, which are kept."""
        self.seen += trials
        self.number += len(trials)
        self._times.update({one: self._time(one) for one in trials})
        return {one: self._times[one] for one in trials}

    def figures(self, trial: Trial) -> TrialTimes | None:
        """The times of a trial that was measured."""
        time_s = self._times[trial]
        return None if time_s is None else TrialTimes(time_s)

    def noise(self) -> float:
        """The factor of the next time."""
        return self._random.lognormvariate(0, NOISE)

    def _time(self, trial: Trial) -> float | None:
        raise NotImplementedError
