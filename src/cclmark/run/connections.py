"""How a library connects this rank, from its log or, for one of the engine, from the engine."""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.explain.paths import RankPaths, Route
from cclmark.plan.libraries import plug_ins_of
from cclmark.printable import plain
from cclmark.rendezvous.messages import Job
from cclmark.run.instruments import Instruments


def connections_of(
    ccl: str, communicator: engine.Communicator, instruments: Instruments, job: Job
) -> tuple[str, str, RankPaths]:
    """Returns the source (log, engine or unknown), the reason if it is unknown, and the paths.

    ``communicator``: of the library ``ccl`` and of all ranks of the run. The library may connect
    ranks when it is first used.
    """
    source, reason, paths = "engine", "", RankPaths()
    if plug_ins_of(ccl):
        source, paths = "log", instruments.paths()
        paths.others = {
            plain(name): plain(value)
            for name, value in communicator.parameters
            if name not in paths.parameters
        }
    else:
        paths.routes = [Route(job.rank, one.to, one.transport) for one in communicator.connections]
    sizes = sorted({*paths.communicators, job.ranks})
    if len(sizes) > 1:
        # Their lines name ranks by their numbers in each of them.
        paths.routes, paths.ring_next, paths.tree_parent = [], {}, {}
    if paths.is_empty:
        source = "unknown"
        reason = f"{ccl} has no interface that reports its connections"
        if job.ranks == 1:
            reason = "a single rank has no connection"
        elif len(sizes) > 1:
            reason = (
                f"the library created communicators of {' and '.join(map(str, sizes))} ranks, "
                "and its log does not show which communicator a connection belongs to"
            )
        elif plug_ins_of(ccl):
            reason = "the library's log contains no connection"
    return source, reason, paths
