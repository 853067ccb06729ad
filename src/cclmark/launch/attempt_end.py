"""The end of an attempt and its outcome: complete, failed or interrupted."""

from __future__ import annotations

import time
from textwrap import indent

from cclmark.errors import EXIT_DIED, EXIT_INTERRUPTED, EXIT_MISSING, EXIT_OK
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.diagnosis import RankState, culprit_of, diagnose, exit_kind
from cclmark.launch.introduction import Introduction
from cclmark.launch.mpi_watch import MpiWatch
from cclmark.launch.process_watch import ProcessWatch
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.rank_watch import RankWatch
from cclmark.launch.ranks import kill_ranks
from cclmark.launch.ras_query import RasQuery
from cclmark.launch.request import Listener, Outcome, Request
from cclmark.launch.supervisor_stall import StallWatch
from cclmark.rendezvous.messages import Failed

_POLL_S = 0.02
_GATHER_FAILURES_S = 1.5  # wait for the other ranks to report their state
_SHORT_OF_TIME_S = 0.05  # a launcher that ends a run sends SIGKILL shortly afterwards


class AttemptEnd:
    """Ends the ranks of an attempt in one of three ways."""

    def __init__(
        self,
        request: Request,
        listener: Listener,
        coordinator: Coordinator,
        messages: RankMessages,
        introduction: Introduction,
        ranks: RankWatch,
        processes: ProcessWatch,
        stalls: StallWatch,
        ras: RasQuery,
        mpi: MpiWatch,
    ) -> None:
        self._request = request
        self._listener = listener
        self._coordinator = coordinator
        self._messages = messages
        self._introduction = introduction
        self._ranks = ranks
        self._processes = processes
        self._stalls = stalls
        self._ras = ras
        self._mpi = mpi

    def complete(self) -> Outcome:
        """Ends an attempt in which every rank has finished."""
        self._introduction.wait()
        lost = self._processes.wait_for_others()
        for agent in self._coordinator.agents:
            agent.end()
        if said := self._mpi.said():
            self._listener.notice(f"mpirun printed: {said}")
        if turned_away := self._coordinator.meeting.server.turned_away():
            self._listener.notice(turned_away)
        phases_s = self._messages.finished[0].phases_s
        if lost:
            return Outcome(EXIT_DIED, f"all cases are measured, but {lost}", phases_s)
        return Outcome(EXIT_OK, phases_s=phases_s)

    def interrupt(self, interruption: BaseException) -> Outcome:
        """Ends an interrupted attempt and keeps the results that have arrived.

        If a launcher ends the run because a process died, the outcome names that process.
        """
        self._messages.receive(0.0)
        if self._coordinator.placement is not None and self._processes.has_lost_one():
            return self.fail(_SHORT_OF_TIME_S)
        self._introduction.wait()
        return Outcome(EXIT_INTERRUPTED, str(interruption) or "interrupted")

    def fail(self, patience_s: float = _GATHER_FAILURES_S) -> Outcome:
        """Collects the states of the surviving ranks, ends all ranks and returns a diagnosis."""
        failed_s = time.monotonic()
        self._ranks.look(closely=True)
        began_nothing = self._mpi.began_nothing()
        stopped = {
            rank_status.rank
            for rank_status in self._ranks.rank_statuses.values()
            if rank_status.stopped
        }
        self._abort_and_gather(stopped, patience_s)
        self._introduction.wait()
        # A broken connection may be restored by now. If others failed first, it was the cause.
        lost = self._processes.lost()
        states = self._ranks.states(stopped, self._processes.silence_s())
        culprit = culprit_of(states)
        code = EXIT_MISSING if exit_kind(states) == "missing" and not lost else EXIT_DIED
        stalled = self._stalls.explanation(culprit, failed_s)
        message = diagnose(states, self._request.items, cause_is_known=bool(stalled))
        message += self._ras.answer(self._messages.receive)
        if began_nothing and not self._ranks.any_started() and not self._messages.failures:
            message = began_nothing
        for cause in (lost, stalled):
            if cause:
                message = f"{cause}\n{indent(message, '  ')}"
        kill_ranks(self._coordinator.own.ranks)
        if turned_away := self._coordinator.meeting.server.turned_away():
            message += f"\n  {turned_away}"
        if said := self._mpi.said():
            message += f"\n{indent(said, '  mpirun: ')}"
        return Outcome(code, message, failure=None if lost else _failure(culprit))

    def _abort_and_gather(self, stopped: set[int], patience_s: float) -> None:
        """Ends the waits of all ranks and waits for the reports of those that can respond."""
        for agent in self._coordinator.agents:
            agent.abort()
        deadline_s = time.monotonic() + patience_s
        while time.monotonic() < deadline_s and self._ranks.any_can_report(
            stopped | self._processes.lost_ranks()
        ):
            self._messages.receive(_POLL_S)
            self._ranks.look(closely=False)


def _failure(culprit: RankState) -> Failed | None:
    """The failure that the culprit reported, or a timeout for one that hangs without a report."""
    hangs = culprit.exit_status is None and not culprit.stopped
    if culprit.failure is not None or not hangs:
        return culprit.failure
    status = culprit.status
    return Failed(culprit.rank, b"", "timeout", "no answer", status.phase, status.case_index)
