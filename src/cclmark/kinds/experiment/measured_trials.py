"""Measures trials of an adaptive run, whose next trials depend on the results so far."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cclmark.analysis.paired import Batch, Times
from cclmark.base.errors import EXIT_OK, MissingError, UsageError
from cclmark.base.statistics import median
from cclmark.document.exporters import exporter_of
from cclmark.document.text import counted
from cclmark.journal.item_results import Result
from cclmark.journal.resume import MEASURED, differing_plan
from cclmark.journal.schema import Explanation, Header, LibraryDescription, Paths, Predecessor
from cclmark.kinds.experiment.plan import Trial
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.launch.launching import FAILED_BEFORE, ExperimentLaunch, Starts, starts_of
from cclmark.launch.request import Listener, Outcome, Request, Surroundings
from cclmark.recording.caller import caller
from cclmark.recording.output import Output
from cclmark.recording.recorder import Recorded, Recorder, Silent, recording
from cclmark.rendezvous.messages import RankStatus
from cclmark.work.cases import Case
from cclmark.work.variants import Variant


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


_USUAL_CHANNELS = "channels of collectives"


@dataclass(frozen=True)
class TrialTimes:
    """The times of a trial in seconds: of a call, and of the device where launches set that one."""

    call_s: float
    device_s: float | None = None


Found = TypeVar("Found")


def ended(process: Generator[Batch, Times | None, Found]) -> Found:
    """The result of a search that gets no more times."""
    try:
        process.send(None)
    except StopIteration as end:
        found: Found = end.value
        return found
    raise AssertionError("a search continues after its end")


class EndedError(Exception):
    """A failure that ends the run."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class Measuring:
    """Measures trials that have no result yet, and keeps all results.

    ``earlier``: the results of an interrupted run, which count again.
    """

    def __init__(
        self, request: Request, listener: Listener, earlier: Collection[TrialResult] = ()
    ) -> None:
        self._request = request
        self._results = {
            one.trial: msgspec.structs.replace(one, index=index)
            for index, one in enumerate({one.trial: one for one in earlier}.values())
        }
        self._listener = _Numbering(listener, len(self._results), self._results)
        self._costs = TrialCosts()
        self._costs.add(self._results.values())
        #: The exit code of the attempt in which a variant failed.
        self.failures: dict[Variant, int] = {}

    @property
    def number(self) -> int:
        """The number of trials with a result."""
        return len(self._results)

    @property
    def usual_channels(self) -> int:
        """The channels of a communicator by default, 0 if unknown. Known after ``observe``."""
        text = self._listener.parameters.get(_USUAL_CHANNELS, "")
        return int(text) if text.isdecimal() else 0

    def library(self, name: str) -> LibraryDescription:
        """The library of this name as the ranks have loaded it. Raises MissingError without it."""
        surroundings = self._listener.surroundings
        assert surroundings is not None
        for one in surroundings.libraries:
            if one.name == name:
                return one
        raise MissingError(f"the ranks report no library {name}")

    def conditions(self, library: str) -> tuple[str, str, int | None]:
        """Version, device, NVLinks, None if unknown. Raises MissingError if devices differ."""
        surroundings = self._listener.surroundings
        assert surroundings is not None
        version = self.library(library).version
        names = {device.name for device in surroundings.devices}
        if len(names) > 1:
            raise MissingError(
                f"the devices differ ({', '.join(sorted(names))}): tune them separately"
            )
        counts = dict.fromkeys((one.rank for one in surroundings.devices), 0)
        counts.update({one.device: one.count for one in surroundings.links if one.kind == "NVLink"})
        if not surroundings.links:
            return version, names.pop(), None
        if len(set(counts.values())) > 1:
            numbers = ", ".join(f"rank {rank}: {count}" for rank, count in sorted(counts.items()))
            raise MissingError(
                f"the devices have different numbers of active NVLinks ({numbers}): with one table "
                "for all of them, ranks would select different settings"
            )
        return version, names.pop(), next(iter(counts.values()))

    @property
    def device_names(self) -> list[str]:
        """The name of each kind of device. Known after ``observe``."""
        surroundings = self._listener.surroundings
        assert surroundings is not None
        return list(dict.fromkeys(device.name for device in surroundings.devices))

    def measure(self, trials: Sequence[Trial]) -> dict[Trial, float | None]:
        """The compared time of each trial in seconds, None if it failed. Raises EndedError."""
        missing = [one for one in trials if one not in self._results]
        if missing:
            begin_s = time.monotonic()
            launch = self._launch(missing)
            outcome = launch.run()
            self.failures.update(launch.failures)
            if outcome.exit_code != EXIT_OK:
                raise EndedError(outcome)
            results = [self._results[one] for one in missing if one in self._results]
            elapsed_s = time.monotonic() - begin_s
            self._costs.add_round(elapsed_s, results, starts_of(missing), launch.creation_s)
        return {one: compared_time(self._results.get(one)) for one in trials}

    def expected_s(self, trials: Sequence[Trial]) -> float | None:
        """The estimated seconds to measure trials; None before any was measured."""
        return self._costs.expected_s([one.case for one in trials], starts_of(trials))

    def figures(self, trial: Trial) -> TrialTimes | None:
        """The times of a measured trial, None if it failed."""
        return figures_of(self._results.get(trial))

    def observe(self, trials: Sequence[Trial]) -> dict[Trial, Explanation]:
        """What the library runs in each trial. Raises EndedError."""
        launch = self._launch(trials)
        self._listener.explanations.clear()
        outcome = launch.observe(range(len(trials)))
        if outcome.exit_code != EXIT_OK:
            raise EndedError(outcome)
        found = {trials[index]: one for index, one in self._listener.explanations.items()}
        for trial, explanation in found.items():
            if (result := self._results.get(trial)) is not None:
                self._listener.explain(result.index, explanation)
        return found

    def _launch(self, trials: Sequence[Trial]) -> ExperimentLaunch:
        request = replace(self._request, planned=trials, pending=())
        if self._listener.surroundings is not None:
            request = replace(request, warnings=())
        return ExperimentLaunch(
            request, self._listener, begun=self._listener.surroundings is not None
        )


