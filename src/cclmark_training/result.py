"""The results of trainings in journals."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.journal.item_results import ItemResult, are_equally_long, have_length
from cclmark.work.counts import AtLeastOne, Count, Duration
from cclmark.work.items import Status
from cclmark_training.plan import Training


class StepTimeline(msgspec.Struct, omit_defaults=True):
    """What runs in profiled steps, in seconds for one step, by rank.

    ``step_s``: from the end of a step to the end of the next one. ``compute_s``: something
    computes. ``exposed_s``: something communicates or waits for other ranks, and nothing computes.
    In the rest nothing runs. ``communication_s``: something communicates, hidden or not.
    ``compute_alone_s``: compute in steps without communication, empty if there were none.
    ``steps``: the number of profiled steps.
    """

    steps: Count
    step_s: list[float]
    communication_s: list[float]
    exposed_s: list[float]
    compute_s: list[float]
    compute_alone_s: list[float] = []


class GroupCalls(msgspec.Struct):
    """The calls of one operation in one kind of group in a step, by rank.

    ``group``: a dimension of the layout, ``ep``, or layout.TIED. ``ranks``: of one such group.
    ``operation``: a collective, or ``send``. ``size_bytes``: of all these messages together, as
    nccl-tests counts them: of an all_gather or a reduce_scatter the parts of all ranks.
    """

    group: str
    ranks: AtLeastOne
    operation: str
    calls: list[Count]
    size_bytes: list[Count]


class ReplicaDifference(msgspec.Struct):
    """A rank whose parameters differ from the others: the number of tensors, the first one.

    Where no majority of the ranks agrees, there is one for each of them.
    """

    rank: Count
    tensors: Count
    first: str


class ReplicaCheck(msgspec.Struct, omit_defaults=True):
    """Whether ranks hold equal parameters, with the number of elements that rank 0 compared."""

    elements: Count
    differences: list[ReplicaDifference] = []


class TrainingResult(ItemResult[Training], tag="training", omit_defaults=True):
    """A training and its outcome. ``status`` and ``reason``: as those of TrialResult.

    ``losses``: of the steps from the first one on, averaged over the ranks with different data; the
    first ``warmup_steps`` are warm-up. ``step_s``: the times of the timed steps by rank, which are
    the last ones. ``alone_s``: by rank, of steps without communication, half of them before the
    training and half after it; empty if the parallelism has no such step. ``timeline``: None if it
    is unknown, for ``timeline_reason``. ``peak_allocated_bytes``, ``peak_reserved_bytes``: the
    memory of torch's allocator by rank, empty on the host. ``estimated_bytes``: see
    cclmark_training.memory; ``free_bytes``: the free memory of the rank that has least.
    ``check``: None if no parameters have to be equal. ``training_s``: from the begin of the first
    step to the end of the last timed one; 0 in older journals. ``groups``: what a step calls in
    each kind of group, recorded in a step that is not timed; empty if it is unknown or nothing.
    """

    index: Count
    training: Training
    status: Status
    reason: str = ""
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    warmup_steps: Count = 0
    losses: list[float] = []
    step_s: list[list[Duration]] = []
    alone_s: list[list[Duration]] = []
    timeline: StepTimeline | None = None
    timeline_reason: str = ""
    peak_allocated_bytes: list[Count] = []
    peak_reserved_bytes: list[Count] = []
    estimated_bytes: Count = 0
    free_bytes: Count = 0
    check: ReplicaCheck | None = None
    report: str = ""
    training_s: float = 0.0
    groups: list[GroupCalls] = []

    @property
    def is_measured(self) -> bool:
        """Whether there are times."""
        return bool(self.step_s)

    @property
    def is_checked(self) -> bool:
        """Whether the parameters of all ranks were compared."""
        return self.check is not None

    @property
    def is_checkable(self) -> bool:
        """Whether the parallelism leaves equal parameters on all ranks."""
        return bool(self.training.comparable_ranks)

    @property
    def is_consistent(self) -> bool:
        """Whether lists by rank have its ranks, and all ranks the same steps."""
        ranks, timeline = self.training.ranks, self.timeline
        by_rank: list[Sequence[object]] = [self.step_s, self.alone_s]
        by_rank += [self.peak_allocated_bytes, self.peak_reserved_bytes]
        of_steps: list[Sequence[object]] = []
        if timeline is not None:
            by_rank.append(timeline.compute_alone_s)
            of_steps += [timeline.step_s, timeline.communication_s]
            of_steps += [timeline.exposed_s, timeline.compute_s]
        for one in self.groups:
            of_steps += [one.calls, one.size_bytes]
        return (
            all(len(values) in (0, ranks) for values in by_rank)
            and have_length(ranks, *of_steps)
            and are_equally_long(self.step_s)
            and are_equally_long(self.alone_s)
            and self.training.degrees.ranks == ranks
            and self.training.degrees.pp <= self.training.model.layers
            and all(one.rank < ranks for one in (self.check.differences if self.check else ()))
        )
