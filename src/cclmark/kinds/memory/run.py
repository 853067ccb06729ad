"""The memory of one rank: buffers, and what the library takes in each stage."""

from __future__ import annotations

import gc
import os
import re
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cclmark._engine as engine
from cclmark.explain.nccl_log import paths_in
from cclmark.explain.paths import COLLECTIVE_CHANNELS, MESSAGE_CHANNELS, MESSAGE_CHANNELS_PER_PEER
from cclmark.journal.schema import Verification
from cclmark.kinds.memory.plan import RankMemory
from cclmark.kinds.memory.result import (
    LibraryChannels,
    MemoryBuffer,
    MemoryReading,
    MemoryResult,
    MemoryStage,
)
from cclmark.rank.all_or_none import GRACE_S, in_step
from cclmark.rank.context import RankContext
from cclmark.rank.engine_values import operation_of
from cclmark.rank.item_loop import measure_each
from cclmark.rank.measure import verification_of
from cclmark.rank.opening import OpenLibrary
from cclmark.rank.reserved_buffers import buffer_kind_of, free_on_all, reserve_for
from cclmark.work.cases import Case
from cclmark.work.items import items_of

_LINE = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


class ProcessMemory(NamedTuple):
    """Bytes, see kinds.memory.result.MemoryReading."""

    rss_bytes: int
    shared_bytes: int
    pss_bytes: int | None


def process_memory() -> ProcessMemory:
    """Reads the memory of this process. Raises OSError if /proc is missing."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    try:
        rollup = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8", errors="replace")
    except OSError:  # absent before Linux 4.14, and forbidden in some containers
        rollup = ""
    return memory_in(status, rollup)


def memory_in(status: str, rollup: str) -> ProcessMemory:
    """The memory in the texts of ``/proc/PID/status`` and ``/proc/PID/smaps_rollup``.

    RssShmem includes memory from memfd_create and System V. Figures that a text lacks are 0, but
    PSS is None: without it, sums over processes count shared pages several times.
    """
    resident, rolled_up = _kib_in(status), _kib_in(rollup)
    pss_kib = rolled_up.get("Pss")
    return ProcessMemory(
        rss_bytes=resident.get("VmRSS", 0) * 1024,
        shared_bytes=resident.get("RssShmem", 0) * 1024,
        pss_bytes=None if pss_kib is None else pss_kib * 1024,
    )


def _kib_in(text: str) -> dict[str, int]:
    return {name: int(kib) for name, kib in _LINE.findall(text)}


_VARIABLES = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")
_MOST_BYTES = 1 << 22


class ChannelLog:
    """Makes the library log the creation of communicators; created before it is loaded.

    Variables that the user has set stay unchanged: the channels are then unknown.
    """

    def __init__(self) -> None:
        self._file = -1
        if any(name in os.environ for name in _VARIABLES):
            return
        self._file = os.memfd_create("NCCL's log")
        os.environ["NCCL_DEBUG"] = "INFO"
        os.environ["NCCL_DEBUG_SUBSYS"] = "INIT"
        os.environ["NCCL_DEBUG_FILE"] = f"/proc/{os.getpid()}/fd/{self._file}"

    def channels(self) -> LibraryChannels | None:
        """The channels of the first communicator, None if the log does not contain them."""
        if self._file < 0:
            return None
        return channels_in(os.pread(self._file, _MOST_BYTES, 0).decode(errors="replace"))


def channels_in(text: str) -> LibraryChannels | None:
    """The channels of a communicator in its log, None without the line that has them."""
    facts = paths_in(text).parameters
    if COLLECTIVE_CHANNELS not in facts:
        return None
    return LibraryChannels(
        collective=int(facts[COLLECTIVE_CHANNELS]),
        p2p=int(facts[MESSAGE_CHANNELS]),
        p2p_per_peer=int(facts[MESSAGE_CHANNELS_PER_PEER]),
    )


_USUAL_OPERATIONS = 5


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
        in_step(rank.agreement, partial(session.run, batch), GRACE_S)
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
        found = verification_of(
            partial(session.verify, None),
            self._job.settings.check,
            case.dtype,
            "host" if session.checked_on_host else "device",
            time.monotonic(),
        )
        found.findings = [one for one in found.findings if one.rank == self._job.rank]
        found.wrong = sum(one.wrong for one in found.findings)
        return found

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
