"""The results of overlaps in journals."""

from __future__ import annotations

import msgspec

from cclmark.journal.item_results import ExplainedResult, are_of_ranks
from cclmark.journal.schema import Explanation, Verification, WrongOutput
from cclmark.kinds.overlap.plan import Overlap
from cclmark.work.counts import Count, Duration
from cclmark.work.items import Status


class OverlapTimes(msgspec.Struct):
    """The times at which the streams of all ranks passed their events.

    ``communication_s``, ``compute_s``: by rank, in seconds on the clock of its device since a
    moment of this rank; an event before the first operation, then one after each span of
    ``communication_operations`` or ``compute_operations``. A stream without work has none.
    ``enqueue_s``: by rank, from the barrier until the last call had returned, by the host's clock;
    empty for devices that work inside the call.
    """

    communication_s: list[list[float]]
    compute_s: list[list[float]]
    enqueue_s: list[float]
    communication_operations: Count
    compute_operations: Count


class OverlapFigures(msgspec.Struct, omit_defaults=True):
    """The figures of a case beside a compute, of the slowest rank each.

    Times are seconds for one operation. ``communication_evaluated``, ``compute_evaluated``: the
    smallest share of the operations that ran beside the other work that counts.
    ``launch_bound``: the host enqueues the operations of the collective alone no faster than the
    devices execute them, so that its launches set the times; ``compute_launch_bound`` and
    ``together_launch_bound``: the same of the compute alone and of both at once.
    """

    communication_alone_s: Duration
    communication_s: Duration
    compute_alone_s: Duration
    compute_s: Duration
    communication_evaluated: float
    compute_evaluated: float
    launch_bound: bool = False
    compute_launch_bound: bool = False
    together_launch_bound: bool = False


class OverlapResult(ExplainedResult[Overlap], tag="overlap", omit_defaults=True):
    """A case beside a compute and its outcome. ``status`` and ``reason``: as those of TrialResult.

    ``communication_alone``, ``compute_alone`` and ``together``: the times of the events of all
    ranks, from which ``figures`` are computed (kinds.overlap.figures). ``attempts``: how often
    they were measured, each time with twice as many operations, until some ran entirely beside the
    other work; the times are those of the last attempt. ``implementation``: the
    software that computes, ``implementation_path``: its file, empty for the engine's own.
    ``compute_findings``: wrong elements of its output by rank.
    ``explanation``: of the overlaps of the first round; a journal stores it in a separate line.
    """

    index: Count
    overlap: Overlap
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    implementation: str = ""
    implementation_path: str = ""
    communication_alone: OverlapTimes | None = None
    compute_alone: OverlapTimes | None = None
    together: OverlapTimes | None = None
    attempts: Count = 1
    figures: OverlapFigures | None = None
    verification: Verification | None = None
    compute_findings: list[WrongOutput] = []
    report: str = ""
    explanation: Explanation | None = None

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return self.figures is not None

    @property
    def is_consistent(self) -> bool:
        """Whether times and findings are of the ranks of the case, and figures have their times."""
        ranks = self.overlap.case.ranks
        times = (self.communication_alone, self.compute_alone, self.together)
        return (
            (self.figures is None or None not in times)
            and all(
                len(values) in (0, ranks)
                for one in times
                if one is not None
                for values in (one.communication_s, one.compute_s, one.enqueue_s)
            )
            and all(0 <= one.rank < ranks for one in self.compute_findings)
            and are_of_ranks((), self.verification, ranks)
        )
