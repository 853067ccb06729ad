"""The end of an attempt and its outcome: complete, failed or interrupted."""

from __future__ import annotations

import time
from textwrap import indent

from cclmark.errors import EXIT_DIED, EXIT_INTERRUPTED, EXIT_MISSING, EXIT_OK, EXIT_USAGE
from cclmark.launch.attempt_parts import AttemptParts
from cclmark.launch.diagnosis import RankState, culprit_of, diagnose, exit_kind, hangs
from cclmark.launch.ranks import kill_ranks
from cclmark.launch.request import Outcome
from cclmark.rendezvous.messages import Failed
from cclmark.signals import noted

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
