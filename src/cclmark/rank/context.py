"""The context of a rank that every kind of work uses, and what it notes for explanations."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import cclmark._engine as engine
from cclmark.journal.host_processors import processors_near
from cclmark.journal.schema import LibraryDescription
from cclmark.rank.engine_values import describe_device
from cclmark.rank.rank import Rank
from cclmark.rank.rank_binding import RankBinding
from cclmark.rendezvous.messages import Connected, Hello
from cclmark.work.binding import format_processors
from cclmark.work.cases import Case
from cclmark.work.libraries import log_of, plug_ins_of

if TYPE_CHECKING:
    from cclmark.rank.instruments import Instruments


class MeasuredCases:
    """The measured cases of one rank, which sends the explanations of them at its end.

    For runs in which new ranks cannot be started: the MPI of a launcher does not support a second
    process for a rank. While cases are timed, only values that the engine holds anyway are noted.
    All else happens after the last timed operation.
    """

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._cases: dict[int, tuple[Case, str]] = {}
        self._connections: dict[str, list[engine.Connection]] = {}

    def add(self, index: int, case: Case, session: engine.Session) -> None:
        """Notes a case that ``session`` has just measured."""
        self._cases.setdefault(index, (case, session.kernel))

    def connect(self, ccl: str, communicator: engine.Communicator) -> None:
        """Notes how the communicator of all ranks, which was used, connects this one."""
        if any(case.ccl == ccl for case, _ in self._cases.values()):
            self._connections[ccl] = list(communicator.connections)

    def send(self) -> None:
        """Sends what is known, without cases of libraries with a plug-in (launch/launching.py)."""
        from cclmark.rank.explaining import (
            connections_without_log,
            known_after_measuring,
            network_devices,
            send_explained,
        )

        rank = self._rank
        for index, (case, kernel) in self._cases.items():
            if plug_ins_of(case.ccl) or log_of(case.ccl).pattern:
                continue
            rank.case_index = index
            rank.enter("explaining")
            send_explained(rank, index, known_after_measuring(case, kernel))
        rank.case_index = -1
        job, devices = rank.job, network_devices()
        for ccl, connections in self._connections.items():
            source, reason, paths = connections_without_log(ccl, connections, job)
            rank.client.send(Connected(job.rank, job.token, ccl, source, reason, paths, devices))


class RankContext:
    """A rank with open devices.

    ``instruments``: of a rank that explains instead of measuring. ``measured``: of a rank that
    explains after measuring.
    """

    def __init__(
        self,
        rank: Rank,
        devices: Sequence[engine.Device],
        binding: RankBinding,
        instruments: Instruments | None = None,
    ) -> None:
        self.instruments = instruments
        self.measured = MeasuredCases(rank) if rank.job.explains_at_end else None
        self.rank = rank
        self.job = rank.job
        self.devices = devices
        self._binding = binding

    @property
    def inherited(self) -> set[int]:
        """The processors that this process may use."""
        return self._binding.inherited

    def share_processors(self, *, alone: bool) -> None:
        """Applies the default binding of a rank of the host, without ``--bind``.

        The rank runs on its own processor, or on any inherited one if its library starts threads
        (``alone`` is false).
        """
        if self._binding.is_default and self.job.processors:
            own = set(self.job.processors) if alone else self._binding.inherited
            os.sched_setaffinity(0, own)

    def introduce(
        self, libraries: list[LibraryDescription], memory_bytes_per_s: float = 0.0
    ) -> None:
        """Sends Hello with the devices of this rank and the libraries that it has loaded."""
        devices = self.devices
        first = self.job.rank * len(devices)
        descriptions = [
            describe_device(device, first + number) for number, device in enumerate(devices)
        ]
        if self._binding.is_default and len(devices) == 1 and descriptions[0].pci_bus_id:
            keep_to(processors_near(descriptions[0].pci_bus_id))
        for description in descriptions:
            description.host, description.pid = platform.node(), os.getpid()
            description.processors = format_processors(os.sched_getaffinity(0))
        reach = []
        if self.rank.kind.between_devices:
            runtime, indices = self.job.runtime, self.job.every_index
            reach = [
                (one, other)
                for one in range(first, first + len(devices))
                for other in range(len(indices))
                if one != other
                and (not self.job.hosts or self.job.hosts[one] == self.job.hosts[other])
                and engine.devices_reach(runtime, indices[one], indices[other])
            ]
        job, unbound = self.job, self._binding.unbound
        self.rank.client.send(
            Hello(job.rank, job.token, descriptions, libraries, reach, unbound, memory_bytes_per_s)
        )


def keep_to(processors: set[int]) -> None:
    """Binds this process to those of the given processors that it may use, if there are any."""
    allowed = processors & os.sched_getaffinity(0)
    if allowed:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)
