"""The supervision of an attempt until all ranks have finished or one has failed."""

from __future__ import annotations

from cclmark.analysis.hosts import differences_between
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.host_mark import HostMark
from cclmark.launch.introduction import Introduction
from cclmark.launch.mpi_watch import MpiWatch
from cclmark.launch.rank_layout import RankLayout
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.rank_start import processors_of_ranks, start_ranks
from cclmark.launch.rank_watch import RankWatch
from cclmark.launch.ras_query import RasQuery
from cclmark.launch.request import Listener, Request
from cclmark.signals import raise_if_ended

_POLL_S = 0.02


class Supervision:
    """Starts the ranks of an attempt and supervises them."""

    def __init__(
        self,
        request: Request,
        listener: Listener,
        coordinator: Coordinator,
        layout: RankLayout,
        messages: RankMessages,
        introduction: Introduction,
        ranks: RankWatch,
        ras: RasQuery,
        mpi: MpiWatch,
    ) -> None:
        self._request = request
        self._listener = listener
        self._coordinator = coordinator
        self._layout = layout
        self._messages = messages
        self._introduction = introduction
        self._ranks = ranks
        self._ras = ras
        self._mpi = mpi
        self._mark = HostMark()
        self._launched = coordinator.placement is not None

    def run(self) -> bool:
        """Starts the ranks and returns True once all have finished, False if the attempt failed.

        Raises KeyboardInterrupt after a signal, and the errors of RankMessages.receive.
        """
        raise_if_ended(launched=self._launched)
        self._start()
        while not self._messages.all_finished:
            self._messages.receive(_POLL_S)
            self._introduction.check_devices()
            self._introduction.advance()
            self._ranks.look(closely=False)
            if self._ranks.any_late():
                own = [rank.pid for rank in self._coordinator.own.ranks]
                self._ras.begin(self._messages.libraries(), own)
            if 0 in self._ranks.rank_statuses:
                self._mpi.note_segments(self._ranks.rank_statuses[0])
                self._listener.progress(self._ranks.rank_statuses[0])
            if self._has_failed():
                self._ranks.await_own_signal()
                raise_if_ended(launched=self._launched)
                return False
            raise_if_ended(launched=self._launched)
        return True

    def _start(self) -> None:
        """Starts the ranks and reports the notices that are known by then."""
        self._coordinator.begin_attempt(self._request.settings.timeout_s)
        processors = processors_of_ranks(self._request, self._coordinator, self._layout)
        for text in processors.notices:
            self._listener.notice(text)
        start_ranks(self._request, self._coordinator, self._layout, processors)
        self._ranks.begin()
        for text in self._notices():
            if text:
                self._listener.notice(text)
        if not self._mark.place():  # runs on one host disturb each other
            self._listener.notice(
                "another cclmark run is active on this host: the results of both runs are disturbed"
            )

    def _notices(self) -> list[str]:
        """Notices on the devices, the request, the placement and the hosts, some of them empty."""
        request, placement = self._request, self._coordinator.placement
        return [
            request.devices.notice,
            *request.warnings,
            *(placement.notices if placement is not None else ()),
            *differences_between(self._coordinator.hosts),
        ]

    def _has_failed(self) -> bool:
        return bool(
            self._messages.failures
            or self._ranks.any_dead()
            or self._ranks.any_overdue()
            or self._coordinator.lost()
        )
