"""The results of ``cclmark need`` in journals."""

from __future__ import annotations

from cclmark.base.errors import UsageError
from cclmark.journal.item_results import UncheckedResult
from cclmark.work.counts import Count, Elapsed
from cclmark.work.items import Status
from cclmark_planning.need.plan import Need
from cclmark_planning.scale.step import NeededNetwork, StepTime
from cclmark_planning.scale.traffic import GroupTraffic
from cclmark_planning.scale.training_job import check_job


class NeedResult(UncheckedResult[Need], tag="need", omit_defaults=True):
    """The messages of a job, and the network that they need. ``status``: ok, or skipped with a
    reason.

    ``stage``: of the pipeline, the one whose devices send most to other nodes; ``traffic``: what
    one of them sends in a step. ``compute_s``: of a step. ``judged``: the step on the network of
    the item, None if it has no line rate.
    """

    index: Count
    need: Need
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    stage: Count = 0
    compute_s: Elapsed = 0.0
    traffic: list[GroupTraffic] = []
    needed: NeededNetwork | None = None
    judged: StepTime | None = None

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return self.needed is not None

    @property
    def is_consistent(self) -> bool:
        """Whether the job is possible, and figures have a step that takes time."""
        if self.needed is None:
            return True
        try:
            check_job(self.need.job)
        except (UsageError, ArithmeticError):
            return False
        has_rate = self.need.network.bps > 0
        steps = [self.needed.without, *([self.judged] if self.judged is not None else [])]
        return (
            has_rate == (self.judged is not None)
            and all(one.step_s > 0 for one in steps)
            and min(self.compute_s, self.need.network.node_bps, self.need.network.efficiency) > 0
            and self.stage < self.need.job.layout.pp
            and all(one.ranks % one.on_node == 0 for one in self.traffic)
        )