def figures_of(result: TrialResult | None) -> TrialTimes | None:
    """The times of a result, None if it has none or is wrong."""
    if result is None or result.summary is None or result.status != "ok":
        return None
    device_s = None if result.device is None else result.device.summary.time_s
    return TrialTimes(result.summary.time_s, device_s)


def compared_time(result: TrialResult | None) -> float | None:
    """The device's time where launches determine the cost of a call, else the time of a call."""
    found = figures_of(result)
    if found is None:
        return None
    return found.call_s if found.device_s is None else found.device_s


class _Numbering(Listener):
    """Numbers the results of all launches through, and keeps them."""

    def __init__(self, listener: Listener, number: int, results: dict[Trial, TrialResult]) -> None:
        super().__init__(listener)
        self._number = number
        self._results = results
        self.surroundings: Surroundings | None = None
        self.explanations: dict[int, Explanation] = {}
        self.parameters: dict[str, str] = {}
        self._noticed: set[str] = set()

    def started(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self._noticed.update(surroundings.notices)
        super().started(surroundings)
        for result in list(self._results.values()):  # of an interrupted run
            super().result(result)

    def result(self, result: Result) -> None:
        assert isinstance(result, TrialResult)
        numbered = msgspec.structs.replace(result, index=self._number)
        self._number += 1
        self._results[result.trial] = numbered
        super().result(numbered)

    def explanation(self, explanation: Explanation) -> None:
        self.explanations[explanation.index] = explanation

    def explain(self, index: int, explanation: Explanation) -> None:
        """Passes on what ran in the trial with this number."""
        super().explanation(msgspec.structs.replace(explanation, index=index))

    def paths(self, paths: Paths) -> None:
        if not self.parameters:
            self.parameters = dict(paths.parameters)
            super().paths(paths)

    def notice(self, text: str) -> None:
        """Passes on what no earlier launch has reported."""
        if text not in self._noticed:
            self._noticed.add(text)
            super().notice(text)

    def progress(self, rank_status: RankStatus) -> None:
        super().progress(msgspec.structs.replace(rank_status, case_index=-1))


@dataclass(frozen=True)
class EarlierTrials:
    """``results``: those that count again. ``repeated``: the number of those that do not."""

    header: Header
    path: Path
    results: list[TrialResult]
    repeated: int
    damaged_lines: int

    @classmethod
    def read(
        cls,
        path: Path,
        request: Request,
        command: str,
        fits: Callable[[Trial], bool],
        *,
        repeats_failures: bool = False,
    ) -> EarlierTrials:
        """Reads a journal of ``command``.

        ``fits``: whether a trial is one of such a command. ``repeats_failures``: trials that failed
        are measured again. Raises UsageError for a journal of another command, another plan or
        other settings, and the errors of read_journal.
        """
        journal = read_journal(path, as_written=True)
        header, trials = journal.header, journal.of(TrialResult)
        found = differing_plan(header, request.outline, request.settings)
        # A run that was interrupted before its first trial has none, but its plan fits.
        if header.plan is None or not all(fits(one.trial) for one in trials):
            found.append(f"it is not the journal of {command}")
        if found:
            raise UsageError(f"{path} does not fit this command: {'; '.join(found)}")
        kept = [one for one in trials if not repeats_failures or _is_measured(one)]
        return cls(header, path, kept, len(trials) - len(kept), journal.unread_lines)

    @property
    def predecessor(self) -> Predecessor:
        """The predecessor for the header of the resuming run."""
        return Predecessor(self.header.run_id, str(self.path.absolute()), len(self.results))

    def notices(self) -> list[str]:
        """Returns notices about trials that this run did not measure."""
        found = [
            f"{counted(len(self.results), 'trial')} of {self.path}, begun "
            f"{self.header.started_at}, {'is' if len(self.results) == 1 else 'are'} kept"
        ]
        if self.repeated:
            found[0] += f"; {counted(self.repeated, 'trial')} that failed there are measured again"
        if self.damaged_lines:
            lines = counted(self.damaged_lines, "line")
            found.append(f"{lines} of {self.path} cannot be used")
        return found


def _is_measured(result: TrialResult) -> bool:
    return result.status in MEASURED and not result.reason.startswith(FAILED_BEFORE)


def record_search(
    request: Request,
    earlier: EarlierTrials | None,
    journal: Path,
    began_s: float,
    search: Callable[[Measuring, Recorder], tuple[Mapping[str, Any], Outcome]],
    format: str = "table",
    *,
    is_quiet: bool = False,
    numbers: bool = False,
) -> Recorded:
    """Runs a search and records its trials and its result in the new file ``journal``.

    ``earlier``: the trials of the run that this one resumes. ``search`` returns what the footer
    contains as ``found``. Raises UsageError if the journal cannot be
    created, and the errors of ``search``.
    """
    with contextlib.closing(Output(None)) as printed:
        view = replace(printed.view, numbers=numbers)
        exporter = Silent() if caller().is_silent else exporter_of(request.kind, format, view)
        with recording(
            *(journal, printed, lambda: exporter, request, began_s),
            earlier=earlier,
            is_quiet=is_quiet,
        ) as recorder:
            known = () if earlier is None else earlier.results
            found, outcome = search(Measuring(request, recorder, known), recorder)
            outcome = replace(outcome, found=found)
            return Recorded(recorder.finish(outcome, can_resume=True), outcome)
