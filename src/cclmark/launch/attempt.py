"""Runs ranks, one process per device, and supervises them until all have exited."""

from __future__ import annotations

import contextlib

from cclmark.errors import MissingError, RankError, UnreadError
from cclmark.launch.attempt_end import AttemptEnd
from cclmark.launch.coordinator import Coordinator, coordinator_of_one
from cclmark.launch.introduction import Introduction
from cclmark.launch.mpi_watch import MpiWatch
from cclmark.launch.process_watch import ProcessWatch
from cclmark.launch.rank_layout import lay_out
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.rank_watch import RankWatch
from cclmark.launch.ranks import kill_ranks
from cclmark.launch.ras_query import RasQuery
from cclmark.launch.request import Listener, Outcome, Request
from cclmark.launch.result_delivery import ResultDelivery
from cclmark.launch.supervision import Supervision
from cclmark.launch.supervisor_stall import StallWatch


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
                supervision, end = self._parts(coordinator)
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

    def _parts(self, coordinator: Coordinator) -> tuple[Supervision, AttemptEnd]:
        """Connects the parts of the attempt."""
        request, listener = self._request, self._listener
        layout = lay_out(coordinator, len(request.processes))
        delivery, stalls = ResultDelivery(listener), StallWatch(coordinator)
        mpi, ras = MpiWatch(request, coordinator.own), RasQuery()
        messages = RankMessages(request, listener, coordinator, delivery, stalls, mpi)
        introduction = Introduction(request, coordinator, layout, messages, delivery)
        ranks = RankWatch(request, coordinator, layout, messages)
        processes = ProcessWatch(coordinator, messages, ranks)
        supervision = Supervision(
            request, listener, coordinator, layout, messages, introduction, ranks, ras, mpi
        )
        end = AttemptEnd(
            request,
            listener,
            coordinator,
            messages,
            introduction,
            ranks,
            processes,
            stalls,
            ras,
            mpi,
        )
        return supervision, end
