"""The context of a rank that every kind of work uses."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from cclmark import _engine as engine
from cclmark.plan.processors import format_processors
from cclmark.rendezvous.messages import Hello
from cclmark.results.host_processors import device_numa_node, processors_near
from cclmark.results.schema import DeviceDescription, LibraryDescription
from cclmark.run.measured_cases import MeasuredCases
from cclmark.run.rank import Rank
from cclmark.run.rank_binding import RankBinding

if TYPE_CHECKING:
    from cclmark.run.instruments import Instruments


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
        descriptions = [_describe(device, first + number) for number, device in enumerate(devices)]
        if self._binding.is_default and len(devices) == 1 and descriptions[0].pci_bus_id:
            keep_to(processors_near(descriptions[0].pci_bus_id))
        for description in descriptions:
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


def _describe(device: engine.Device, number: int) -> DeviceDescription:
    info = device.info
    description = DeviceDescription(
        rank=number,
        host=platform.node(),
        runtime=info.runtime,
        index=info.index,
        name=info.name,
        memory_bytes=info.memory_bytes,
        pid=os.getpid(),
        pci_bus_id=info.pci_bus_id,
        architecture=info.architecture,
        multiprocessors=info.multiprocessors,
        driver_version=info.driver_version,
        runtime_path=info.library_path,
    )
    if info.pci_bus_id:
        description.numa_node = device_numa_node(info.pci_bus_id)
    return description


def keep_to(processors: set[int]) -> None:
    """Binds this process to those of the given processors that it may use, if there are any."""
    allowed = processors & os.sched_getaffinity(0)
    if allowed:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)
