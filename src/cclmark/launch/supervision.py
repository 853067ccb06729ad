"""The supervision of an attempt until all ranks have finished or one has failed."""

from __future__ import annotations

from cclmark.analysis.hosts import differences_between
from cclmark.launch.attempt_parts import AttemptParts
from cclmark.launch.host_mark import HostMark
from cclmark.launch.rank_start import processors_of_ranks, start_ranks
from cclmark.signals import raise_if_ended

_POLL_S = 0.02


class Supervision:
    """Starts the ranks of an attempt and supervises them."""

    def __init__(self, parts: AttemptParts) -> None:
        self._parts = parts
        self._mark = HostMark()
        self._launched = parts.coordinator.placement is not None

    def run(self) -> bool:
        """Starts the ranks and returns True once all have finished, False if the attempt failed.

        Raises KeyboardInterrupt after a signal, and the errors of RankMessages.receive.
        """
        parts = self._parts
        raise_if_ended(launched=self._launched)
        self._start()
        while not parts.messages.all_finished:
            parts.messages.receive(_POLL_S)
            parts.introduction.check_devices()
            parts.introduction.advance()
            parts.ranks.look(closely=False)
            if parts.ranks.any_late():
                own = [rank.pid for rank in parts.coordinator.own.ranks]
                parts.ras.begin(parts.messages.libraries(), own)
            if 0 in parts.ranks.rank_statuses:
                parts.mpi.note_segments(parts.ranks.rank_statuses[0])
                parts.listener.progress(parts.ranks.rank_statuses[0])
            if self._has_failed():
                parts.ranks.await_own_signal()
                raise_if_ended(launched=self._launched)
                return False
            raise_if_ended(launched=self._launched)
        return True

    def _start(self) -> None:
        """Starts the ranks and reports the notices that are known by then."""
        parts = self._parts
        parts.coordinator.begin_attempt(parts.request.settings.timeout_s)
        processors = processors_of_ranks(parts.request, parts.coordinator, parts.layout)
        for text in processors.notices:
            parts.listener.notice(text)
        start_ranks(parts.request, parts.coordinator, parts.layout, processors)
        parts.ranks.begin()
        for text in self._notices():
            if text:
                parts.listener.notice(text)
        if not self._mark.place():  # runs on one host disturb each other
            parts.listener.notice(
                "another cclmark run is active on this host: the results of both runs are disturbed"
            )

    def _notices(self) -> list[str]:
        """Notices on the devices, the request, the placement and the hosts, some of them empty."""
        parts = self._parts
        request, placement = parts.request, parts.coordinator.placement
        return [
            request.devices.notice,
            *request.warnings,
            *(placement.notices if placement is not None else ()),
            *differences_between(parts.coordinator.hosts),
        ]

    def _has_failed(self) -> bool:
        parts = self._parts
        return bool(
            parts.messages.failures
            or parts.ranks.any_dead()
            or parts.ranks.any_overdue()
            or parts.coordinator.lost()
        )
