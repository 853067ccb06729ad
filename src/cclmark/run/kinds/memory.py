"""The memory of one rank: buffers, and what the library takes in each stage."""

from __future__ import annotations

import gc
import time
from functools import partial

from cclmark import _engine as engine
from cclmark.plan.cases import Case
from cclmark.plan.items import items_of
from cclmark.kinds.memory.plan import RankMemory
from cclmark.kinds.memory.result import MemoryResult
from cclmark.kinds.memory.result import LibraryChannels, MemoryBuffer, MemoryReading, MemoryStage
from cclmark.results.schema import Verification, WrongOutput
from cclmark.run.all_or_none import in_step
from cclmark.run.channel_log import ChannelLog
from cclmark.run.context import RankContext
from cclmark.run.engine_operation import operation_of
from cclmark.run.measured_libraries import OpenLibrary
from cclmark.run.opening import measure_each
from cclmark.run.process_memory import process_memory
from cclmark.run.reserved_buffers import buffer_kind_of, free_on_all, reserve_for

_USUAL_OPERATIONS = 5
_GRACE_S = 10.0  # an operation unsupported on one rank must fail on the others within this time


def run(context: RankContext) -> None:
    """Loads the library, introduces the rank and reads the memory; every rank reports its own."""
    runner = _Runner(context)
    measure_each(context, runner.cases, runner.measure, all_needed=True)


