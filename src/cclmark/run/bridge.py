"""One communicator over ranks of several libraries or runtimes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cclmark import __version__
from cclmark import _engine as engine
from cclmark.plan.islands import Island
from cclmark.results.schema import LibraryDescription
from cclmark.run.all_or_none import in_step
from cclmark.run.measured_libraries import NativeLibrary, join_with_id
from cclmark.run.rank import Rank


class BridgeLibrary:
    """The engine's bridge between islands, on top of the library of this rank's island.

    ``mpi``: the library that transfers data between hosts, None for a single host.
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
        self._joined = 0
        between = " + ".join(island.describe() for island in islands)
        self.descriptions = [
            LibraryDescription("bridge", __version__, f"built in, islands {between}")
        ]
        for used in (library, mpi):
            self.descriptions += used.descriptions if used is not None else []

    def join(
        self, rank: Rank, device: engine.Device, options: Mapping[str, str] | None = None
    ) -> engine.Communicator:
        """Joins the ranks of each island, then all ranks; ranks on several hosts use MPI."""
        job = rank.job
        self._joined += 1
        if self._library is not None and rank.subgroup is None:
            rank.form_subgroup(self._own.ranks, self._own.first)
            rank.enter("communicator creation")
        inner = in_step(rank.agreement, partial(self._join_island, rank, device))
        islands = engine.Islands(
            firsts=[island.first for island in self._islands],
            through_host=job.settings.through_host,
        )
        host_exchange = (
            self._mpi.ccl.open_host_exchange(rank.rank_group) if self._mpi is not None else None
        )
        return engine.join_islands(
            device, rank.rank_group, islands, own=inner, host_exchange=host_exchange
        )

    def _join_island(self, rank: Rank, device: engine.Device) -> engine.Communicator | None:
        if self._library is None or rank.subgroup is None:
            return None
        key = f"communicator id {self._joined} of the island {self._own.describe()}"
        return join_with_id(self._library.ccl, rank, device, rank.subgroup, key)
