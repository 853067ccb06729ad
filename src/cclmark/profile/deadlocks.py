"""Whether the calls of all ranks complete, if each one waits for those that it communicates with.

A call on a stream begins when the one before it is complete. A message is complete when its peer
has begun it too, a collective when all ranks have: libraries may complete small messages earlier.
Messages that wait for each other in separate calls were one group call of the program.

The order across streams is that of kernels, which may differ from the order in which the program
enqueued them, and so between ranks. Hosts may wait within a call, for example when a library
connects its ranks: so the order has to be one in which calls complete one after the other, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cclmark.plan.profiled import ProfiledOperation
from cclmark.profile.observed import MESSAGES, SEND
from cclmark.results.schema import ProfiledCall

# Of a group: from one of its ranks to another, or of all (-1) of one of its ranks.
_Way = tuple[int, int, int]


@dataclass
class Launch:
    """Calls of a rank that one kernel executes: one collective, or several messages."""

    calls: tuple[ProfiledCall, ...]

    @property
    def first(self) -> ProfiledCall:
        """The first call."""
        return self.calls[0]

    @property
    def begin_s(self) -> float:
        """The start of the first one."""
        return min(one.begin_s for one in self.calls)

    @property
    def end_s(self) -> float:
        """The end of the last one."""
        return max(one.begin_s + one.time_s for one in self.calls)


class _Need(NamedTuple):
    """A counter that has to reach a number, which depends on a rank."""

    counts: dict[_Way, int]
    way: _Way
    number: int
    rank: int


@dataclass
class _Queue:
    """The launches of a rank on a stream. ``needs``: what the first one waits for, once it began.

    A need is a counter that has to reach a number: of sends or receives on a way, or of collectives
    of a rank of a group.
    """

    rank: int
    left: deque[Launch]
    needs: list[_Need] = field(default_factory=list)
    has_begun: bool = False
    #: What the first launch is ordered by: a collective has one number on all ranks.
    key: tuple[int, int] | None = None


class _Simulation:
    def __init__(
        self, operations: Sequence[ProfiledOperation], groups: Sequence[tuple[int, ...]]
    ) -> None:
        self._operations = operations
        self._groups = groups
        self._sends: dict[_Way, int] = {}
        self._receives: dict[_Way, int] = {}
        self._collectives: dict[_Way, int] = {}
        self._numbers: dict[object, int] = {}
        #: The numbers of completed launches, by their identity.
        self.completed: dict[int, int] = {}

    def is_message(self, launch: Launch) -> bool:
        return self._operations[launch.first.index].operation in MESSAGES

    def begin(self, queue: _Queue, calls: Sequence[ProfiledCall]) -> None:
        """Counts the calls of the first launch, and notes what they wait for."""
        queue.has_begun = True
        for call in calls:
            one = self._operations[call.index]
            members = self._groups[one.group]
            own = members.index(queue.rank)
            if one.operation not in MESSAGES:
                number = _next(self._collectives, (one.group, own, -1))
                queue.key = (one.group, number)
                queue.needs += [
                    _Need(self._collectives, (one.group, place, -1), number, member)
                    for place, member in enumerate(members)
                ]
                continue
            peer = members[call.peer] if call.peer < len(members) else queue.rank
            if one.operation == SEND:
                way = (one.group, own, call.peer)
                need = _Need(self._receives, way, _next(self._sends, way), peer)
            else:
                way = (one.group, call.peer, own)
                need = _Need(self._sends, way, _next(self._receives, way), peer)
            queue.needs.append(need)

    def advance(self, queue: _Queue) -> bool:
        """Completes launches as far as possible, and returns whether there was one."""
        moved = False
        while queue.left:
            if not queue.has_begun:
                self.begin(queue, queue.left[0].calls)
                moved = True
            queue.needs = [one for one in queue.needs if one.counts.get(one.way, 0) < one.number]
            if queue.needs:
                break
            launch = queue.left.popleft()
            key: object = queue.key if queue.key is not None else id(launch)
            self.completed[id(launch)] = self._numbers.setdefault(key, len(self._numbers))
            queue.has_begun, queue.key = False, None
            moved = True
        return moved

    def join(self, queue: _Queue) -> Launch | None:
        """Joins the launch that waits with the next one, which it returns; None if it cannot."""
        if len(queue.left) < 2 or not all(self.is_message(one) for one in list(queue.left)[:2]):
            return None
        first, second = queue.left[0], queue.left[1]
        mine, other = (self._operations[one.first.index] for one in (first, second))
        if (mine.group, mine.dtype) != (other.group, other.dtype):
            return None
        if not self._ways(first).isdisjoint(self._ways(second)):
            return None
        del queue.left[1]
        first.calls += second.calls
        self.begin(queue, second.calls)
        return second

    def _ways(self, launch: Launch) -> set[tuple[str, int]]:
        return {(self._operations[one.index].operation, one.peer) for one in launch.calls}


def _in_cycle(waiting: Sequence[_Queue]) -> list[_Queue]:
    """The queues of ranks that wait for themselves, through others."""
    waits: dict[int, set[int]] = {}
    for queue in waiting:
        waits.setdefault(queue.rank, set()).update(
            one.rank for one in queue.needs if one.rank != queue.rank
        )

    def reaches_itself(rank: int) -> bool:
        seen: set[int] = set()
        left = list(waits[rank])
        while left:
            one = left.pop()
            if one == rank:
                return True
            if one not in seen:
                seen.add(one)
                left += waits.get(one, ())
        return False

    found = {rank for rank in waits if reaches_itself(rank)}
    return [queue for queue in waiting if queue.rank in found]


def _next(counts: dict[_Way, int], way: _Way) -> int:
    counts[way] = counts.get(way, 0) + 1
    return counts[way]


def join_deadlocked(
    launches: Sequence[list[Launch]],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
) -> list[int]:
    """Joins messages of a rank that would wait for each other, in the lists of ``launches``.

    If calls of several streams do not complete in the order of the lists, they are put into one in
    which they do. Returns the ranks that still wait for each other; empty if all calls complete.
    """
    simulation = _Simulation(operations, groups)
    queues: dict[tuple[int, int], _Queue] = {}
    for rank, own in enumerate(launches):
        for launch in own:
            key = (rank, launch.first.stream)
            queues.setdefault(key, _Queue(rank, deque())).left.append(launch)
    while True:
        _advance_all(simulation, queues.values())
        waiting = [queue for queue in queues.values() if queue.left]
        if not waiting:
            break
        joined = [
            (queue.rank, one)
            for queue in _in_cycle(waiting)
            if (one := simulation.join(queue)) is not None
        ]
        if not joined:
            return sorted({queue.rank for queue in waiting})
        for rank, one in joined:
            launches[rank][:] = [other for other in launches[rank] if other is not one]
    if not _in_one_queue(launches, operations, groups):
        return []
    for own in launches:
        own.sort(key=lambda one: simulation.completed[id(one)])
    return _in_one_queue(launches, operations, groups)


def _advance_all(simulation: _Simulation, queues: Iterable[_Queue]) -> None:
    moved = [True]
    while any(moved):
        moved = [simulation.advance(queue) for queue in queues]


def _in_one_queue(
    launches: Sequence[list[Launch]],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
) -> list[int]:
    """The ranks that wait for each other if calls complete one after the other on each rank."""
    queues = [_Queue(rank, deque(own)) for rank, own in enumerate(launches)]
    _advance_all(_Simulation(operations, groups), queues)
    return [queue.rank for queue in queues if queue.left]
