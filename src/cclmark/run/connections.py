"""How a library connects this rank, from its log or, for one of the engine, from the engine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cclmark import _engine as engine
from cclmark.explain.paths import RankPaths, Route
from cclmark.explain.second_process import without_second_process
from cclmark.plan.libraries import plug_ins_of
from cclmark.printable import plain
from cclmark.rendezvous.messages import Job
from cclmark.run.instruments import Instruments

_LISTED = Path("/sys/class/infiniband")


def network_devices(listed: Path = _LISTED) -> list[str]:
    """Returns the names of InfiniBand and RoCE devices that Linux lists; empty if it cannot."""
    try:
        return sorted(entry.name for entry in listed.iterdir())
    except OSError:
        return []


_SINGLE = "a single rank has no connection"


def connections_of(
    ccl: str, communicator: engine.Communicator, instruments: Instruments, job: Job
) -> tuple[str, str, RankPaths]:
    """Returns the source (log, engine or unknown), the reason if it is unknown, and the paths.

    ``communicator``: of the library ``ccl`` and of all ranks of the run. The library may connect
    ranks when it is first used.
    """
    if not plug_ins_of(ccl):
        return connections_without_log(ccl, communicator.connections, job)
    source, reason, paths = "log", "", instruments.paths()
    paths.others = {
        plain(name): plain(value)
        for name, value in communicator.parameters
        if name not in paths.parameters
    }
    sizes = sorted({*paths.communicators, job.ranks})
    if len(sizes) > 1:
        # Their lines name ranks by their numbers in each of them.
        paths.routes, paths.ring_next, paths.tree_parent = [], {}, {}
    if paths.is_empty:
        source, reason = "unknown", "the library's log contains no connection"
        if job.ranks == 1:
            reason = _SINGLE
        elif len(sizes) > 1:
            reason = (
                f"the library created communicators of {' and '.join(map(str, sizes))} ranks, "
                "and its log does not show which communicator a connection belongs to"
            )
    return source, reason, paths


def connections_without_log(
    ccl: str, connections: Iterable[engine.Connection], job: Job
) -> tuple[str, str, RankPaths]:
    """As ``connections_of``, for the ``connections`` of a communicator that the engine reports."""
    routes = [Route(job.rank, one.to, one.transport) for one in connections]
    if routes:
        return "engine", "", RankPaths(routes=routes)
    reason = f"{ccl} has no interface that reports its connections"
    if job.ranks == 1:
        reason = _SINGLE
    elif plug_ins_of(ccl):
        reason = without_second_process(ccl)
    return "unknown", reason, RankPaths()
