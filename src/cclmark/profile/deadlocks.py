"""Whether the calls of all ranks complete, if each one waits for those that it communicates with.

A call on a stream begins when the one before it is complete. A message is complete when its peer
has begun it too, a collective when all ranks have: libraries may complete small messages earlier.
Messages that wait for each other in separate calls were one group call of the program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from cclmark.plan.profiled import ProfiledOperation
from cclmark.profile.observed import MESSAGES
from cclmark.results.schema import ProfiledCall

_SEND = "send"
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
        """The begin of the first one."""
        return min(one.begin_s for one in self.calls)

    @property
    def end_s(self) -> float:
        """The end of the last one."""
        return max(one.begin_s + one.time_s for one in self.calls)


@dataclass
class _Queue:
    """The launches of a rank on a stream. ``needs``: what the first one waits for, once it began.

    A need is a counter that has to reach a number: of sends or receives on a way, or of collectives
    of a rank of a group.
    """

    rank: int
    left: deque[Launch]
    needs: list[tuple[dict[_Way, int], _Way, int]] = field(default_factory=list)
    has_begun: bool = False


class _Simulation:
    def __init__(
        self, operations: Sequence[ProfiledOperation], groups: Sequence[tuple[int, ...]]
    ) -> None:
        self._operations = operations
        self._groups = groups
        self._sends: dict[_Way, int] = {}
        self._receives: dict[_Way, int] = {}
        self._collectives: dict[_Way, int] = {}

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
                queue.needs += [
                    (self._collectives, (one.group, place, -1), number)
                    for place in range(len(members))
                ]
            elif one.operation == _SEND:
                way = (one.group, own, call.peer)
                queue.needs.append((self._receives, way, _next(self._sends, way)))
            else:
                way = (one.group, call.peer, own)
                queue.needs.append((self._sends, way, _next(self._receives, way)))

    def advance(self, queue: _Queue) -> bool:
        """Completes launches as far as possible, and returns whether there was one."""
        moved = False
        while queue.left:
            if not queue.has_begun:
                self.begin(queue, queue.left[0].calls)
                moved = True
            queue.needs = [
                (counts, way, number)
                for counts, way, number in queue.needs
                if counts.get(way, 0) < number
            ]
            if queue.needs:
                break
            queue.left.popleft()
            queue.has_begun = False
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
        del queue.left[1]
        first.calls += second.calls
        self.begin(queue, second.calls)
        return second


def _next(counts: dict[_Way, int], way: _Way) -> int:
    counts[way] = counts.get(way, 0) + 1
    return counts[way]


def join_deadlocked(
    launches: Sequence[list[Launch]],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
) -> list[int]:
    """Joins messages of a rank that would wait for each other, in the lists of ``launches``.

    Returns the ranks that still wait for each other; empty if all calls complete.
    """
    simulation = _Simulation(operations, groups)
    queues: dict[tuple[int, int], _Queue] = {}
    for rank, own in enumerate(launches):
        for launch in own:
            key = (rank, launch.first.stream)
            queues.setdefault(key, _Queue(rank, deque())).left.append(launch)
    while True:
        moved = [True]
        while any(moved):
            moved = [simulation.advance(queue) for queue in queues.values()]
        waiting = [queue for queue in queues.values() if queue.left]
        if not waiting:
            return []
        joined = [(queue.rank, one) for queue in waiting if (one := simulation.join(queue))]
        if not joined:
            return sorted({queue.rank for queue in waiting})
        for rank, one in joined:
            launches[rank][:] = [other for other in launches[rank] if other is not one]
