"""The results of experiments in journals."""

from __future__ import annotations

from cclmark.journal.item_results import ExplainedResult, are_of_ranks
from cclmark.journal.schema import DeviceTime, Explanation, Samples, Summary, Verification
from cclmark.kinds.experiment.plan import Trial
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
    def is_consistent(self) -> bool:
        """Whether samples and findings are of the ranks of the case."""
        samples = (self.samples, None if self.device is None else self.device.samples)
        return are_of_ranks(samples, self.verification, self.trial.case.ranks)