class _Runner:
    def __init__(self, context: RankContext) -> None:
        self._context = context
        self._rank = context.rank
        self._job = context.job
        self._device = context.devices[0]
        self._log = ChannelLog()
        self._not_stated = ""
        self.cases = items_of(context.rank.planned, Case)
        self._rank.enter("loading the library")
        gc.collect()
        gc.disable()
        self._first = self._read(None)

    def measure(self, name: str, library: OpenLibrary) -> None:
        """Reads the memory of the cases, a collective call. Raises EngineError."""
        rank, job = self._rank, self._job
        self._kind = buffer_kind_of(self._context, library)
        common = [MemoryStage("library loaded", "library", self._first, self._read(None))]
        rank.enter("communicator creation")
        before = self._read(None)
        try:
            communicator = in_step(rank.agreement, partial(library.join, rank, self._device))
        except engine.UnsupportedError as error:
            raise engine.MissingError(str(error)) from None
        created = self._read(communicator)
        common.append(MemoryStage("communicator created", "library", before, created))
        channels = self._log.channels()
        pending = {place // job.ranks for place in job.pending}
        result = None
        try:
            for number in range(len(self.cases)):
                if pending and number not in pending:
                    continue
                rank.case_index = number * job.ranks + job.rank
                rank.enter("allocating buffers")
                if result is not None:
                    self._report(result)
                    # The library keeps connections and buffers of earlier cases.
                    kept = MemoryStage(
                        "earlier sizes", "library", created, self._read(communicator)
                    )
                    common = [*common[:2], kept]
                result = self._measure(number, communicator, common, channels)
        except engine.AbortedError:
            communicator.check()  # may raise the error that made the other ranks stop
            raise
        rank.enter("shutdown")
        before = self._read(communicator)
        communicator.leave()
        del communicator
        assert result is not None
        result.stages.append(
            MemoryStage("communicator destroyed", "library", before, self._read(None))
        )
        self._report(result)
        rank.case_index = -1
        rank.leave_subgroup()

    def _measure(
        self,
        number: int,
        communicator: engine.Communicator,
        common: list[MemoryStage],
        channels: LibraryChannels | None,
    ) -> MemoryResult:
        rank, case = self._rank, self.cases[number]
        begin_s = time.monotonic()
        result = MemoryResult(
            rank.case_index,
            RankMemory(case, self._job.rank),
            "ok",
            started_at_s=time.time(),
            stages=list(common),
            channels=channels,
        )
        before = self._read(communicator)
        session = engine.Session(self._device, rank.rank_group, communicator, rank.counter)
        try:
            result.reason = self._reserve(case, session)
            if not result.reason:
                self._run(case, session, communicator, result, before)
        except engine.UnsupportedError as error:  # raised on all ranks
            result.reason = str(error)
        if result.reason:
            result.status = "skipped"
        rank.enter("shutdown")
        before = self._read(communicator)
        del session
        result.stages.append(
            MemoryStage("buffers released", "cclmark", before, self._read(communicator))
        )
        result.not_stated = self._not_stated
        result.duration_s = time.monotonic() - begin_s
        return result

    def _reserve(self, case: Case, session: engine.Session) -> str:
        """Allocates the buffers, and returns the reason if they do not fit on all ranks."""
        rank = self._rank
        free_bytes = free_on_all(self._device, rank.rank_group, len(self._job.ranks_here))
        try:
            too_large = reserve_for([case], session, rank.rank_group, self._kind, free_bytes)
        except engine.OutOfMemoryError as error:  # raised on all ranks
            return str(error)
        return too_large.get(case, "")

    def _run(
        self,
        case: Case,
        session: engine.Session,
        communicator: engine.Communicator,
        result: MemoryResult,
        begin: MemoryReading,
    ) -> None:
        """Adds the stages of one case, ``begin`` from before its buffers were allocated.

        Raises UnsupportedError on all ranks.
        """
        rank, settings = self._rank, self._job.settings
        rank.enter("preparing")
        prepare = partial(session.prepare, operation_of(case), case.in_place, settings.seed)
        in_step(rank.agreement, prepare)
        after = self._read(communicator)
        result.stages.append(MemoryStage("buffers allocated", "cclmark", begin, after))
        rank.enter("warm-up")
        before = self._read(communicator)
        batch = engine.Batch(
            timing=engine.Timing.throughput, iterations=settings.iterations or _USUAL_OPERATIONS
        )
        in_step(rank.agreement, partial(session.run, batch), _GRACE_S)
        after = self._read(communicator)
        result.stages.append(MemoryStage("first operations", "library", before, after))
        if settings.check:
            rank.enter("verification")
            before = self._read(communicator)
            result.verification = self._verify(case, session)
            if result.verification.wrong:
                result.status = "wrong"
            after = self._read(communicator)
            result.stages.append(MemoryStage("outputs checked", "cclmark", before, after))
        result.buffers = self._buffers(session)

    def _verify(self, case: Case, session: engine.Session) -> Verification:
        """Checks the output of this rank, as often as ``-c`` requests."""
        begin_s = time.monotonic()
        own = None
        compare_s = 0.0
        for _ in range(self._job.settings.check):
            checked = session.verify(None)
            own = checked.findings[self._job.rank]
            compare_s = max(compare_s, checked.compare_s)
            if any(entry.wrong for entry in checked.findings):
                break
        assert own is not None
        findings = []
        if own.wrong:
            findings.append(
                WrongOutput(
                    rank=self._job.rank,
                    wrong=own.wrong,
                    first_element=own.first_element,
                    expected=engine.format_value(case.dtype, own.expected_bits),
                    actual=engine.format_value(case.dtype, own.actual_bits),
                )
            )
        where = "host" if session.checked_on_host else "device"
        return Verification(own.wrong, findings, where, time.monotonic() - begin_s, compare_s)

    def _buffers(self, session: engine.Session) -> list[MemoryBuffer]:
        """The memory registered in the engine, and the status board."""
        listed = [
            MemoryBuffer(
                owner="library" if block.of_library else "cclmark",
                purpose=block.purpose,
                place=block.place,
                size_bytes=block.size_bytes,
                used_bytes=block.used_bytes,
                first_values=block.first_values,
                address=f"{block.address:#x}" if block.address else "",
                mapped=block.mapped,
            )
            for block in session.memory_blocks()
        ]
        board = MemoryBuffer(
            "cclmark", "status board of all ranks", "shared host", self._rank.board_bytes
        )
        board.mapped = True
        return [*listed, board]

    def _read(self, communicator: engine.Communicator | None) -> MemoryReading:
        """Reads the memory while no rank works: all have arrived, and none leaves before the last.

        A collective call.
        """
        self._rank.rank_group.barrier()
        process = process_memory()
        reading = MemoryReading(
            device_free_bytes=self._device.free_memory_bytes(),
            rss_bytes=process.rss_bytes,
            shared_bytes=process.shared_bytes,
            pss_bytes=process.pss_bytes,
            stated=self._statement(communicator),
        )
        self._rank.rank_group.barrier()
        return reading

    def _statement(self, communicator: engine.Communicator | None) -> dict[str, int]:
        if communicator is None or self._not_stated:
            return {}
        try:
            return dict(communicator.memory_statement())
        except engine.UnsupportedError as error:
            self._not_stated = str(error)
            return {}

    def _report(self, result: MemoryResult) -> None:
        """Sends the result, unless a journal that is continued has it."""
        if not self._job.pending or result.index in self._job.pending:
            self._rank.report(result)
