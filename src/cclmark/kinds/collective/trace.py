"""Records a timeline of one case on one rank."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial

import cclmark._engine as engine
from cclmark.explain.algorithm_steps import Place, PlannedStep, Step
from cclmark.rank.all_or_none import in_step
from cclmark.rank.engine_values import operation_of
from cclmark.rank.explaining import connections_of, selected_in_mpi
from cclmark.rank.instruments import Instruments
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import room_for
from cclmark.rank.tracing import PHASE, more_batches, read_clock
from cclmark.rendezvous.messages import Job, Traced
from cclmark.trace.rank_trace import (
    ClockAhead,
    ClockPair,
    RankTrace,
    Stage,
    StepSources,
    TracedBatch,
    pieces_of,
)
from cclmark.trace.slot_tracks import most_slot_events
from cclmark.work.cases import Case
from cclmark.work.libraries import MPI, plug_ins_of


def step_sources_of(
    case: Case,
    session: engine.Session,
    communicator: engine.Communicator,
    instruments: Instruments,
    job: Job,
) -> StepSources:
    """Returns what is known of the operation that ``session`` has prepared and run."""
    _, paths_reason, paths = connections_of(case.ccl, communicator, instruments, job)
    sources = StepSources(paths, paths_reason, algorithm=session.kernel)
    sources.planned = planned_steps(session)
    if case.ccl == MPI:
        found = selected_in_mpi(case, instruments.open_mpi_log)
        sources.algorithm = found.operations[0].algorithm if found.operations else ""
        sources.reason = found.reason
    return sources


def planned_steps(session: engine.Session) -> list[PlannedStep]:
    """The steps of this rank that the engine plans; empty for other libraries."""
    return [_planned(step) for step in session.steps()]


def _planned(step: engine.PlannedStep) -> PlannedStep:
    found = Step(
        *(0, step.phase, step.source, step.destination, step.size_bytes),
        reads=_place(step.reads),
        writes=_place(step.writes),
        combines=None if step.combines is None else _place(step.combines),
        medium=step.medium,
    )
    return PlannedStep(step.order, found)


def _place(place: engine.Place) -> Place:
    return Place(place.space, place.offset_bytes)


_WARMUP = 5
_SETTLING = "awaiting events"
_RECORDING = ("reading clocks", "tracing", _SETTLING)
_SETTLING_SHARE = 0.5  # of --timeout, after which the other ranks would count this one as hung
# NCCL keeps the times of 64 kernels of a channel until they are read: fewer may be in flight.
_MOST_IN_FLIGHT = 32


#: Parts of a stage in which inputs are filled or outputs checked on the host.
_HOST_WORK = {
    engine.HostWork.allocation: "host memory",
    engine.HostWork.filling: "values",
    engine.HostWork.copy_to_device: "copy to the device",
    engine.HostWork.copy_to_host: "copy to the host",
    engine.HostWork.comparison: "comparison",
    engine.HostWork.release: "host memory released",
}


class CaseTracer:
    """Traces a case on one rank, in step with the same object on the others."""

    def __init__(
        self,
        rank: Rank,
        session: engine.Session,
        communicator: engine.Communicator,
        device: engine.Device,
        instruments: Instruments,
        enter: Callable[[str, int], None],
    ) -> None:
        self._rank = rank
        self._session: engine.Session | None = session
        self._communicator = communicator
        self._device = device
        self._instruments = instruments
        self._enter = enter
        times = communicator.record_slots(None)
        self._slots: engine.SlotRecorder | None = None
        if times != engine.SlotTimes.none:
            self._slots = engine.SlotRecorder(most_slot_events())
        info = device.info
        self._trace = RankTrace(rank.job.rank, platform.node(), info.name, info.runtime)
        self._trace.has_slots = self._slots is not None
        self._trace.slots_enqueued = times == engine.SlotTimes.enqueued
        self._by_events = False

    def run(self, case: Case, communicator: engine.Communicator) -> None:
        """Runs the case as often as the job requests. Raises EngineError.

        ``communicator``: that of the session.
        """
        rank, session, trace = self._rank, self._opened_session, self._trace
        settings, agreement = rank.job.settings, rank.agreement
        send_bytes, receive_bytes = room_for(case)
        self._enter("filling inputs", 0)
        rank.stage_bytes = send_bytes
        in_step(
            agreement,
            partial(session.prepare, operation_of(case), case.in_place, settings.seed),
        )
        self._enter("warm-up", 0)
        self._add_host_stages("filling inputs")
        warmup = _WARMUP if settings.warmup is None else settings.warmup
        if warmup:
            batch = engine.Batch(timing=engine.Timing.throughput, iterations=warmup)
            in_step(agreement, partial(session.run, batch))
        reported = bool(plug_ins_of(case.ccl))
        self._record(case, events=not reported, reported=reported)
        if reported and not self._has_kernels():
            # No kernels are reported (symmetric ones, copies), or not by the device's clock.
            rank.stages = [stage for stage in rank.stages if stage.name not in _RECORDING]
            self._record(case, events=True, reported=True)
        self._time_more(reported=reported)
        trace.step_sources = step_sources_of(
            case, session, communicator, self._instruments, rank.job
        )
        if settings.check:
            self._enter("verification", 0)
            rank.stage_bytes = receive_bytes
            checked = in_step(agreement, partial(session.verify, None))
            trace.wrong = sum(finding.wrong for finding in checked.findings)

    def _record(self, case: Case, *, events: bool, reported: bool) -> None:
        trace, job = self._trace, self._rank.job
        operations = job.traced_operations
        self._by_events = events
        if reported:
            self._settle()
        self._enter("reading clocks", 0)
        trace.ahead = self._ahead()
        self._instruments.begin()
        trace.clock_begin = self._clock()
        at_once = _MOST_IN_FLIGHT if reported and not events else operations
        trace.call_begin_ns, trace.call_end_ns, trace.batches = [], [], []
        if self._slots is not None:
            self._slots.clear()
        for begin in range(0, operations, at_once):
            number = min(at_once, operations - begin)
            self._enter("tracing", 0)
            self._rank.stage_bytes = number * case.size_bytes
            traced = self._run(number)
            trace.call_begin_ns += traced.call_begin_ns
            trace.call_end_ns += traced.call_end_ns
            trace.batches.append(_batch_of(traced))
            if reported:
                self._settle()
        if self._slots is not None:
            trace.slots, trace.slots_dropped = self._slots.events, self._slots.dropped
        trace.device_begin_s, trace.device_end_s = traced.device_begin_s, traced.device_end_s
        trace.reference_before_ns = traced.reference.before_ns
        trace.reference_after_ns = traced.reference.after_ns
        self._enter("reading clocks", 0)
        trace.clock_end = self._clock()
        trace.ahead += self._ahead()
        if reported:
            trace.log, trace.log_reason = self._instruments.log()
            trace.log_after = self._instruments.first_record
            trace.awaited_s = self._instruments.awaited_s
        elif self._slots is None:
            trace.log_reason = f"{case.ccl} has no plug-in interface"

    def _settle(self) -> None:
        """Waits until the library has reported the events of what it has completed."""
        self._enter(_SETTLING, 0)
        self._instruments.settle(self._rank.job.settings.timeout_s * _SETTLING_SHARE)

    def _time_more(self, *, reported: bool) -> None:
        """Runs more batches of the traced size: one is not enough to compare their times."""
        trace = self._trace
        first = trace.batches[0]
        alike = sum(batch.operations == first.operations for batch in trace.batches)
        batch_s = (first.complete_ns - first.begin_ns) * 1e-9
        for _ in range(more_batches(self._rank.agreement, alike, batch_s)):
            self._enter(PHASE, 0)
            if self._slots is not None:
                self._slots.clear()
            trace.timed_batches.append(_batch_of(self._run(first.operations)))
            if reported:
                self._settle()

    def _run(self, operations: int) -> engine.TracedOperations:
        """Runs operations back to back on all ranks, and records them. Raises EngineError."""
        return in_step(self._rank.agreement, partial(self._recorded, operations))

    def _recorded(self, operations: int) -> engine.TracedOperations:
        session = self._opened_session
        if self._slots is None:
            return session.trace(operations, self._by_events)
        self._communicator.record_slots(self._slots)
        try:
            return session.trace(operations, self._by_events)
        finally:
            self._communicator.record_slots(None)

    def _ahead(self) -> list[ClockAhead]:
        """A reading of the first process's clock; empty on its host."""
        job = self._rank.job
        if not job.hosts or job.hosts[job.rank] == job.hosts[0]:
            return []
        at_ns = time.monotonic_ns()
        return [ClockAhead(at_ns, *self._rank.client.clock_ahead_ns(job.settings.timeout_s))]

    def _has_kernels(self) -> bool:
        """Whether the times of kernels are known on all ranks, or nothing can be done about it."""
        trace = self._trace
        here = trace.clock_begin and trace.clock_end and self._instruments.has_kernels()
        everywhere = all(self._rank.rank_group.gather([float(bool(here))]))
        return everywhere or self._device.info.runtime == "host"

    def _clock(self) -> list[ClockPair]:
        readings, reason = read_clock(self._device)
        self._trace.clock_reason = reason or self._trace.clock_reason
        return readings

    @property
    def _opened_session(self) -> engine.Session:
        assert self._session is not None
        return self._session

    def _add_host_stages(self, phase: str) -> None:
        """Adds the parts of the stage that has just ended; none where the device does the work."""
        self._rank.stages += [
            Stage(f"{phase}: {_HOST_WORK[one.work]}", one.begin_ns, one.end_ns, one.bytes)
            for one in self._opened_session.take_host_periods()
        ]

    def release(self) -> None:
        """Drops the session, whose buffers are released with the caller's reference.

        Called when the stage of the check has ended.
        """
        self._add_host_stages("verification")
        self._session = None

    def send(self) -> None:
        """Sends the trace, with the stages so far, to the first process."""
        rank, trace, job = self._rank, self._trace, self._rank.job
        trace.stages = rank.stages
        pieces = list(pieces_of(trace))
        for number, content in enumerate(pieces):
            rank.client.send(Traced(job.rank, job.token, number, len(pieces), content))


def _batch_of(traced: engine.TracedOperations) -> TracedBatch:
    calls = traced.call_begin_ns
    return TracedBatch(calls[0], traced.complete_ns, len(calls))
