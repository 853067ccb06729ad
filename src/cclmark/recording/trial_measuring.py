"""Measures trials of an adaptive run, whose next trials depend on the results so far."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from cclmark.errors import EXIT_OK, MissingError
from cclmark.launch.experiment_launch import ExperimentLaunch
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.plan.trials import Trial
from cclmark.rendezvous.messages import RankStatus
from cclmark.results.kinds import Result, TrialResult
from cclmark.results.schema import Condition, Explanation, Paths

_USUAL_CHANNELS = "channels of collectives"


class Measuring(Protocol):
    """Measures trials for a tuning run."""

    @property
    def number(self) -> int:
        """The number of trials with a result."""

    @property
    def usual_channels(self) -> int:
        """The channels of a communicator by default, 0 if unknown. Known after ``observe``."""

    def conditions(self, library: str) -> tuple[str, str, int | None]:
        """The library's version, the device's name and its NVLinks, None if unknown."""

    def measure(self, trials: Sequence[Trial]) -> dict[Trial, float | None]:
        """The compared time of each trial in seconds, None if it failed. Raises EndedError."""

    def observe(self, trials: Sequence[Trial]) -> dict[Trial, Explanation]:
        """What the library runs in each trial. Raises EndedError."""


class EndedError(Exception):
    """A failure that ends the run."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class TrialMeasuring:
    """Measures trials that have no result yet, and keeps all results: see Measuring.

    ``earlier``: the results of an interrupted run, which count again.
    """

    def __init__(
        self, request: Request, listener: Listener, earlier: Collection[TrialResult] = ()
    ) -> None:
        self._request = request
        self._results: dict[Trial, TrialResult] = {one.trial: one for one in earlier}
        self._listener = _Numbering(listener, len(self._results), self._results)

    @property
    def number(self) -> int:
        """The number of trials with a result."""
        return len(self._results)

    @property
    def usual_channels(self) -> int:
        """The channels of a communicator by default, 0 if unknown."""
        text = self._listener.parameters.get(_USUAL_CHANNELS, "")
        return int(text) if text.isdecimal() else 0

    def conditions(self, library: str) -> tuple[str, str, int | None]:
        """See Measuring. Raises MissingError if the devices differ."""
        surroundings = self._listener.surroundings
        assert surroundings is not None
        version = next((one.version for one in surroundings.libraries if one.name == library), "")
        names = {device.name for device in surroundings.devices}
        if len(names) > 1:
            raise MissingError(f"the devices differ ({', '.join(sorted(names))}): tune them apart")
        links = {one.count for one in surroundings.links if one.kind == "NVLink"}
        known = bool(surroundings.links)
        nvlinks = (max(links) if links else 0) if known else None
        return version, names.pop(), nvlinks

    def measure(self, trials: Sequence[Trial]) -> dict[Trial, float | None]:
        """See Measuring."""
        missing = [one for one in trials if one not in self._results]
        if missing:
            outcome = self._launch(missing).run()
            if outcome.exit_code != EXIT_OK:
                raise EndedError(outcome)
        return {one: compared_time(self._results.get(one)) for one in trials}

    def observe(self, trials: Sequence[Trial]) -> dict[Trial, Explanation]:
        """See Measuring."""
        launch = self._launch(trials)
        self._listener.explanations.clear()
        outcome = launch.observe(range(len(trials)))
        if outcome.exit_code != EXIT_OK:
            raise EndedError(outcome)
        return {trials[index]: one for index, one in self._listener.explanations.items()}

    def _launch(self, trials: Sequence[Trial]) -> ExperimentLaunch:
        request = replace(self._request, planned=trials, pending=())
        if self._listener.surroundings is not None:
            request = replace(request, warnings=())
        return ExperimentLaunch(
            request, self._listener, begun=self._listener.surroundings is not None
        )


def compared_time(result: TrialResult | None) -> float | None:
    """The device's time where launches determine the cost of a call, else the time of a call."""
    if result is None or result.summary is None or result.status != "ok":
        return None
    return (result.summary if result.device is None else result.device.summary).time_s


class _Numbering:
    """Numbers the results of all launches through, and keeps them."""

    def __init__(self, listener: Listener, number: int, results: dict[Trial, TrialResult]) -> None:
        self._listener = listener
        self._number = number
        self._results = results
        self.surroundings: Surroundings | None = None
        self.explanations: dict[int, Explanation] = {}
        self.parameters: dict[str, str] = {}

    def started(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self._listener.started(surroundings)

    def result(self, result: Result) -> None:
        assert isinstance(result, TrialResult)
        numbered = msgspec.structs.replace(result, index=self._number)
        self._number += 1
        self._results[result.trial] = numbered
        self._listener.result(numbered)

    def condition(self, condition: Condition) -> None:
        self._listener.condition(condition)

    def explanation(self, explanation: Explanation) -> None:
        self.explanations[explanation.index] = explanation

    def paths(self, paths: Paths) -> None:
        if not self.parameters:
            self.parameters = dict(paths.parameters)
            self._listener.paths(paths)

    def notice(self, text: str) -> None:
        self._listener.notice(text)

    def progress(self, rank_status: RankStatus) -> None:
        self._listener.progress(msgspec.structs.replace(rank_status, case_index=-1))
