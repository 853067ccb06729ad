"""What ranks know of the cases that they have measured, where new ranks cannot be started.

The MPI of a launcher does not support a second process for a rank. While cases are timed, only
values that the engine holds anyway are noted. All else happens after the last timed operation.
"""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.plan.cases import Case
from cclmark.plan.libraries import log_of, plug_ins_of
from cclmark.rendezvous.messages import Connected
from cclmark.run.rank import Rank


class MeasuredCases:
    """The measured cases of one rank, which sends the explanations of them at its end."""

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
        """Sends what is known. A case of a library with a plug-in or log is left out: see
        launch/launching.py.
        """
        from cclmark.run.connections import (
            connections_without_log,  # not imported while measuring
            network_devices,
        )
        from cclmark.run.explaining import known_after_measuring, send_explained

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
