"""Ranks of several libraries or runtimes as one group."""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.plan.islands import Island
from cclmark.results.schema import LibraryDescription
from cclmark.run.libraries import NativeLibrary, join_with_id
from cclmark.run.rank import Rank


class BridgeLibrary:
    """The engine's way between islands, with this rank's island's own library below.

    ``mpi``: what takes data between hosts, None where all ranks are on one.
    """

    def __init__(
        self,
        islands: list[Island],
        own: Island,
        library: NativeLibrary | None,
        mpi: NativeLibrary | None,
    ) -> None:
        self._islands = islands
        self._own = own
        self._library = library
        self._mpi = mpi
        between = " + ".join(island.describe() for island in islands)
        self.descriptions = [LibraryDescription("bridge", between, "built in")]
        for used in (library, mpi):
            self.descriptions += used.descriptions if used is not None else []

    def join(self, rank: Rank, device: engine.Device) -> engine.Communicator:
        """First the ranks of each island join, then all, those of several hosts by MPI."""
        job = rank.job
        inner: engine.Communicator | None = None
        if self._library is not None:
            # Places of the team's memory that no other island takes.
            first_slot = job.ranks + self._own.first
            rank.group = rank.team.group(job.team_fd, self._own.ranks, first_slot)
            rank.enter("communicator creation")
            key = f"communicator id of the island {self._own.describe()}"
            inner = join_with_id(self._library.ccl, rank, device, rank.group, key)
        firsts = [island.first for island in self._islands]
        through_host = job.settings.through_host
        carrier = self._mpi.ccl.carry(rank.team) if self._mpi is not None else None
        return engine.join_islands(device, rank.team, firsts, through_host, inner, carrier)
