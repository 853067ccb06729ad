"""Binds the process of a rank to processors, as ``--bind`` says, before libraries start threads.

What is set is always a part of the affinity that the process inherited: the binding of a launcher
and the cpuset of a container hold.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from cclmark import _engine as engine
from cclmark.plan.binding import NUMA, RANKS, mode_of
from cclmark.plan.processors import format_processors
from cclmark.rendezvous.messages import Job
from cclmark.results.processors import numa_nodes, processors_of_node_of, share_of_nodes

_THREADS = Path("/proc/self/task")


class RankBinding:
    """The binding of one rank that ``--bind`` asks for, applied in the order in which it is known.

    ``inherited``: the processors that the process may use. ``unbound``: why ``--bind numa`` left it
    at those, empty where it did not.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._mode = mode_of(job.settings.bind)
        self.inherited = os.sched_getaffinity(0)
        self.unbound = ""

    @property
    def is_default(self) -> bool:
        """Whether nothing was asked for: the default of the rank's device applies."""
        return not self._mode

    def bind_early(self) -> None:
        """Binds a rank whose processors do not depend on what its device reports.

        Raises engine.MissingError where none of the processors listed for it may be used.
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
        """Binds a rank of ``--bind numa`` to the NUMA nodes of its devices, which are open now."""
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
    """Binds this process: a driver and the messages of the run have threads already, and threads
    that start later inherit the binding. Raises engine.MissingError.
    """
    try:
        os.sched_setaffinity(0, processors)
    except OSError as error:
        raise engine.MissingError(
            f"--bind: the system refuses to bind a rank to processors "
            f"{format_processors(processors)}: {error.strerror}"
        ) from None
    for entry in _THREADS.iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            os.sched_setaffinity(int(entry.name), processors)
