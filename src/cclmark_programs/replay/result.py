"""The results of replays in journals."""

from __future__ import annotations

from itertools import chain

import msgspec

from cclmark.journal.item_results import ItemResult, are_equally_long, are_of_ranks
from cclmark.journal.schema import Verification
from cclmark.work.counts import Count, Elapsed
from cclmark.work.items import Status
from cclmark.work.profiled import ProfiledOperation
from cclmark_programs.replay.plan import Replay


class ReplayedOperation(msgspec.Struct):
    """The calls of a step that are alike. Times are seconds for one step, averaged over ranks.

    ``operation``: as the profile counts it. ``calls``: of the rank that makes most in a step.
    ``program_s``: in the program, 0 if unknown; ``time_s``: in the replay, the median of the steps.
    ``ratios``: the lowest and the highest of a call of a rank to the program; empty if unknown.
    """

    operation: ProfiledOperation
    calls: Count
    program_s: Elapsed
    time_s: Elapsed
    ratios: list[Elapsed] = []


class ReplayResult(ItemResult[Replay], tag="replay", omit_defaults=True):
    """A replay and its outcome. ``status`` and ``reason``: as those of TrialResult.

    ``span_s``: by rank, of every step, from the start of its first call to the end of the last one;
    ``communication_s``: in which at least one call ran whose time in the program is known as a
    whole, or at least one of all if there is none. ``enqueue_s``: the median time in which the host
    enqueued a step, of the slowest rank; 0 on the host. ``operations``: the times of calls by
    operation. ``traffic``: the blocks of the memory traffic beside each numbered call of the step;
    empty without any. ``verification``: of a step before the timed ones; the first element of a
    finding is of the call that it names.
    """

    index: Count
    replay: Replay
    status: Status
    reason: str = ""
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    span_s: list[list[Elapsed]] = []
    communication_s: list[list[Elapsed]] = []
    enqueue_s: Elapsed = 0.0
    operations: list[ReplayedOperation] = []
    traffic: list[Count] = []
    verification: Verification | None = None
    report: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether there are times."""
        return bool(self.span_s)

    @property
    def is_consistent(self) -> bool:
        """Whether lists by rank have its ranks, and all ranks the same steps."""
        ranks, original = self.replay.ranks, self.replay.original
        by_rank = (self.span_s, self.communication_s)
        of_program = (original.span_s, original.communication_s, original.step_s)
        return (
            all(len(values) in (0, ranks) for values in by_rank)
            and all(len(values) in (0, ranks) for values in of_program)
            and len(self.span_s) == len(self.communication_s)
            and are_equally_long([*self.span_s, *self.communication_s])
            and len(original.quartiles_s) in (0, 2)
            and all(one >= 0 for one in (*chain(*of_program), *original.quartiles_s))
            and are_of_ranks((), self.verification, ranks)
        )
