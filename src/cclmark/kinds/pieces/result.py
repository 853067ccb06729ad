"""The results of messages in pieces in journals."""

from __future__ import annotations

import msgspec

from cclmark.journal.item_results import ItemResult, are_of_ranks
from cclmark.journal.schema import Samples, Summary, Verification
from cclmark.kinds.pieces.plan import Division, PieceCase
from cclmark.work.counts import Count
from cclmark.work.items import Status


class PieceRow(msgspec.Struct, omit_defaults=True):
    """A message in one division. ``status``: ok, wrong or skipped, with the reason.

    ``samples``: one for each round. ``summary``: of the whole message. ``ratio``: the time over the
    time in one call, with a 95 % interval. ``launch_bound``: the host enqueues the calls no faster
    than the devices execute them, so that its launches set the time.
    """

    division: Division
    status: Status
    reason: str = ""
    samples: Samples | None = None
    summary: Summary | None = None
    ratio: float = 1.0
    ratio_low: float = 1.0
    ratio_high: float = 1.0
    launch_bound: bool = False
    verification: Verification | None = None


class PieceResult(ItemResult[PieceCase], tag="pieces", omit_defaults=True):
    """A message in one call and in pieces. ``status``: ok, wrong or skipped, with the reason.

    ``rows``: one for each division of the case, in its order. ``converged``: whether all medians
    have the requested precision.
    """

    index: Count
    pieces: PieceCase
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    converged: bool = True
    rows: list[PieceRow] = []

    @property
    def is_measured(self) -> bool:
        """Whether there are figures."""
        return any(row.summary is not None for row in self.rows)

    @property
    def is_checked(self) -> bool:
        """Whether the outputs of all measured divisions were compared with the expected one."""
        measured = [row for row in self.rows if row.summary is not None]
        return bool(measured) and all(row.verification is not None for row in measured)

    @property
    def is_consistent(self) -> bool:
        """Whether each division has its row, with samples and findings of the ranks of the case."""
        divisions = tuple(row.division for row in self.rows)
        return divisions in ((), self.pieces.divisions) and all(
            are_of_ranks((row.samples,), row.verification, self.pieces.case.ranks)
            for row in self.rows
        )
