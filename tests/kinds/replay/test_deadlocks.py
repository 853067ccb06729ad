"""Whether the calls of a step complete, against a simulation that visits all queues in turns."""

import random

from cclmark.journal.schema import ProfiledCall
from cclmark.work.profiled import ProfiledOperation
from cclmark_programs.replay.deadlocks import Launch, are_in_step, join_deadlocked
from examples import examples

KINDS = ("all_reduce", "send", "recv")
ALL_REDUCE, SEND, RECV = range(3)


def operations_of(groups):
    """The three operations of each group."""
    return [
        ProfiledOperation(name, "nccl", group, 0, "float32", 256, 1024)
        for group in range(len(groups))
        for name in KINDS
    ]


class Turns:
    """Queues by stream, or one for each rank, which advance in turns until none can."""

    def __init__(self, launches, groups, *, by_stream):
        self.groups = groups
        self.counts = {}
        self.queues = {}
        for rank, own in enumerate(launches):
            for launch in own:
                key = (rank, launch[0][2] if by_stream else 0)
                self.queues.setdefault(key, []).append(launch)
        self.needs = dict.fromkeys(self.queues)

    def _next(self, *way):
        self.counts[way] = self.counts.get(way, 0) + 1
        return self.counts[way]

    def _begin(self, rank, launch):
        for operation, peer, _ in launch:
            group, kind = divmod(operation, 3)
            members = self.groups[group]
            own = members.index(rank)
            if kind == ALL_REDUCE:
                number = self._next(group, own)
                for place, member in enumerate(members):
                    yield (group, place), number, member
            else:
                way = (group, own, peer) if kind == SEND else (group, peer, own)
                number = self._next(*way, kind)
                yield (*way, SEND + RECV - kind), number, members[peer]

    def advance(self):
        """Returns the ranks and streams that have launches left."""
        has_moved = True
        while has_moved:
            has_moved = False
            for key, left in self.queues.items():
                while left:
                    if self.needs[key] is None:
                        self.needs[key] = [*self._begin(key[0], left[0])]
                        has_moved = True
                    needs = self.needs[key]
                    self.needs[key] = [one for one in needs if self.counts.get(one[0], 0) < one[1]]
                    if self.needs[key]:
                        break
                    left.pop(0)
                    self.needs[key] = None
                    has_moved = True
        return [key for key, left in self.queues.items() if left]

    def in_cycle(self, waiting):
        waits = {}
        for rank, stream in waiting:
            others = {other for _, _, other in self.needs[rank, stream]} - {rank}
            waits.setdefault(rank, set()).update(others)
        reached = {rank: set(others) for rank, others in waits.items()}
        for _ in waits:
            for others in reached.values():
                others |= {far for one in list(others) for far in waits.get(one, ())}
        return {rank for rank, others in reached.items() if rank in others}

    def join(self, key):
        """Joins the first two launches of a queue, and returns the second one."""
        left = self.queues[key]
        if len(left) < 2 or any(
            operation % 3 == ALL_REDUCE for operation, _, _ in sum(left[:2], ())
        ):
            return None
        first, second = left[:2]
        if first[0][0] // 3 != second[0][0] // 3:
            return None
        if {one[:2] for one in first} & {one[:2] for one in second}:
            return None
        left[:2] = [first + second]
        self.needs[key] += self._begin(key[0], second)
        return first, second


def expected(launches, groups):
    """The launches with joined messages, and the ranks that wait for ever."""
    launches = [list(own) for own in launches]
    turns = Turns(launches, groups, by_stream=True)
    while waiting := turns.advance():
        in_cycle = turns.in_cycle(waiting)
        joined = [
            (key[0], pair)
            for key in waiting
            if key[0] in in_cycle and (pair := turns.join(key)) is not None
        ]
        if not joined:
            return launches, sorted({rank for rank, _ in waiting})
        for rank, (first, second) in joined:
            own = launches[rank]
            place = next(i for i, one in enumerate(own) if one is first)
            own[:] = [one for one in own if one is not second]
            own[place] = next(
                one for left in turns.queues.values() for one in left if one == first + second
            )
    return launches, []


def stuck_in_lists(launches, groups):
    return [rank for rank, _ in Turns(launches, groups, by_stream=False).advance()]


def random_program(choose, streams):
    """Launches of few ranks as tuples of operation, peer and stream, in a nearly common order."""
    ranks = choose.randint(2, 5)
    groups = [tuple(range(ranks))]
    groups += [
        tuple(sorted(choose.sample(range(ranks), choose.randint(2, ranks))))
        for _ in range(choose.randint(0, 3))
    ]
    stream_of = {}

    def stream(*use):
        return stream_of.setdefault(use, choose.randrange(streams))

    launches = [[] for _ in range(ranks)]
    for _ in range(choose.randint(0, 12)):
        group = choose.randrange(len(groups))
        members = groups[group]
        if choose.random() < 0.4:
            for rank in members:
                launches[rank].append(((3 * group, -1, stream(rank, group)),))
            continue
        sender, receiver = choose.sample(range(len(members)), 2)
        for kind, own, peer in ((SEND, sender, receiver), (RECV, receiver, sender)):
            rank = members[own]
            launches[rank].append(((3 * group + kind, peer, stream(rank, group, kind, peer)),))
    for own in launches:
        for _ in range(choose.choice([0, 0, 1, 2, 3]) if len(own) > 1 else 0):
            place = choose.randrange(len(own) - 1)
            own[place : place + 2] = own[place + 1], own[place]
        if own and choose.random() < 0.1:
            own.pop(choose.randrange(len(own)))
    return groups, launches


def as_launches(program):
    return [
        [
            Launch(
                tuple(ProfiledCall(index, 0.0, 1.0, stream, peer) for index, peer, stream in one)
            )
            for one in own
        ]
        for own in program
    ]


def as_tuples(launches):
    return [
        [tuple((one.index, one.peer, one.stream) for one in launch.calls) for launch in own]
        for own in launches
    ]


def test_random_programs_of_one_stream_end_as_in_the_simulation_by_turns():
    for seed in range(examples(4000)):
        groups, program = random_program(random.Random(seed), streams=1)
        launches = as_launches(program)
        indices = [[one.first.index for one in own] for own in launches]
        in_step = are_in_step(indices, operations_of(groups), groups)
        stuck = join_deadlocked(launches, operations_of(groups), groups)
        wanted, wanted_stuck = expected(program, groups)
        assert stuck == wanted_stuck, seed
        assert not (in_step and stuck), seed
        if not stuck:
            assert as_tuples(launches) == wanted, seed


def test_random_programs_of_several_streams_get_an_order_in_which_they_complete():
    for seed in range(examples(4000)):
        groups, program = random_program(random.Random(seed), streams=3)
        launches = as_launches(program)
        stuck = join_deadlocked(launches, operations_of(groups), groups)
        wanted, wanted_stuck = expected(program, groups)
        if wanted_stuck:
            assert stuck == wanted_stuck, seed
            continue
        in_order = stuck_in_lists(wanted, groups) == []
        if stuck:
            assert not in_order, seed
            continue
        found = as_tuples(launches)
        assert [sorted(own) for own in found] == [sorted(own) for own in wanted], seed
        assert stuck_in_lists(found, groups) == [], seed
        # Lists in which the calls complete keep their order.
        assert found == wanted or not in_order, seed
