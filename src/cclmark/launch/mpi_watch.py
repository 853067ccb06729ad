"""The supervision of ranks that an mpirun of this process has started."""

from __future__ import annotations

from cclmark.launch.agent import LocalAgent
from cclmark.launch.request import Request
from cclmark.rendezvous.messages import Hello, RankStatus


class MpiWatch:
    """Supervises the mpirun of the ranks. Without an mpirun, no method has an effect."""

    def __init__(self, request: Request, agent: LocalAgent) -> None:
        self._request = request
        self._agent = agent
        self._noted = False

    def found(self, hello: Hello) -> None:
        """Records the pid of a rank, which its mpirun does not report."""
        if self._agent.mpi is not None:
            self._agent.mpi.ranks[hello.rank].found(hello.devices[0].pid)

    def watch(self) -> None:
        """Watches from now on which rank exits first. Requires the pids of all ranks."""
        if self._agent.mpi is not None:
            self._agent.mpi.watch()

    def note_segments(self, rank_status: RankStatus) -> None:
        """Records the shared-memory segments of the ranks when they begin to measure with MPI.

        ``look``: the state of rank 0.
        """
        mpi = self._agent.mpi
        if mpi is None or self._noted or rank_status.phase != "warm-up":
            return
        items = self._request.items
        case = items[rank_status.case_index] if 0 <= rank_status.case_index < len(items) else None
        if case is not None and case.ccl == "mpi":
            mpi.note_segments()
            self._noted = True

    def began_nothing(self) -> str:
        """A report on the mpirun if no rank has begun, empty if one has or without an mpirun."""
        return self._agent.mpi.began_nothing() if self._agent.mpi is not None else ""

    def said(self) -> str:
        """The output of the mpirun, empty without one."""
        return self._agent.mpi.said() if self._agent.mpi is not None else ""
