"""Binds the process of a rank to processors, as set by ``--bind``, before libraries start threads.

The binding is always a subset of the inherited affinity, so the binding of a launcher and the
cpuset of a container remain in effect.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

import cclmark._engine as engine
from cclmark.journal.host_processors import numa_nodes, processors_of_node_of, share_of_nodes
from cclmark.rendezvous.messages import Job
from cclmark.work.binding import NUMA, RANKS, format_processors, mode_of

_THREADS = Path("/proc/self/task")


class RankBinding:
    """The binding of one rank by ``--bind``, applied as soon as it is known.

    ``inherited``: the processors that the process may use. ``unbound``: the reason why
    ``--bind numa`` did not bind the rank, empty if it did.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._mode = mode_of(job.settings.bind)
        self.inherited = os.sched_getaffinity(0)
        self.unbound = ""

    @property
    def is_default(self) -> bool:
        """Whether ``--bind`` is not given, so that the default of the rank's device applies."""
        return not self._mode

    def bind_early(self) -> None:
        """Binds a rank whose processors do not depend on its device.

        Raises engine.MissingError if it may use none of the processors listed for it.
        """
        job = self._job
        if self._mode == RANKS:
            own = self.inherited.intersection(job.processors)
            if not own:
                raise engine.MissingError(
                    f"--bind: rank {job.rank} cannot be bound to processors "
                    f"{format_processors(job.processors)}: its process may use only "
                    f"{format_processors(self.inherited)}"
                )
            _bind_all_threads(own)
        elif self._mode == NUMA and job.runtime == "host":
            own = share_of_nodes(numa_nodes(), self.inherited, *job.place_on_host)
            self._bind_near(own, "the system reports no NUMA node of its processors")

    def bind_to_devices(self, pci_bus_ids: Sequence[str]) -> None:
        """With ``--bind numa``, binds the rank to the NUMA nodes of its devices, now open."""
        if self._mode != NUMA or self._job.runtime == "host":
            return
        nodes = [processors_of_node_of(bus_id) if bus_id else set() for bus_id in pci_bus_ids]
        own = {one for node in nodes for one in node} if all(nodes) else set()
        self._bind_near(own, "the system does not report the NUMA node of the device")

    def _bind_near(self, processors: Collection[int], unknown: str) -> None:
        own = self.inherited.intersection(processors)
        if own:
            _bind_all_threads(own)
        elif processors:
            self.unbound = "the launcher's binding excludes the NUMA node of the device"
        else:
            self.unbound = unknown


def _bind_all_threads(processors: Collection[int]) -> None:
    """Binds all threads of this process. Raises engine.MissingError.

    The driver and ZeroMQ have started threads already. Later threads inherit the binding.
    """
    try:
        os.sched_setaffinity(0, processors)
    except OSError as error:
        raise engine.MissingError(
            f"--bind: the system refuses to bind a rank to processors "
            f"{format_processors(processors)}: {error.strerror}"
        ) from None
    for entry in _THREADS.iterdir():
        with suppress(OSError):  # the thread may have ended in the meantime
            os.sched_setaffinity(int(entry.name), processors)
