"""The supervision of the other processes of a run: lost, stopped, interrupted or silent ones."""

from __future__ import annotations

import time

from cclmark.launch.coordinator import Coordinator, RemoteAgent
from cclmark.launch.follower import CUT_S, SILENCE_S
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.rank_watch import RankWatch
from cclmark.launch.ranks import is_stopped
from cclmark.signals import noted, raise_if_ended

_POLL_S = 0.02
# After a launcher's signal: the wait for other interrupted processes to report the signal, and the
# age at which a broken connection counts as a death, which made the launcher end the others.
_DEPARTURES_S = 0.5
_DEAD_S = 0.1
_STOPPED_S = 3.0  # patience with a stopped process once all cases are measured


class ProcessWatch:
    """Observes the processes other than the first one."""

    def __init__(self, coordinator: Coordinator, messages: RankMessages, ranks: RankWatch) -> None:
        self._coordinator = coordinator
        self._messages = messages
        self._ranks = ranks
        self._cut_s = CUT_S

    def lost(self, patience_s: float = SILENCE_S) -> str:
        """The process that is lost or stopped and the reason, empty if all processes respond.

        ``patience_s``: the allowed silence of a stopped process on this host.
        """
        coordinator = self._coordinator
        for agent in coordinator.remote:
            silent = time.monotonic() > agent.heard_s + patience_s
            here = coordinator.host_of[agent.process] == coordinator.host_of[0]
            if silent and here and is_stopped(coordinator.joins[agent.process].pid):
                return f"{agent.name} is stopped (SIGSTOP or a debugger)"
        return coordinator.lost(self._cut_s)

    def lost_ranks(self) -> set[int]:
        """The ranks of lost processes."""
        return {rank for agent in self._lost_members() for rank in agent.ranks}

    def silence_s(self) -> dict[int, float]:
        """The time since the last message of each lost process, by process."""
        now_s = time.monotonic()
        return {agent.process: now_s - agent.heard_s for agent in self._lost_members()}

    def wait_for_others(self) -> str:
        """Waits for another message from each process after the ranks have finished.

        A launcher would wait for processes that do not exit. Returns the reason why a process is
        lost, empty if none is.
        """
        since_s = time.monotonic()
        silent = self._coordinator.remote
        while silent and not self.lost(_STOPPED_S):
            silent = [
                agent
                for agent in silent
                if agent.heard_s <= since_s
                and not (agent.seen and all(it.exit_status is not None for it in agent.seen))
            ]
            if silent:
                self._messages.receive(_POLL_S)
            raise_if_ended()
        return self.lost(_STOPPED_S) if silent else ""

    def has_lost_one(self) -> bool:
        """Whether a rank or a process of this run has ended before the signal that ends the others.

        After a signal, waits briefly until each process has reported the interruption or is known
        to have exited.
        """
        self._ranks.look(closely=False)
        own = self._coordinator.own.rank_statuses(closely=False)
        deadline_s = time.monotonic() + (_DEPARTURES_S if noted() else 0.0)
        while True:
            rank_statuses = [
                *own,
                *(rank_status for agent in self._coordinator.remote for rank_status in agent.seen),
            ]
            if self._messages.failures or any(
                it.exit_status not in (None, 0) for it in rank_statuses
            ):
                return True
            left = [agent for agent in self._coordinator.remote if agent.interrupted_by is None]
            if any(agent.lost(_DEAD_S) for agent in left):
                self._cut_s = _DEAD_S
                return True
            if not left or time.monotonic() > deadline_s:
                return False
            self._messages.receive(_POLL_S)
            self._ranks.look(closely=False)

    def _lost_members(self) -> list[RemoteAgent]:
        return [agent for agent in self._coordinator.remote if agent.lost(self._cut_s)]
