"""Collectives of all ranks, from the side of one rank."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import cclmark._engine as engine
from cclmark.journal.item_results import CaseResult
from cclmark.rank.context import RankContext
from cclmark.rank.item_loop import CaseLoop, Measure
from cclmark.rank.measure import CaseRunner, batches_of
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import room_for
from cclmark.work.cases import Case
from cclmark.work.inject import RankFaults
from cclmark.work.items import items_of

if TYPE_CHECKING:
    from cclmark.kinds.collective.trace import CaseTracer


class Soak:
    """A soak on one rank, in step with the same object on the others."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._share_s = rank.job.settings.duration_s / len(
            {one.ccl for one in items_of(rank.planned, Case)}
        )
        self._until_s = 0.0
        # Cases that cannot be measured. Results for them in every cycle would fill the journal.
        self.given_up: set[int] = set()

    def begin(self) -> None:
        """Starts the time of one library. All libraries get the same time."""
        self._until_s = time.monotonic() + self._share_s

    def is_over(self) -> bool:
        """Whether the time is over on any rank."""
        rank = self._rank
        rank.enter("preparing")
        return max(rank.rank_group.gather([float(time.monotonic() >= self._until_s)])) > 0


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the cases; rank 0 reports."""
    _CollectiveLoop(context, items_of(context.rank.planned, Case)).run()


class _CollectiveLoop(CaseLoop):
    """Cycles of cases. The places of a job count the cases of all cycles."""

    def __init__(self, context: RankContext, cases: Sequence[Case]) -> None:
        super().__init__(context, cases, self._measurer_with, has_variants=False)
        self._places = set(self.job.pending)
        self._cycle = 0
        self._soak: Soak | None = None
        self._tracer: CaseTracer | None = None

    def pending(self, name: str) -> list[int]:
        """See CaseLoop: the cases of any cycle."""
        number = len(self.cases)
        left = {place % number for place in self._places} or set(range(number))
        return [index for index in sorted(left) if self.cases[index].ccl == name]

    def order(self, indices: list[int], *, skipped: bool = False) -> Iterator[int]:
        """Each case in every cycle, until all are measured or the soak's time is over."""
        number, cycles = len(self.cases), self.job.settings.cycles
        soak = None if skipped else self._begun_soak()
        if skipped:
            cycles = cycles or 1
        self._cycle = 0
        while indices and (cycles == 0 or self._cycle < cycles):
            for index in indices:
                if not self._places or index + self._cycle * number in self._places:
                    yield index
                    if soak is not None and soak.is_over():
                        return
            self._cycle += 1
            if soak is not None:
                indices = [index for index in indices if index not in soak.given_up]
                gc.collect()

    def _begun_soak(self) -> Soak | None:
        """The soak of this run with the time of the next library started, None for other runs."""
        if self.job.settings.duration_s and self._soak is None:
            self._soak = Soak(self.rank)
        if self._soak is not None:
            self._soak.begin()
        return self._soak

    def skip(self, index: int, reason: str) -> CaseResult:
        """See CaseLoop. Such a case is left out of the next cycles of a soak."""
        if self._soak is not None:
            self._soak.given_up.add(index)
        return CaseResult(index, self.cases[index], "skipped", reason, cycle=self._cycle)

    def _measurer_with(self, session: engine.Session) -> Measure:
        rank, job = self.rank, self.job
        runner = CaseRunner(
            session,
            rank.agreement,
            job.settings,
            RankFaults.of_rank(job.settings.inject, job.rank, job.ranks),
            rank.enter,
            batches=batches_of(job),
        )
        if job.settings.check and runner.checking_host == job.rank:
            rank.notice(f"outputs are checked on the host: {session.checked_on_host}")

        def measure(index: int) -> CaseResult:
            result = runner.run(index, self.cases[index], self._cycle)
            if result.status == "skipped" and self._soak is not None:
                self._soak.given_up.add(index)
            return result

        return measure

    def measured(self, index: int, session: engine.Session) -> None:
        """Notes what is explained at the end of the run."""
        if self.context.measured is not None:
            self.context.measured.add(index, self.cases[index], session)

    def used(self, communicator: engine.Communicator, indices: list[int]) -> None:
        """Notes the connections for the same."""
        if self.context.measured is not None:
            self.context.measured.connect(self.cases[indices[0]].ccl, communicator)

    def observe(
        self,
        communicator: engine.Communicator,
        indices: list[int],
        left_out: Mapping[Case, str],
    ) -> None:
        """Explains the cases, or traces one. Raises MissingError without memory for that."""
        if not self.job.traced_operations:
            super().observe(communicator, indices, left_out)
            return
        from cclmark.kinds.collective.trace import CaseTracer  # not imported by ranks that measure

        rank, instruments = self.rank, self.context.instruments
        assert instruments is not None and self.session is not None
        buffer_bytes = max(sum(room_for(self.cases[index])) for index in indices)
        rank.stage_bytes = buffer_bytes
        case = self.cases[indices[0]]
        if case in left_out:
            raise engine.MissingError(left_out[case])
        self._tracer = CaseTracer(
            rank, self.session, communicator, self.device, instruments, rank.enter
        )
        rank.case_index = indices[0]
        try:
            self._tracer.run(case, communicator)
        except engine.UnsupportedError as error:
            raise engine.MissingError(str(error)) from None
        rank.case_index = -1
        rank.enter("releasing buffers")
        rank.stage_bytes = buffer_bytes
        self._tracer.release()
        self.session = None

    def left(self) -> None:
        """Sends the trace."""
        if self._tracer is not None:
            self.rank.enter("finished")
            self._tracer.send()
            self._tracer = None
