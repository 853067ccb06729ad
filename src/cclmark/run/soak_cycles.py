"""A soak: repeats the sweep until its time is over and samples the conditions of the devices."""

from __future__ import annotations

import time

from cclmark import _engine as engine
from cclmark.errors import MissingError
from cclmark.plan.cases import Case
from cclmark.plan.items import items_of
from cclmark.run.conditions import ConditionReader, reader_for
from cclmark.run.rank import Rank


class Soak:
    """A soak on one rank, in step with the same object on the others."""

    def __init__(self, rank: Rank, device: engine.Device) -> None:
        self._rank = rank
        self._share_s = rank.job.settings.duration_s / len(
            {one.ccl for one in items_of(rank.planned, Case)}
        )
        self._until_s = 0.0
        # Cases that cannot be measured. Results for them in every cycle would fill the journal.
        self.given_up: set[int] = set()
        self._reader: ConditionReader | None = None
        try:
            self._reader = reader_for(device.info.runtime, device.info.pci_bus_id)
        except MissingError as error:
            if rank.job.rank == 0:
                rank.notice(f"device conditions unknown: {error}")

    def begin(self) -> None:
        """Starts the time of one library. All libraries get the same time."""
        self._until_s = time.monotonic() + self._share_s

    def over_after(self, index: int, cycle: int) -> bool:
        """Samples the device after a case, and returns whether the time is over on any rank."""
        rank = self._rank
        if self._reader is not None:
            rank.observe(self._reader.read(rank.job.rank, index, cycle))
        rank.enter("preparing")
        return max(rank.rank_group.gather([float(time.monotonic() >= self._until_s)])) > 0
