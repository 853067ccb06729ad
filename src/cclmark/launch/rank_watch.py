"""The supervision of ranks: their states, deadlines and unexpected ends."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from cclmark.launch.coordinator import Coordinator, RankLayout
from cclmark.launch.diagnosis import RankState
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.request import Request
from cclmark.rendezvous.board import Operations, Status
from cclmark.rendezvous.messages import RankStatus
from cclmark.signals import ENDING, noted

_POLL_S = 0.02
_SAME_SIGNAL_S = 0.3  # between deliveries of one signal to the processes of a group
_LAST_MESSAGE_S = 1.0  # the longest transit of the last message of a rank that has exited


class RankWatch:
    """Observes all ranks through the processes to which they belong.

    ``rank_statuses``: the last known state of each rank, by rank; ranks that have not been observed
    yet are missing.
    """

    def __init__(
        self, request: Request, coordinator: Coordinator, layout: RankLayout, messages: RankMessages
    ) -> None:
        self._request = request
        self._coordinator = coordinator
        self._layout = layout
        self._messages = messages
        self._started_s = time.monotonic()
        self._exited_s: dict[int, float] = {}
        self.rank_statuses: dict[int, RankStatus] = {}

    def begin(self) -> None:
        """Begins to count the time in which ranks start."""
        self._started_s = time.monotonic()

    def look(self, *, closely: bool) -> None:
        """Observes all ranks. ``closely``: also finds out whether they are stopped."""
        for agent in self._coordinator.agents:
            for rank_status in agent.rank_statuses(closely=closely):
                self.rank_statuses[rank_status.rank] = rank_status

    def any_late(self) -> bool:
        """Whether a rank is close to its deadline."""
        return any(rank_status.late for rank_status in self.rank_statuses.values())

    def any_overdue(self) -> bool:
        """Whether a rank has exceeded its deadline. After its last message there is none."""
        return any(
            rank_status.overdue and rank_status.rank not in self._messages.finished
            for rank_status in self.rank_statuses.values()
        )

    def any_dead(self) -> bool:
        """Whether a rank ended without a last message.

        The last message of a rank that exited by itself may still be in transit for a moment.
        """
        return any(
            rank_status.exit_status is not None
            and not self._messages.has_reported_end(rank_status.rank)
            and not self._may_report(rank_status)
            for rank_status in self.rank_statuses.values()
        )

    def any_started(self) -> bool:
        """Whether a rank has completed its start-up."""
        return any(rank_status.phase != "start-up" for rank_status in self.rank_statuses.values())

    def any_can_report(self, excluded: Collection[int]) -> bool:
        """Whether a rank can still report its state, apart from the ``excluded`` ranks."""
        return any(
            rank_status.rank not in excluded
            and not rank_status.stopped
            and not self._messages.has_reported_end(rank_status.rank)
            and self._may_report(rank_status)
            for rank_status in self.rank_statuses.values()
        )

    def await_own_signal(self) -> None:
        """Waits briefly for the signal that has ended a rank to arrive in this process too.

        A signal to a group of processes is delivered to one process after the other.
        """
        ended_by = {-(rank_status.exit_status or 0) for rank_status in self.rank_statuses.values()}
        deadline_s = time.monotonic() + (0.0 if ended_by.isdisjoint(ENDING) else _SAME_SIGNAL_S)
        while not noted() and time.monotonic() < deadline_s:
            self._messages.receive(_POLL_S)

    def states(self, stopped: Collection[int], silence_s: Mapping[int, float]) -> list[RankState]:
        """The current state of every rank. A rank that was not observed is still in start-up.

        ``stopped``: ranks that were stopped earlier. ``silence_s``: the time since the last message
        of each lost process.
        """
        now_s = time.monotonic()
        runtimes, processes = self._request.devices.runtimes, self._request.processes
        hosts = self._coordinator.hosts
        has_one_clock = len(set(self._layout.host_of)) == 1
        order_of_failure = {rank: order for order, rank in enumerate(self._messages.failures)}
        unseen = RankStatus(0, 0, "start-up", -1, 0, now_s - self._started_s, False, None, False)
        states = []
        for rank, indices in enumerate(processes):
            rank_status = self.rank_statuses.get(rank, unseen)
            device = f"{runtimes[rank]}:{','.join(map(str, indices))}"
            if len(hosts) > 1:
                device += f" of {hosts[self._layout.host_of[rank]].machine.hostname}"
            finished = rank in self._messages.finished
            failure = self._messages.failures.get(rank)
            failed_at_s = failure.at_s if failure is not None and has_one_clock else 0.0
            states.append(
                RankState(
                    rank=rank,
                    device=device,
                    pid=rank_status.pid,
                    status=Status(
                        rank_status.phase,
                        rank_status.case_index,
                        rank_status.batches,
                        now_s - rank_status.in_phase_s,
                        0.0,
                        Operations(*rank_status.operations)
                        if rank_status.operations is not None
                        else None,
                    ),
                    exit_status=None if finished else rank_status.exit_status,
                    stopped=rank in stopped or rank_status.stopped,
                    failure=failure,
                    failed_at_s=failed_at_s or None,
                    heard=order_of_failure.get(rank, 0),
                    in_phase_s=rank_status.in_phase_s,
                    stack=rank_status.stack,
                    silent_s=silence_s.get(self._layout.process_of[rank]),
                )
            )
        return states

    def _may_report(self, rank_status: RankStatus) -> bool:
        """Whether a last message can still arrive: the rank runs, or has just exited by itself."""
        status = rank_status.exit_status
        if status is None:
            return True
        exited_s = self._exited_s.setdefault(rank_status.rank, time.monotonic())
        return status >= 0 and time.monotonic() < exited_s + _LAST_MESSAGE_S
