"""The results of step predictions in journals."""

from __future__ import annotations

from cclmark.journal.item_results import UncheckedResult
from cclmark.work.counts import Count, Elapsed, NotNegative
from cclmark.work.items import Status
from cclmark_planning.scale.step import StepTime
from cclmark_planning.scaling.plan import MEASURED, ScaledJob


class ScaledResult(UncheckedResult[ScaledJob], tag="scaled", omit_defaults=True):
    """The step of a job. ``status``: ok, or skipped with a ``reason``.

    ``step``: its parts; ``low_s`` and ``high_s``: 5 % of the expected steps are below or above.
    ``measured_s``: of a measured job, which is predicted from other measured ones if there are any;
    None for other jobs. ``baseline_s``: the step with their model FLOPs utilization, or of a
    program the step on fewer GPUs.
    ``needed_bytes``: the memory of a GPU that the job takes at least.
    """

    index: Count
    scaled: ScaledJob
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    step: StepTime | None = None
    low_s: Elapsed | None = None
    high_s: Elapsed | None = None
    measured_s: Elapsed | None = None
    baseline_s: Elapsed | None = None
    needed_bytes: NotNegative = 0.0

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return self.step is not None or self.measured_s is not None

    @property
    def is_consistent(self) -> bool:
        """Whether a step has an interval around it, and only measured jobs have a measured step."""
        if self.measured_s is not None and self.scaled.purpose != MEASURED:
            return False
        if self.step is None:
            return self.low_s is None and self.high_s is None
        if self.low_s is None or self.high_s is None:
            return False
        return 0 < self.low_s <= self.step.step_s * (1 + 1e-9) <= self.high_s * (1 + 2e-9)
