"""Runs ranks, one process per device, and supervises them until all have exited."""

from __future__ import annotations

import contextlib
import time
from textwrap import indent

from cclmark.analysis.hosts import differences_between
from cclmark.errors import (
    EXIT_DIED,
    EXIT_INTERRUPTED,
    EXIT_MISSING,
    EXIT_OK,
    MissingError,
    RankError,
    UnreadError,
)
from cclmark.launch.crew import Crew, crew_of_one
from cclmark.launch.diagnosis import RankState, culprit_of, diagnose, exit_kind
from cclmark.launch.follower import CUT_S, SILENCE_S
from cclmark.launch.host_mark import HostMark
from cclmark.launch.introduction import Introduction
from cclmark.launch.mpi_watch import MpiWatch
from cclmark.launch.placement import raise_if_ended
from cclmark.launch.rank_layout import lay_out
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.rank_start import processors_of_ranks, start_ranks
from cclmark.launch.ranks import is_stopped, kill_ranks
from cclmark.launch.ras_query import RasQuery
from cclmark.launch.request import Listener, Outcome, Request
from cclmark.launch.result_delivery import ResultDelivery
from cclmark.launch.supervisor_stall import StallWatch
from cclmark.rendezvous.board import Operations, Status
from cclmark.rendezvous.messages import (
    Failed,
    Look,
)
from cclmark.signals import ENDING, noted

_POLL_S = 0.02
_GATHER_FAILURES_S = 1.5  # wait for the other ranks to report their state
_SHORT_OF_TIME_S = 0.05  # a launcher that ends a run sends SIGKILL shortly afterwards
# After a launcher's signal: the wait for other interrupted processes to report the signal, and the
# age at which a broken connection counts as a death, which made the launcher end the others.
_DEPARTURES_S = 0.5
_DEAD_S = 0.1
_SAME_SIGNAL_S = 0.3  # between deliveries of one signal to the processes of a group
_LAST_WORDS_S = 1.0
_STOPPED_S = 3.0  # patience with a stopped process once all cases are measured


