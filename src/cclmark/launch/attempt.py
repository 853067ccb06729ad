"""Runs ranks, one process per device, and supervises them until all have exited."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass
from textwrap import indent

from cclmark.analysis.hosts import differences_between
from cclmark.errors import (
    EXIT_DIED,
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    EXIT_USAGE,
    MissingError,
    RankError,
    UnreadError,
)
from cclmark.launch.coordinator import Coordinator, RankLayout, coordinator_of_one, lay_out
from cclmark.launch.diagnosis import RankState, StallWatch, culprit_of, diagnose, exit_kind, hangs
from cclmark.launch.introduction import Introduction
from cclmark.launch.mpi import MpiWatch
from cclmark.launch.process_watch import ProcessWatch
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.rank_start import processors_of_ranks, start_ranks
from cclmark.launch.rank_watch import RankWatch
from cclmark.launch.ranks import kill_ranks
from cclmark.launch.ras import RasQuery
from cclmark.launch.request import Listener, Outcome, Request, ResultDelivery
from cclmark.rendezvous.messages import Failed
from cclmark.signals import noted, raise_if_ended


class HostMark:
    """An abstract socket name, which the kernel releases when this process ends."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def place(self) -> bool:
        """Places the mark. Returns False if another run has placed it."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0cclmark-run-{os.getuid()}")
        except OSError:
            return False
        return True


@dataclass(frozen=True)
class AttemptParts:
    """The parts that supervise an attempt, and what they supervise."""

    request: Request
    listener: Listener
    coordinator: Coordinator
    layout: RankLayout
    messages: RankMessages
    introduction: Introduction
    ranks: RankWatch
    processes: ProcessWatch
    stalls: StallWatch
    ras: RasQuery
    mpi: MpiWatch

    @classmethod
    def connected(
        cls, request: Request, listener: Listener, coordinator: Coordinator
    ) -> AttemptParts:
        """Creates the parts of a new attempt and connects them."""
        layout = lay_out(coordinator, len(request.processes))
        delivery, stalls = ResultDelivery(listener), StallWatch(coordinator)
        mpi = MpiWatch(request, coordinator.own)
        messages = RankMessages(request, listener, coordinator, delivery, stalls, mpi)
        ranks = RankWatch(request, coordinator, layout, messages)
        return cls(
            request=request,
            listener=listener,
            coordinator=coordinator,
            layout=layout,
            messages=messages,
            introduction=Introduction(request, coordinator, layout, messages, delivery),
            ranks=ranks,
            processes=ProcessWatch(coordinator, messages, ranks),
            stalls=stalls,
            ras=RasQuery(),
            mpi=mpi,
        )


_POLL_S = 0.02
_GATHER_FAILURES_S = 1.5  # wait for the other ranks to report their state
# By the kind of a failure.
_EXIT_CODES = {"usage": EXIT_USAGE, "missing": EXIT_MISSING, "refused": EXIT_MISSING}


class AttemptEnd:
    """Ends the ranks of an attempt in one of three ways."""

    def __init__(self, parts: AttemptParts) -> None:
        self._parts = parts

    def complete(self) -> Outcome:
        """Ends an attempt in which every rank has finished."""
        parts = self._parts
        parts.introduction.wait()
        lost = parts.processes.wait_for_others()
        for agent in parts.coordinator.agents:
            agent.end()
        if said := parts.mpi.said():
            parts.listener.notice(f"mpirun printed: {said}")
        if turned_away := parts.coordinator.meeting.server.turned_away():
            parts.listener.notice(turned_away)
        phases_s = parts.messages.finished[0].phases_s
        if lost:
            return Outcome(EXIT_DIED, f"all cases are measured, but {lost}", phases_s)
        return Outcome(EXIT_OK, phases_s=phases_s)

    def interrupt(self, interruption: BaseException) -> Outcome:
        """Ends an interrupted attempt and keeps the results that have arrived.

        If a launcher ends the run because a process died, the outcome names that process.
        """
        parts = self._parts
        parts.messages.receive(0.0)
        if parts.coordinator.placement is not None and parts.processes.has_lost_one():
            # Within 50 ms an mpirun may send SIGKILL: no time to wait for what the others report.
            return self.fail(patience_s=0.0)
        parts.introduction.wait()
        return Outcome(EXIT_INTERRUPTED, str(interruption) or "interrupted")

    def fail(self, patience_s: float = _GATHER_FAILURES_S) -> Outcome:
        """Collects the states of the surviving ranks, ends all ranks and returns a diagnosis."""
        parts = self._parts
        failed_s = time.monotonic()
        parts.ranks.look(closely=True)
        began_nothing = parts.mpi.began_nothing()
        stopped = {
            rank_status.rank
            for rank_status in parts.ranks.rank_statuses.values()
            if rank_status.stopped
        }
        self._abort_and_gather(stopped, patience_s)
        parts.introduction.wait()
        # A broken connection may be restored by now. If others failed first, it was the cause.
        lost = parts.processes.lost()
        states = parts.ranks.states(stopped, parts.processes.silence_s())
        culprit = culprit_of(states)
        code = EXIT_DIED if lost else _EXIT_CODES.get(exit_kind(states), EXIT_DIED)
        stalled = parts.stalls.explanation(culprit, failed_s)
        message = diagnose(states, parts.request.items, cause_is_known=bool(stalled))
        if hangs(culprit) and not stalled and not lost:
            timeout_s = parts.request.settings.timeout_s
            message += (
                f"\n  a phase may take {timeout_s:g} s (-T, --timeout): raise it if this work "
                "takes longer"
            )
        message += parts.ras.answer(parts.messages.receive)
        if began_nothing and not parts.ranks.any_started() and not parts.messages.failures:
            message = began_nothing
        for cause in (lost, stalled):
            if cause:
                message = f"{cause}\n{indent(message, '  ')}"
        kill_ranks(parts.coordinator.own.ranks)
        server = parts.coordinator.meeting.server
        if turned_away := server.turned_away(own=server.unheard):
            message += f"\n  {turned_away}"
        if said := parts.mpi.said():
            message += f"\n{indent(said, '  mpirun: ')}"
        return Outcome(
            code,
            message,
            failure=None if lost else _failure(culprit),
            case_index=-1 if lost else _case_index(culprit),
        )

    def _abort_and_gather(self, stopped: set[int], patience_s: float) -> None:
        """Ends the waits of all ranks and waits for the reports of those that can respond.

        No longer than until a signal arrives: an mpirun that ends a job sends SIGKILL 0.25 s later.
        """
        parts = self._parts
        for agent in parts.coordinator.agents:
            agent.abort()
        deadline_s = time.monotonic() + patience_s
        while (
            time.monotonic() < deadline_s
            and not noted()
            and parts.ranks.any_can_report(stopped | parts.processes.lost_ranks())
        ):
            parts.messages.receive(_POLL_S)
            parts.ranks.look(closely=False)


def _case_index(culprit: RankState) -> int:
    """The item that the culprit was working on, by its report or by the status board."""
    if culprit.failure is not None:
        return culprit.failure.case_index
    return culprit.status.case_index


def _failure(culprit: RankState) -> Failed | None:
    """The failure that the culprit reported, or a timeout for one that hangs without a report."""
    hangs = culprit.exit_status is None and not culprit.stopped
    if culprit.failure is not None or not hangs:
        return culprit.failure
    status = culprit.status
    return Failed(culprit.rank, b"", "timeout", "no answer", status.phase, status.case_index)


class Supervision:
    """Starts the ranks of an attempt and supervises them."""

    def __init__(self, parts: AttemptParts) -> None:
        self._parts = parts
        self._mark = HostMark()
        self._launched = parts.coordinator.placement is not None

    def run(self) -> bool:
        """Starts the ranks and returns True once all have finished, False if the attempt failed.

        Raises KeyboardInterrupt after a signal, and the errors of RankMessages.receive.
        """
        parts = self._parts
        raise_if_ended(launched=self._launched)
        self._start()
        while not parts.messages.all_finished:
            parts.messages.receive(_POLL_S)
            parts.introduction.check_devices()
            parts.introduction.advance()
            parts.ranks.look(closely=False)
            if parts.ranks.any_late():
                own = [rank.pid for rank in parts.coordinator.own.ranks]
                parts.ras.begin(parts.messages.libraries(), own)
            if 0 in parts.ranks.rank_statuses:
                parts.mpi.note_segments(parts.ranks.rank_statuses[0])
                parts.listener.progress(parts.ranks.rank_statuses[0])
            if self._has_failed():
                parts.ranks.await_own_signal()
                raise_if_ended(launched=self._launched)
                return False
            raise_if_ended(launched=self._launched)
        return True

    def _start(self) -> None:
        """Starts the ranks and reports the notices that are known by then."""
        parts = self._parts
        parts.coordinator.begin_attempt(parts.request.settings.timeout_s)
        processors = processors_of_ranks(parts.request, parts.coordinator, parts.layout)
        for text in processors.notices:
            parts.listener.notice(text)
        start_ranks(parts.request, parts.coordinator, parts.layout, processors)
        parts.ranks.begin()
        for text in self._notices():
            if text:
                parts.listener.notice(text)
        if not self._mark.place():  # runs on one host disturb each other
            parts.listener.notice(
                "another cclmark run is active on this host: the results of both runs are disturbed"
            )

    def _notices(self) -> list[str]:
        """Notices on the devices, the request, the placement and the hosts, some of them empty."""
        parts = self._parts
        request, placement = parts.request, parts.coordinator.placement
        return [
            request.devices.notice,
            *request.warnings,
            *(placement.notices if placement is not None else ()),
            *differences_between(parts.coordinator.hosts),
        ]

    def _has_failed(self) -> bool:
        parts = self._parts
        return bool(
            parts.messages.failures
            or parts.ranks.any_dead()
            or parts.ranks.any_overdue()
            or parts.coordinator.lost()
        )


class Attempt:
    """One attempt of a run, supervised by the first process."""

    def __init__(self, request: Request, listener: Listener) -> None:
        self._request = request
        self._listener = listener

    def run(self) -> Outcome:
        """Starts the ranks and returns when all have exited, for whatever reason."""
        coordinator = self._request.coordinator
        try:
            with contextlib.ExitStack() as stack:
                if coordinator is None:
                    coordinator = stack.enter_context(coordinator_of_one(self._request.devices))
                coordinator.meeting.server.ranks = len(self._request.processes)
                parts = AttemptParts.connected(self._request, self._listener, coordinator)
                supervision, end = Supervision(parts), AttemptEnd(parts)
                try:
                    return end.complete() if supervision.run() else end.fail()
                except (KeyboardInterrupt, UnreadError) as interruption:
                    try:
                        return end.interrupt(interruption)
                    except UnreadError:  # raised only once: nothing is printed from now on
                        return end.interrupt(interruption)
                finally:
                    kill_ranks(coordinator.own.ranks)
        except (RankError, MissingError) as error:
            return Outcome(error.exit_code, str(error))
