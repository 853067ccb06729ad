"""The results of ``cclmark doctor`` in journals."""

from __future__ import annotations

from cclmark.journal.item_results import UncheckedResult
from cclmark.work.counts import Count, Elapsed
from cclmark.work.items import Status
from cclmark_fleet.doctor.plan import Examination
from cclmark_fleet.hosts.check import CheckOutcome, State


class ExaminationResult(UncheckedResult[Examination], tag="examination", omit_defaults=True):
    """What the checks found on a host. ``facts``: what equal hosts have in common, by name.

    ``interval_s``: the time between readings of counters.
    """

    index: Count
    examination: Examination
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    outcomes: list[CheckOutcome] = []
    facts: dict[str, str] = {}
    interval_s: Elapsed = 0.0

    @property
    def is_measured(self) -> bool:
        """Whether there are outcomes."""
        return bool(self.outcomes)

    @property
    def is_consistent(self) -> bool:
        """Whether each check has one outcome, with the signals that failed."""
        ids = [one.check for one in self.outcomes]
        return len(ids) == len({*ids}) and all(
            one.state != "fail" or any(not signal.is_ok for signal in one.signals)
            for one in self.outcomes
        )

    def of(self, state: State) -> list[CheckOutcome]:
        """The outcomes with a state."""
        return [one for one in self.outcomes if one.state == state]
