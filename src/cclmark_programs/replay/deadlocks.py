"""Whether the calls of all ranks complete, if each one waits for those that it communicates with.

A call on a stream begins when the one before it is complete. A message is complete when its peer
has begun it too, a collective when all ranks have: libraries may complete small messages earlier.
Messages that wait for each other in separate calls were one group call of the program.

The order across streams is that of kernels, which may differ from the order in which the program
enqueued them, and so between ranks. Hosts may wait within a call, for example when a library
connects its ranks: so the order has to be one in which calls complete one after the other, too.

Steps of large programs have millions of launches. Ranks that call the collectives of their groups
in step need no simulation. In other programs consecutive collectives of a group are one run, which
is visited when it begins and when it completes, so that the work grows with the number of launches.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter, itemgetter

from cclmark.journal.schema import ProfiledCall
from cclmark.profile.observed import MESSAGES, SEND
from cclmark.work.profiled import ProfiledOperation

_MESSAGE = -1  # in place of the group of a collective
_calls_of = attrgetter("calls")
_first_of = itemgetter(0)
_index_of = attrgetter("index")


@dataclass(slots=True)
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
        calls = self.calls
        return calls[0].begin_s if len(calls) == 1 else min(one.begin_s for one in calls)

    @property
    def end_s(self) -> float:
        """The end of the last one."""
        calls = self.calls
        if len(calls) == 1:
            return calls[0].begin_s + calls[0].time_s
        return max(one.begin_s + one.time_s for one in calls)


#: Where ranks meet: the collectives of a group, in their order, with 0; of a group that a rank uses
#: on several streams, one of them with its number.
_Place = tuple[int, int]
#: A rank, or a place where ranks wait.
_Node = int | _Place


#: Consecutive launches of a queue: the number of the first one, that after the last one, and for
#: collectives where they meet those of other ranks, and the number of the last one in its group.
#: Or one launch of messages, without a place.
_Run = tuple[int, int, _Place | None, int]


@dataclass(slots=True, eq=False)
class _Queue:
    """The launches of a rank on a stream, or of all its streams.

    ``run``: the number of the first run that is not complete, in which ``launch`` is the first one.
    ``unmet``: the messages of the run that wait for their peers.
    """

    number: int
    rank: int
    launches: list[Launch]
    runs: list[_Run]
    run: int = 0
    launch: int = 0
    unmet: int = 0

    @property
    def begins_at(self) -> int:
        """The number of the first launch of the run."""
        return self.runs[self.run][0]


@dataclass(slots=True)
class _Meeting:
    """The queues in runs of collectives of a group, by the last collective of their runs.

    ``ranks``: the number of ranks of the group, each of which has one queue here.
    """

    ranks: int
    begun: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Way:
    """The messages from one rank of a group to another: sends begun minus receives begun.

    ``waiting``: the queues whose messages wait for the other side, in their order.
    """

    balance: int = 0
    waiting: deque[_Queue] = field(default_factory=deque)


def _codes_of(operations: Sequence[ProfiledOperation]) -> list[int]:
    """The group of each operation, or _MESSAGE."""
    return [_MESSAGE if one.operation in MESSAGES else one.group for one in operations]


@dataclass
class _Steps:
    """The operations and groups of a program, as they are needed for each launch."""

    operations: Sequence[ProfiledOperation]
    groups: Sequence[tuple[int, ...]]
    _members: dict[int, dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._codes = _codes_of(self.operations)

    def codes(self, launches: Sequence[Launch]) -> list[int]:
        """The group of each launch, or _MESSAGE."""
        first = map(_first_of, map(_calls_of, launches))
        return list(map(self._codes.__getitem__, map(_index_of, first)))

    def members(self, group: int) -> dict[int, int]:
        """The number of each rank of a group in it."""
        found = self._members.get(group)
        if found is None:
            found = {rank: number for number, rank in enumerate(self.groups[group])}
            self._members[group] = found
        return found

    def in_one_queue(self, launches: Sequence[list[Launch]]) -> list[_Queue]:
        """A queue for each rank, whose launches complete one after the other."""
        return [
            _Queue(rank, rank, own, [*_runs(self.codes(own))]) for rank, own in enumerate(launches)
        ]

    def by_stream(self, launches: Sequence[list[Launch]]) -> list[_Queue]:
        """A queue for each stream of each rank."""
        all_codes = [self.codes(own) for own in launches]
        split = self._split(launches, all_codes)
        queues: list[_Queue] = []
        for rank, (own, codes) in enumerate(zip(launches, all_codes, strict=True)):
            streams: dict[int, _Queue] = {}
            numbers: dict[int, int] = {}
            for launch, group in zip(own, codes, strict=True):
                stream = launch.first.stream
                if stream not in streams:
                    streams[stream] = _Queue(len(queues), rank, [], [])
                    queues.append(streams[stream])
                queue = streams[stream]
                begin = len(queue.launches)
                queue.launches.append(launch)
                if group == _MESSAGE:
                    queue.runs.append((begin, begin + 1, None, 0))
                    continue
                numbers[group] = last = numbers.get(group, 0) + 1
                place = (group, last if group in split else 0)
                if queue.runs and queue.runs[-1][2] == place:
                    begin = queue.runs.pop()[0]
                queue.runs.append((begin, len(queue.launches), place, last))
        return queues

    def _split(
        self, launches: Sequence[list[Launch]], all_codes: Sequence[Sequence[int]]
    ) -> set[int]:
        """The groups whose collectives a rank calls on several streams."""
        split: set[int] = set()
        for own, codes in zip(launches, all_codes, strict=True):
            streams: dict[int, int] = {}
            for launch, group in zip(own, codes, strict=True):
                stream = launch.first.stream
                if streams.setdefault(group, stream) != stream:
                    split.add(group)
        return split


def _runs(codes: Sequence[int]) -> Iterator[_Run]:
    """The runs of a rank that has one queue."""
    numbers: dict[int, int] = {}
    ends = [end for end, pair in enumerate(pairwise(codes), start=1) if pair[0] != pair[1]]
    begin = 0
    for end in [*ends, len(codes)] if codes else ():
        group = codes[begin]
        if group == _MESSAGE:
            yield from ((place, place + 1, None, 0) for place in range(begin, end))
        else:
            numbers[group] = last = numbers.get(group, 0) + end - begin
            yield begin, end, (group, 0), last
        begin = end


class _Simulation:
    """Queues that begin and complete launches as far as they can."""

    def __init__(self, steps: _Steps, queues: list[_Queue], *, keeps_order: bool = False) -> None:
        self._steps = steps
        self.queues = queues
        self._ways: dict[tuple[int, int, int], _Way] = {}
        self._meetings: dict[_Place, _Meeting] = {}
        self._ready = queues[:]
        self._is_joining = False
        self._keeps_order = keeps_order
        #: The launches of each rank in an order in which they complete, if it is kept.
        self.completed: dict[int, list[Launch]] = {}
        #: The ranks whose queues have changed since the last search for deadlocks.
        self._changed: set[int] = set()

    def advance(self) -> list[_Queue]:
        """Completes launches as far as possible, and returns the queues with others left."""
        ready, meetings = self._ready, self._meetings
        while ready:
            queue = ready.pop()
            if queue.run == len(queue.runs):
                continue
            if self._keeps_order:
                self._changed.add(queue.rank)
            begin, end, place, last = queue.runs[queue.run]
            if place is None:
                if self._begin_messages(queue, queue.launches[begin].calls):
                    self._release(queue)
                continue
            meeting = meetings.get(place)
            if meeting is None:
                meeting = meetings[place] = _Meeting(len(self._steps.groups[place[0]]))
            heappush(meeting.begun, (last, queue.number))
            if len(meeting.begun) == meeting.ranks:
                self._complete(meeting, end - queue.launch - last)
        return [queue for queue in self.queues if queue.run < len(queue.runs)]

    def _complete(self, meeting: _Meeting, before: int) -> None:
        """Completes the collectives that all ranks of a group have begun.

        Ranks that have begun others, too, have completed the same ones before: minus ``before``.
        """
        begun = meeting.begun
        last = begun[0][0]
        if self._keeps_order:
            for _, number in begun:
                self._note(self.queues[number], before + last)
        while begun and begun[0][0] == last:
            queue = self.queues[heappop(begun)[1]]
            queue.run += 1
            self._ready.append(queue)

    def _note(self, queue: _Queue, number: int) -> None:
        """Notes that so many launches of a queue have been completed."""
        ended = queue.launches[queue.launch : queue.launch + number]
        queue.launch += number
        self.completed.setdefault(queue.rank, []).extend(ended)

    def _begin_messages(self, queue: _Queue, calls: Sequence[ProfiledCall]) -> bool:
        """Begins messages and releases who waited; returns whether all messages have met theirs."""
        for call in calls:
            one = self._steps.operations[call.index]
            own = self._steps.members(one.group)[queue.rank]
            is_send = one.operation == SEND
            key = (one.group, own, call.peer) if is_send else (one.group, call.peer, own)
            way = self._ways.setdefault(key, _Way())
            if way.balance < 0 if is_send else way.balance > 0:
                other = way.waiting.popleft()
                other.unmet -= 1
                if not other.unmet and other is not queue:
                    self._release(other)
            else:
                way.waiting.append(queue)
                queue.unmet += 1
            way.balance += 1 if is_send else -1
        return not queue.unmet

    def _release(self, queue: _Queue) -> None:
        """Completes the messages of a run, unless they may be joined with others before."""
        if not self._is_joining:
            if self._keeps_order:
                self._note(queue, 1)
            queue.run += 1
        self._ready.append(queue)

    def join(self, waiting: Sequence[_Queue]) -> list[Launch]:
        """Joins messages of ranks that wait for themselves through others.

        Each launch is joined with the next one of its queue, if possible. Returns these.
        """
        in_cycle = self._in_cycle(waiting)
        self._is_joining = True
        found = [
            joined
            for queue in waiting
            if queue.rank in in_cycle and (joined := self._join_next(queue)) is not None
        ]
        self._is_joining = False
        released, self._ready = dict.fromkeys(self._ready), []
        for queue in released:
            if not queue.unmet:
                self._release(queue)
        return found

    def _join_next(self, queue: _Queue) -> Launch | None:
        runs = queue.runs[queue.run : queue.run + 2]
        if len(runs) < 2 or any(place is not None for _, _, place, _ in runs):
            return None
        first, second = (queue.launches[begin] for begin, _, _, _ in runs)
        mine, other = (self._steps.operations[one.first.index] for one in (first, second))
        if (mine.group, mine.dtype) != (other.group, other.dtype):
            return None
        if not self._peers(first).isdisjoint(self._peers(second)):
            return None
        first.calls += second.calls
        # Launches before the one that waits are not used again.
        queue.run += 1
        queue.launch = queue.begins_at
        queue.launches[queue.launch] = first
        self._changed.add(queue.rank)
        if self._begin_messages(queue, second.calls):
            self._ready.append(queue)
        return second

    def _peers(self, launch: Launch) -> set[tuple[str, int]]:
        return {(self._steps.operations[one.index].operation, one.peer) for one in launch.calls}

    def _in_cycle(self, waiting: Sequence[_Queue]) -> set[int]:
        """The ranks that wait for themselves through others, if one of them has changed.

        If none has, an earlier call has returned them, and nothing could be joined.
        """
        queues: dict[int, list[_Queue]] = {}
        for queue in waiting:
            queues.setdefault(queue.rank, []).append(queue)

        def awaited(node: _Node) -> Iterator[_Node]:
            if isinstance(node, tuple):
                begun = {self.queues[number].rank for _, number in self._meetings[node].begun}
                yield from (one for one in self._steps.groups[node[0]] if one not in begun)
                return
            for queue in queues.get(node, ()):
                place = queue.runs[queue.run][2]
                yield from self._awaited_peers(queue) if place is None else [place]

        roots = [rank for rank in queues if rank in self._changed]
        self._changed.clear()
        return {one for part in _components(roots, awaited) for one in part if isinstance(one, int)}

    def _awaited_peers(self, queue: _Queue) -> Iterator[int]:
        """The other ranks whose messages a queue waits for."""
        for call in queue.launches[queue.begins_at].calls:
            one = self._steps.operations[call.index]
            members = self._steps.groups[one.group]
            own = self._steps.members(one.group)[queue.rank]
            ends = (own, call.peer) if one.operation == SEND else (call.peer, own)
            if call.peer >= len(members) or call.peer == own:
                continue
            if queue in self._ways[(one.group, *ends)].waiting:
                yield members[call.peer]


def _components(
    roots: Iterable[_Node], following: Callable[[_Node], Iterator[_Node]]
) -> Iterator[list[_Node]]:
    """The largest sets of several nodes that all lead to each other (Tarjan, 1972)."""
    numbers: dict[_Node, int] = {}
    lowest: dict[_Node, int] = {}
    unassigned: dict[_Node, None] = {}
    for root in roots:
        path = [] if root in numbers else [(root, following(root))]
        while path:
            node, rest = path[-1]
            if node not in numbers:
                numbers[node] = lowest[node] = len(numbers)
                unassigned[node] = None
            for other in rest:
                if other not in numbers:
                    path.append((other, following(other)))
                    break
                if other in unassigned:
                    lowest[node] = min(lowest[node], numbers[other])
            else:
                path.pop()
                if path:
                    before = path[-1][0]
                    lowest[before] = min(lowest[before], lowest[node])
                if lowest[node] == numbers[node]:
                    part = [unassigned.popitem()[0]]
                    while part[-1] != node:
                        part.append(unassigned.popitem()[0])
                    if len(part) > 1:
                        yield part


def are_in_step(
    indices: Iterable[Sequence[int]],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
) -> bool:
    """Whether each call is a collective that has the same number on all ranks of its group.

    Then all complete, one number after the other. ``indices``: the operations of each rank's calls.
    """
    all_codes = _codes_of(operations)
    patterns: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    numbers_in: dict[int, tuple[int, ...]] = {}
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    callers: Counter[int] = Counter()
    for own in indices:
        codes = list(map(all_codes.__getitem__, own))
        if _MESSAGE in codes:
            return False
        # Most programs have few patterns: which calls are of the first group, of the second …
        used = {group: place for place, group in enumerate(dict.fromkeys(codes))}
        pattern = tuple(map(used.__getitem__, codes))
        if pattern not in patterns:
            patterns[pattern] = [
                tuple(number for number, one in enumerate(pattern) if one == place)
                for place in used.values()
            ]
        for group, found in zip(used, patterns[pattern], strict=True):
            numbers = known.setdefault(found, found)
            if numbers_in.setdefault(group, numbers) is not numbers:
                return False
        callers.update(used.keys())
    return all(number == len(groups[group]) for group, number in callers.items())


def join_deadlocked(
    launches: Sequence[list[Launch]],
    operations: Sequence[ProfiledOperation],
    groups: Sequence[tuple[int, ...]],
) -> list[int]:
    """Joins messages of a rank that would wait for each other, in the lists of ``launches``.

    If calls of several streams do not complete in the order of the lists, they are put into one in
    which they do. Returns the ranks that still wait for each other; empty if all calls complete.
    """
    steps = _Steps(operations, groups)
    if not _stuck_in_one_queue(steps, launches):
        return []  # with a queue for each stream, a launch waits for fewer others
    simulation = _Simulation(steps, steps.by_stream(launches), keeps_order=True)
    removed: set[int] = set()
    while waiting := simulation.advance():
        joined = simulation.join(waiting)
        if not joined:
            return sorted({queue.rank for queue in waiting})
        removed.update(map(id, joined))
    for own in launches:
        own[:] = [one for one in own if id(one) not in removed]
    if not _stuck_in_one_queue(steps, launches):
        return []
    for rank, own in enumerate(launches):
        own[:] = simulation.completed.get(rank, [])
    return _stuck_in_one_queue(steps, launches)


def _stuck_in_one_queue(steps: _Steps, launches: Sequence[list[Launch]]) -> list[int]:
    """The ranks that wait for each other if calls complete one after the other on each rank."""
    return [queue.rank for queue in _Simulation(steps, steps.in_one_queue(launches)).advance()]
