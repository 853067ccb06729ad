"""The parts of an attempt, each with separate state."""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.launch.coordinator import Coordinator
from cclmark.launch.introduction import Introduction
from cclmark.launch.mpi_watch import MpiWatch
from cclmark.launch.process_watch import ProcessWatch
from cclmark.launch.rank_layout import RankLayout, lay_out
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.rank_watch import RankWatch
from cclmark.launch.ras_query import RasQuery
from cclmark.launch.request import Listener, Request
from cclmark.launch.result_delivery import ResultDelivery
from cclmark.launch.supervisor_stall import StallWatch


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
