"""Trials whose times a function gives, see cclmark.kinds.experiment.measured_trials.Measuring."""

import math
import random
from collections.abc import Mapping, Sequence

import msgspec

from cclmark.document.blocks import Document
from cclmark.document.document_text import TextLines
from cclmark.document.report_kind import View
from cclmark.journal.schema import Footer
from cclmark.kinds.experiment.measured_trials import TrialTimes
from cclmark.kinds.experiment.plan import Trial
from cclmark.kinds.experiment.result import as_found
from cclmark.kinds.tune.document import document_of_result
from cclmark.kinds.tune.result import TuneResult, result_of
from evidence import require_evidence

NOISE = 0.003


def stored_document(result: TuneResult) -> Document:
    """The document of a result that was written to a journal and read again."""
    line = msgspec.json.encode(Footer("", 0, 1.0, found=as_found(result)))
    again = result_of(msgspec.json.decode(line, type=Footer))
    assert again is not None
    document = document_of_result(again)
    require_evidence(document.findings, {})
    return document


def text_of(result: TuneResult) -> str:
    """What a terminal shows of a result."""
    return TextLines(View()).whole(stored_document(result))


def driven(steps, times_of, most=math.inf):
    """The end of a search that yields batches, and its batches.

    ``times_of``: the times of a batch by cell. After ``most`` batches the deadline has passed.
    """
    times, batches = None, []
    while True:
        try:
            batch = steps.send(times)
        except StopIteration as end:
            return end.value, batches
        times = None
        if len(batches) < most:
            batches.append(batch)
            times = times_of(batch)


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
