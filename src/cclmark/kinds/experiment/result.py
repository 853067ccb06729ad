"""The results of experiments in journals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from cclmark.journal.item_results import ExplainedResult, are_of_ranks
from cclmark.journal.schema import DeviceTime, Explanation, Footer, Samples, Summary, Verification
from cclmark.kinds.experiment.bisection import Bisected
from cclmark.kinds.experiment.plan import Trial
from cclmark.work.cases import Case
from cclmark.work.counts import Count
from cclmark.work.items import Status


class TrialResult(ExplainedResult[Trial], tag="trial", omit_defaults=True):
    """A trial and its outcome. ``status``, ``reason`` and the figures: as those of CaseResult.

    A variant that failed has the status of the failure in its trial, and its later trials are
    skipped. ``explanation``: of the trials of the first round; a journal stores it in a separate
    line.
    """

    index: Count
    trial: Trial
    status: Status
    reason: str = ""
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    samples: Samples | None = None
    summary: Summary | None = None
    device: DeviceTime | None = None
    verification: Verification | None = None
    report: str = ""
    explanation: Explanation | None = None

    @property
    def summarised(self) -> Case:
        """The case of the trial."""
        return self.trial.case

    @property
    def is_consistent(self) -> bool:
        """Whether samples and findings are of the ranks of the case."""
        samples = (self.samples, None if self.device is None else self.device.samples)
        return are_of_ranks(samples, self.verification, self.trial.case.ranks)


class BisectionResult(msgspec.Struct, frozen=True, tag="bisection"):
    """A bisection with what ran. ``found``: None without enough rounds.

    ``keep``: the share that the value of the setting ``name`` has to keep in each of ``cases``.
    ``without_effect``: for each value with which the setting did not take effect at any size, the
    reason.
    """

    name: str
    cases: list[Case]
    keep: float
    found: Bisected | None
    without_effect: Mapping[int, str] = {}


def as_found(result: msgspec.Struct) -> dict[str, Any]:
    """The result of an adaptive run as the footer of its journal contains it."""
    found: dict[str, Any] = msgspec.to_builtins(result, str_keys=True)
    return found


FoundT = TypeVar("FoundT")


def found_in(footer: Footer | None, type: type[FoundT]) -> FoundT | None:
    """The result of a type in the footer of a journal; None without a legible one."""
    if footer is None or not footer.found:
        return None
    try:
        return msgspec.convert(footer.found, type, str_keys=True)
    except msgspec.ValidationError:
        return None
