"""Runs ranks, one process per device, and supervises them until all have exited."""

from __future__ import annotations

import contextlib

from cclmark.errors import MissingError, RankError, UnreadError
from cclmark.launch.attempt_end import AttemptEnd
from cclmark.launch.attempt_parts import AttemptParts
from cclmark.launch.coordinator import coordinator_of_one
from cclmark.launch.ranks import kill_ranks
from cclmark.launch.request import Listener, Outcome, Request
from cclmark.launch.supervision import Supervision


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