class Attempt:
    """One attempt of a run, supervised by the first process."""

    def __init__(self, request: Request, listener: Listener) -> None:
        self._request = request
        self._listener = listener
        self._size = len(request.processes)
        self._looks: dict[int, Look] = {}
        self._left_s: dict[int, float] = {}
        self._cut_s = CUT_S
        self._mark = HostMark()

    def run(self) -> Outcome:
        """Starts the ranks and returns when all have exited, for whatever reason."""
        given = self._request.crew
        try:
            with contextlib.ExitStack() as stack:
                if given is None:
                    self._crew = stack.enter_context(crew_of_one(self._request.devices))
                else:
                    self._crew = given
                self._server = self._crew.meeting.server
                self._server.ranks = self._size
                self._connect(self._crew)
                try:
                    return self._supervise()
                except (KeyboardInterrupt, UnreadError) as interruption:
                    try:
                        return self._end_early(interruption)
                    except UnreadError:  # raised only once: nothing is printed from now on
                        return self._end_early(interruption)
                finally:
                    kill_ranks(self._crew.own.ranks)
        except (RankError, MissingError) as error:
            return Outcome(error.exit_code, str(error))

    def _connect(self, crew: Crew) -> None:
        """Connects the parts of the attempt."""
        request, listener = self._request, self._listener
        self._layout = lay_out(crew, self._size)
        self._stalls = StallWatch(crew)
        self._mpi = MpiWatch(request, crew.own)
        self._ras = RasQuery()
        delivery = ResultDelivery(listener)
        self._messages = RankMessages(request, listener, crew, delivery, self._stalls, self._mpi)
        self._introduction = Introduction(request, crew, self._layout, self._messages, delivery)

    def _supervise(self) -> Outcome:
        crew = self._crew
        launched = crew.placement is not None
        raise_if_ended(launched=launched)
        crew.begin_attempt(self._request.settings.timeout_s)
        processors = processors_of_ranks(self._request, crew, self._layout)
        for text in processors.notices:
            self._listener.notice(text)
        start_ranks(self._request, crew, self._layout, processors)
        self._started_s = time.monotonic()
        for text in (self._request.devices.notice, *self._request.warnings, *self._differences()):
            if text:
                self._listener.notice(text)
        if not self._mark.place():  # runs on one host disturb each other
            self._listener.notice(
                "another cclmark is measuring on this host: the figures of both are disturbed"
            )
        while not self._messages.all_finished:
            self._messages.receive(_POLL_S)
            self._introduction.check_devices()
            self._introduction.advance()
            self._look(closely=False)
            if any(look.late for look in self._looks.values()):
                own = [rank.pid for rank in crew.own.ranks]
                self._ras.begin(self._messages.libraries(), own)
            if 0 in self._looks:
                self._mpi.note_segments(self._looks[0])
                self._listener.progress(self._looks[0])
            if self._messages.failures or self._dead() or self._overdue() or crew.lost():
                self._await_own_signal()
                raise_if_ended(launched=launched)
                return self._give_up()
            raise_if_ended(launched=launched)
        return self._conclude()

    def _conclude(self) -> Outcome:
        """Ends an attempt in which every rank has finished."""
        crew = self._crew
        self._introduction.wait()
        lost = self._wait_for_others()
        for member in crew.members:
            member.end()
        if said := self._mpi.said():
            self._listener.notice(f"mpirun said: {said}")
        if turned_away := self._server.turned_away():
            self._listener.notice(turned_away)
        phases_s = self._messages.finished[0].phases_s
        if lost:
            return Outcome(EXIT_DIED, f"all is measured, but {lost}", phases_s)
        return Outcome(EXIT_OK, phases_s=phases_s)

    def _wait_for_others(self) -> str:
        """Waits for another message from each process after the ranks have finished.

        A launcher would wait for processes that do not exit. Returns the reason why a process is
        lost, empty if none is.
        """
        since_s = time.monotonic()
        silent = self._crew.remote
        while silent and not self._lost(_STOPPED_S):
            silent = [
                member
                for member in silent
                if member.heard_s <= since_s
                and not (member.seen and all(it.exit_status is not None for it in member.seen))
            ]
            if silent:
                self._messages.receive(_POLL_S)
            raise_if_ended()
        return self._lost(_STOPPED_S) if silent else ""

    def _lost(self, patience_s: float = SILENCE_S) -> str:
        """The process that is lost or stopped and the reason, empty if all processes respond.

        ``patience_s``: the allowed silence of a stopped process on this host.
        """
        crew = self._crew
        for member in crew.remote:
            silent = time.monotonic() > member.heard_s + patience_s
            here = crew.host_of[member.process] == crew.host_of[0]
            if silent and here and is_stopped(crew.joins[member.process].pid):
                return f"{member.name} is stopped (SIGSTOP or a debugger)"
        return crew.lost(self._cut_s)

    def _differences(self) -> list[str]:
        placement = self._crew.placement
        notices = list(placement.notices) if placement is not None else []
        return [*notices, *differences_between(self._crew.hosts)]

    def _look(self, *, closely: bool) -> None:
        for member in self._crew.members:
            for look in member.looks(closely=closely):
                self._looks[look.rank] = look

    def _dead(self) -> bool:
        """Whether a rank ended without a last message.

        The last message of a rank that exited by itself may still be in transit for a moment.
        """
        return any(
            look.exit_status is not None
            and not self._messages.has_reported_end(look.rank)
            and not self._may_be_heard(look)
            for look in self._looks.values()
        )

    def _await_own_signal(self) -> None:
        """Waits briefly for the signal that has ended a rank to arrive in this process too.

        A signal to a group of processes is delivered to one process after the other.
        """
        ended_by = {-(look.exit_status or 0) for look in self._looks.values()}
        deadline_s = time.monotonic() + (0.0 if ended_by.isdisjoint(ENDING) else _SAME_SIGNAL_S)
        while not noted() and time.monotonic() < deadline_s:
            self._messages.receive(_POLL_S)

    def _may_be_heard(self, look: Look) -> bool:
        """Whether a last message can still arrive: the rank runs, or has just exited by itself."""
        status = look.exit_status
        if status is None:
            return True
        left_s = self._left_s.setdefault(look.rank, time.monotonic())
        return status >= 0 and time.monotonic() < left_s + _LAST_WORDS_S

    def _overdue(self) -> bool:
        """Whether a rank has exceeded its deadline. After its last message there is none."""
        return any(
            look.overdue and look.rank not in self._messages.finished
            for look in self._looks.values()
        )

    def _end_early(self, interruption: BaseException) -> Outcome:
        """Ends an interrupted run and keeps the results that have arrived.

        If a launcher ends the run because a process died, the outcome names that process.
        """
        self._messages.receive(0.0)
        if self._crew.placement is not None and self._has_lost_one():
            return self._give_up(_SHORT_OF_TIME_S)
        self._introduction.wait()
        return Outcome(EXIT_INTERRUPTED, str(interruption) or "interrupted")

    def _has_lost_one(self) -> bool:
        """Whether a rank or a process of this run has ended before the signal that ends the others.

        After a signal, waits briefly until each process has reported the interruption or is known
        to have exited.
        """
        self._look(closely=False)
        own = self._crew.own.looks(closely=False)
        deadline_s = time.monotonic() + (_DEPARTURES_S if noted() else 0.0)
        while True:
            looks = [*own, *(look for member in self._crew.remote for look in member.seen)]
            if self._messages.failures or any(look.exit_status not in (None, 0) for look in looks):
                return True
            left = [member for member in self._crew.remote if member.interrupted_by is None]
            if any(member.lost(_DEAD_S) for member in left):
                self._cut_s = _DEAD_S
                return True
            if not left or time.monotonic() > deadline_s:
                return False
            self._messages.receive(_POLL_S)
            self._look(closely=False)

    def _give_up(self, patience_s: float = _GATHER_FAILURES_S) -> Outcome:
        """Collects the states of the surviving ranks, ends all ranks and returns a diagnosis."""
        crew = self._crew
        began_s = time.monotonic()
        self._look(closely=True)
        began_nothing = self._mpi.began_nothing()
        stopped = {look.rank for look in self._looks.values() if look.stopped}
        for member in crew.members:
            member.abort()
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s and self._unheard(stopped):
            self._messages.receive(_POLL_S)
            self._look(closely=False)
        self._introduction.wait()
        # A broken connection may be restored by now. If others failed first, it was the cause.
        lost = self._lost()
        states = self._states(stopped)
        code = EXIT_MISSING if exit_kind(states) == "missing" and not lost else EXIT_DIED
        stalled = self._stalls.explanation(culprit_of(states), began_s)
        message = diagnose(states, self._request.items, cause_is_known=bool(stalled))
        message += self._ras.answer(self._messages.receive)
        started = any(look.phase != "start-up" for look in self._looks.values())
        if began_nothing and not started and not self._messages.failures:
            message = began_nothing
        for cause in (lost, stalled):
            if cause:
                message = f"{cause}\n{indent(message, '  ')}"
        kill_ranks(crew.own.ranks)
        if turned_away := self._server.turned_away():
            message += f"\n  {turned_away}"
        if said := self._mpi.said():
            message += f"\n{indent(said, '  mpirun: ')}"
        failure = None if lost else _failure(culprit_of(states))
        return Outcome(code, message, failure=failure)

    def _states(self, stopped: set[int]) -> list[RankState]:
        """The current state of every rank. A rank without a report is still in start-up."""
        now_s = time.monotonic()
        runtimes, processes = self._request.devices.runtimes, self._request.processes
        hosts = self._crew.hosts
        host_of = self._layout.host_of
        process_of = self._layout.process_of
        silent_s = {
            one.process: now_s - one.heard_s for one in self._crew.remote if one.lost(self._cut_s)
        }
        heard = {rank: order for order, rank in enumerate(self._messages.failures)}
        unseen = Look(0, 0, "start-up", -1, 0, now_s - self._started_s, False, None, False)
        states = []
        for rank in range(self._size):
            look = self._looks.get(rank, unseen)
            device = f"{runtimes[rank]}:{','.join(map(str, processes[rank]))}"
            if len(hosts) > 1:
                device += f" of {hosts[host_of[rank]].machine.hostname}"
            states.append(
                RankState(
                    rank=rank,
                    device=device,
                    pid=look.pid,
                    status=Status(
                        look.phase,
                        look.case_index,
                        look.batches,
                        now_s - look.in_phase_s,
                        0.0,
                        Operations(*look.operations) if look.operations is not None else None,
                    ),
                    exit_status=look.exit_status if rank not in self._messages.finished else None,
                    stopped=rank in stopped or look.stopped,
                    failure=self._messages.failures.get(rank),
                    heard=heard.get(rank, 0),
                    in_phase_s=look.in_phase_s,
                    stack=look.stack,
                    silent_s=silent_s.get(process_of[rank]),
                )
            )
        return states

    def _unheard(self, stopped: set[int]) -> bool:
        """Whether a rank can still report its state. Ranks of a lost process cannot."""
        lost = {rank for one in self._crew.remote if one.lost(self._cut_s) for rank in one.ranks}
        return any(
            look.rank not in stopped | lost
            and not look.stopped
            and not self._messages.has_reported_end(look.rank)
            and self._may_be_heard(look)
            for look in self._looks.values()
        )


def _failure(culprit: RankState) -> Failed | None:
    """The failure that the culprit reported, or a timeout for one that hangs without a report."""
    hangs = culprit.exit_status is None and not culprit.stopped
    if culprit.failure is not None or not hangs:
        return culprit.failure
    status = culprit.status
    return Failed(culprit.rank, b"", "timeout", "no answer", status.phase, status.case_index)
