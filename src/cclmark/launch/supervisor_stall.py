"""Times at which the supervising process itself was stopped or blocked."""

from __future__ import annotations

import time

from cclmark.launch.coordinator import Coordinator
from cclmark.launch.diagnosis import RankState, hangs

_STALL_S = 3.0  # the shortest pause of this process that counts as a stall
_STALL_SHARE = 0.5  # of the time that a rank waited: from there the stall explains the wait
_AFTER_STALL_S = 10.0  # the consequences of a stall appear within this time


class StallWatch:
    """Detects stalls of this process, so that ranks and other processes are not blamed for them."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._ran_s: float | None = None
        self._stall_s = 0.0
        self._stall_ended_s = float("-inf")

    def note(self) -> None:
        """Records that this process runs. After a stall, the silence of the others restarts."""
        before_s, now_s = self._ran_s, time.monotonic()
        self._ran_s = now_s
        if before_s is None or now_s < before_s + _STALL_S:
            return
        self._stall_s, self._stall_ended_s = now_s - before_s, now_s
        for agent in self._coordinator.remote:
            agent.heard_s = now_s

    def explanation(self, culprit: RankState, failed_s: float) -> str:
        """A sentence that this process was stopped or blocked, if that explains the failure.

        ``failed_s``: the time of the failure. A stall explains ranks that waited, and ranks that
        exited at their deadline and could not report it. Empty otherwise.
        """
        left = culprit.failure is None and (culprit.exit_status or 0) > 0
        # A rank that waited for this process did so for most of its time in the phase.
        waited = hangs(culprit) and self._stall_s >= _STALL_SHARE * (culprit.in_phase_s or 0.0)
        if failed_s > self._stall_ended_s + _AFTER_STALL_S or not (waited or left):
            return ""
        join = self._coordinator.joins[0]
        return (
            f"process 0 (pid {join.pid} on {join.host.machine.hostname}), which supervises the "
            f"run, was stopped or blocked for {self._stall_s:.0f} s (SIGSTOP, a debugger, or "
            "output that was not read)"
        )
