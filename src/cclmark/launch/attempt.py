"""Runs ranks, one process per device, and supervises them until all have exited."""

from __future__ import annotations

import contextlib

from cclmark.errors import MissingError, RankError, UnreadError
from cclmark.launch.attempt_end import AttemptEnd
from cclmark.launch.crew import Crew, crew_of_one
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
        crew = self._request.crew
        try:
            with contextlib.ExitStack() as stack:
                if crew is None:
                    crew = stack.enter_context(crew_of_one(self._request.devices))
                crew.meeting.server.ranks = len(self._request.processes)
                supervision, end = self._parts(crew)
                try:
                    return end.complete() if supervision.run() else end.fail()
                except (KeyboardInterrupt, UnreadError) as interruption:
                    try:
                        return end.interrupt(interruption)
                    except UnreadError:  # raised only once: nothing is printed from now on
                        return end.interrupt(interruption)
                finally:
                    kill_ranks(crew.own.ranks)
        except (RankError, MissingError) as error:
            return Outcome(error.exit_code, str(error))

    def _parts(self, crew: Crew) -> tuple[Supervision, AttemptEnd]:
        """Connects the parts of the attempt."""
        request, listener = self._request, self._listener
        layout = lay_out(crew, len(request.processes))
        delivery, stalls = ResultDelivery(listener), StallWatch(crew)
        mpi, ras = MpiWatch(request, crew.own), RasQuery()
        messages = RankMessages(request, listener, crew, delivery, stalls, mpi)
        introduction = Introduction(request, crew, layout, messages, delivery)
        ranks = RankWatch(request, crew, layout, messages)
        processes = ProcessWatch(crew, messages, ranks)
        supervision = Supervision(
            request, listener, crew, layout, messages, introduction, ranks, ras, mpi
        )
        end = AttemptEnd(
            request,
            listener,
            crew,
            messages,
            introduction,
            ranks,
            processes,
            stalls,
            ras,
            mpi,
        )
        return supervision, end
