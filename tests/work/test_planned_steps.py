import os
import threading
from collections import Counter
from math import gcd

import pytest

from cclmark import _engine as engine
from cclmark.explain.algorithm_steps import planned
from cclmark.kinds.collective.trace import planned_steps
from cclmark.rank.engine_values import open_ccl, operation_of
from cclmark.work.cases import Case
from cclmark.work.operations import COLLECTIVES, OPERATIONS, size_for_count
from examples import exhaustive
from step_simulation import INPUT, OUTPUT, Memory, by_granule, execute, granule_of

WIDTH = 4
PATIENCE_S = 20.0


class Planners:
    """Ranks as threads, on host devices that ``shm`` connects, or ``bridge`` between islands
    of it. They request plans from the engine without running them.

    ``firsts``: the first rank of each island, empty for ``shm`` alone.
    """

    def __init__(self, ranks, firsts=(), *, through_host=False):
        self._ranks = ranks
        self._firsts = list(firsts)
        self._through_host = through_host

    def plans(self, cases):
        by_rank = [[] for _ in range(self._ranks)]
        errors = []
        file = os.memfd_create("ranks of a test")
        rooms = [engine.room_for(operation_of(one), one.in_place, self._ranks) for one in cases]
        send_bytes, receive_bytes = map(max, zip(*rooms, strict=True))
        shm = open_ccl("shm", "", ())
        ids = [shm.make_id(len(members)) for members in self._islands()]

        def run(rank):
            group = engine.RankGroup(
                engine.RankGroupOptions(fd=file, rank=rank, size=self._ranks, oversubscribed=True)
            )
            try:
                group.expect_within(PATIENCE_S, "a test")
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

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(self._ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.close(file)
        if errors:
            raise errors[0]
        return [planned(list(one)) for one in zip(*by_rank, strict=True)]

    def _islands(self):
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
            subgroup.expect_within(PATIENCE_S, "a test")
            own = shm.join(device, ids[place], subgroup)
        return engine.join_islands(
            device,
            group,
            engine.Islands(firsts=self._firsts, through_host=self._through_host),
            own=own,
        )


def case_of(operation, ranks, count, *, in_place=False, root=0):
    matrix = ()
    if operation == "alltoallv":
        matrix = tuple(count * (cell % 3) for cell in range(ranks * ranks))
    return Case(
        operation=operation,
        ccl="shm",
        ranks=ranks,
        dtype="int32",
        size_bytes=size_for_count(operation, count, "int32", ranks),
        count=0 if operation == "barrier" else count,
        in_place=in_place,
        reduction="sum" if OPERATIONS[operation].reduces else None,
        root=root if OPERATIONS[operation].rooted else None,
        matrix=matrix,
    )


def definition(case, per):
    """By rank: each ``per``-th element of its output, and the contributions that belong there.

    Written from the definitions in MPI's and NCCL's documentation.
    """
    n, count, root = case.ranks, case.count, case.root
    every = range(n)
    found = {}
    for rank in every:
        out = found[rank] = {}
        for e in range(0, count, per):
            if case.operation == "all_reduce" or (case.operation == "reduce" and rank == root):
                out[e] = Counter({(r, e): 1 for r in every})
            elif case.operation == "reduce_scatter":
                out[e] = Counter({(r, rank * count + e): 1 for r in every})
            elif case.operation == "broadcast":
                out[e] = Counter({(root, e): 1})
            elif case.operation == "scatter":
                out[e] = Counter({(root, rank * count + e): 1})
            elif case.operation == "sendrecv":
                out[e] = Counter({((rank - 1) % n, e): 1})
            elif case.operation == "all_gather" or (case.operation == "gather" and rank == root):
                out.update({r * count + e: Counter({(r, e): 1}) for r in every})
            elif case.operation == "alltoall":
                out.update({r * count + e: Counter({(r, rank * count + e): 1}) for r in every})
        if case.operation == "alltoallv":
            for r in every:
                sent = sum(case.matrix[r * n : r * n + rank])
                received = sum(case.matrix[i * n + rank] for i in range(r))
                for e in range(0, case.matrix[r * n + rank], per):
                    out[received + e] = Counter({(r, sent + e): 1})
    return found


def in_place_offset(case, rank, buffer):
    """Where the input or the output begins in the common buffer, in elements."""
    if buffer == INPUT and case.operation in ("all_gather", "gather"):
        return rank * case.count if case.operation == "all_gather" or rank == case.root else 0
    if buffer == OUTPUT and case.operation in ("reduce_scatter", "scatter"):
        return rank * case.count if case.operation == "reduce_scatter" or rank == case.root else 0
    return 0


def check(case, steps):
    """Executes the plan and compares every element of every output."""
    counts = [number * WIDTH for number in (case.count, *case.matrix)]
    per = (gcd(granule_of(steps), *counts) or WIDTH) // WIDTH
    aliased = case.in_place and not OPERATIONS[case.operation].staged_in_place

    def alias(cell):
        rank, buffer, part = cell
        if not aliased or buffer not in (INPUT, OUTPUT):
            return cell
        return (rank, OUTPUT, part * per + in_place_offset(case, rank, buffer))

    memory = Memory(alias)
    expected = definition(case, per)
    inputs = {e for out in expected.values() for bag in out.values() for _, e in bag}
    for rank in range(case.ranks):
        for e in inputs:
            memory[rank, INPUT, e // per] = Counter({(rank, e): 1})
    execute(steps, memory, by_granule(per * WIDTH))
    for rank, out in expected.items():
        for e, bag in out.items():
            assert memory[rank, OUTPUT, e // per] == bag, (case.describe(), rank, e)


def every_case(ranks, counts):
    """All operations with these counts, in place and not, with the first and the last root."""
    for operation in COLLECTIVES:
        for count in counts:
            for in_place in (False, True):
                for root in {0, ranks - 1} if OPERATIONS[operation].rooted else (0,):
                    yield case_of(operation, ranks, count, in_place=in_place, root=root)


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_plans_of_shm(ranks):
    cases = [*every_case(ranks, (1, 37, 640, 1027))]
    for case, steps in zip(cases, Planners(ranks).plans(cases), strict=True):
        check(case, steps)


@pytest.mark.parametrize(
    ("ranks", "firsts", "through_host"),
    [
        *((2, (0, 1), True), (4, (0, 2), False), (5, (0, 1, 3), False)),
        exhaustive(6, (0, 4), True),
    ],
)
def test_plans_of_bridge(ranks, firsts, through_host):
    # Inputs that fit into an announcement, whole results of islands, results that are shared out;
    # several stretches.
    cases = [*every_case(ranks, (37, 1536, 24 * 4096))]
    cases += [case_of(operation, ranks, 1 << 20, root=1) for operation in COLLECTIVES]
    plans = Planners(ranks, firsts, through_host=through_host).plans(cases)
    for case, steps in zip(cases, plans, strict=True):
        check(case, steps)


def test_every_step_of_a_plan_matters():
    """Otherwise the properties above could hold for incomplete plans."""
    cases = [
        case_of(operation, 3, 640) for operation in COLLECTIVES if OPERATIONS[operation].moves_data
    ]
    plans = [*Planners(3).plans(cases), *Planners(3, (0, 2)).plans(cases)]
    for case, steps in zip(cases * 2, plans, strict=True):
        assert steps
        for place in range(len(steps)):
            with pytest.raises(AssertionError):
                check(case, steps[:place] + steps[place + 1 :])
