"""Ranks as threads of this process, which ask the engine for its plans without running them."""

import os
import threading
from collections.abc import Callable, Sequence

from cclmark import _engine as engine
from cclmark.explain.algorithm_steps import Step, planned
from cclmark.kinds.collective.trace import planned_steps
from cclmark.rank.engine_values import open_ccl, operation_of
from cclmark.work.cases import Case

_PATIENCE_S = 20.0


class Planners:
    """Ranks on host devices that ``shm`` connects, or ``bridge`` between islands of it.

    ``firsts``: the first rank of each island, empty for ``shm`` alone.
    """

    def __init__(
        self, ranks: int, firsts: Sequence[int] = (), *, through_host: bool = False
    ) -> None:
        self._ranks = ranks
        self._firsts = list(firsts)
        self._through_host = through_host

    def plans(self, cases: Sequence[Case]) -> list[list[Step]]:
        """The steps of each case."""
        by_rank: list[list[object]] = [[] for _ in range(self._ranks)]
        errors: list[BaseException] = []
        file = os.memfd_create("ranks of a test")
        rooms = [engine.room_for(operation_of(one), one.in_place, self._ranks) for one in cases]
        send_bytes, receive_bytes = map(max, zip(*rooms, strict=True))
        shm = open_ccl("shm", "", ())
        ids = [shm.make_id(len(members)) for members in self._islands()]

        def run(rank: int) -> None:
            group = engine.RankGroup(
                engine.RankGroupOptions(fd=file, rank=rank, size=self._ranks, oversubscribed=True)
            )
            try:
                group.expect_within(_PATIENCE_S, "a test")
                device = engine.open_device("host", rank)
                communicator = self._join(shm, ids, file, group, device)
                session = engine.Session(device, group, communicator)
                session.reserve(send_bytes, receive_bytes, engine.BufferKind())
                for case in cases:
                    session.prepare(operation_of(case), case.in_place, 7)
                    by_rank[rank].append(planned_steps(session))
                group.barrier()
                del session
                communicator.leave()
            except BaseException as error:
                errors.append(error)
                group.abort()

        _in_threads(run, self._ranks)
        os.close(file)
        if errors:
            raise errors[0]
        return [planned(list(one)) for one in zip(*by_rank, strict=True)]

    def _islands(self) -> list[list[int]]:
        ends = [*self._firsts[1:], self._ranks]
        firsts = self._firsts or [0]
        return [list(range(first, end)) for first, end in zip(firsts, ends, strict=True)]

    def _join(self, shm, ids, file, group, device):
        if not self._firsts:
            return shm.join(device, ids[0], group)
        islands = self._islands()
        place = next(place for place, members in enumerate(islands) if group.rank in members)
        members, own = islands[place], None
        if len(members) > 1:
            subgroup = group.subgroup(file, members, self._ranks + members[0])
            subgroup.expect_within(_PATIENCE_S, "a test")
            own = shm.join(device, ids[place], subgroup)
        return engine.join_islands(
            device,
            group,
            engine.Islands(firsts=self._firsts, through_host=self._through_host),
            own=own,
        )


def _in_threads(run: Callable[[int], None], ranks: int) -> None:
    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
