"""The messages of ranks and processes: their receipt, their checks and their contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from cclmark.explain.operation import MESSAGES, Operation
from cclmark.explain.paths import Route, rings_by_channel, trees_by_channel
from cclmark.journal.item_results import Result
from cclmark.journal.schema import Explanation, Paths, Ring, Tree
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.diagnosis import StallWatch
from cclmark.launch.request import Listener, Request, ResultDelivery
from cclmark.rendezvous.messages import (
    Connected,
    Described,
    Explained,
    Failed,
    Finished,
    FromAny,
    Hello,
    Measured,
    Notice,
    Observed,
    Traced,
)
from cclmark.trace.rank_trace import trace_of

_PLUG_IN = "plug-in"
_MOST_SAID = 3
_MOST_MESSAGES = 50


def explanation_of(parts: Sequence[Explained]) -> Explanation:
    """Returns the explanation of a case from the parts of its ranks, in their order.

    Collectives are the same on all ranks; the reason describes where they are not. Messages differ
    between ranks by nature. Only some ranks may know: NCCL logs on rank 0 alone. Where the plug-in
    of any rank reports, those of the others should too.
    """
    knowing = [part for part in parts if part.operations]
    if not knowing:
        silent = [part for part in parts if part.is_silent]
        first = silent[0] if silent else parts[0]
        return Explanation(
            first.index, reason=first.reason, is_doubtful=bool(silent), ignored=_ignored(parts)
        )
    first = next((part for part in knowing if part.source == _PLUG_IN), knowing[0])
    operations = _collectives(first) or first.operations
    reasons = dict.fromkeys(part.reason for part in knowing if part.reason)
    differences = _differences(parts, first)
    return Explanation(
        index=first.index,
        source=first.source,
        kernel=_joined(one.kernel for one in operations),
        algorithm=_joined(one.algorithm for one in operations),
        protocol=_joined(one.protocol for one in operations),
        channels=max(one.channels for one in operations),
        reason="; ".join([*differences, *reasons][:_MOST_SAID]),
        predicted_s=first.predicted_s,
        rule=first.rule,
        is_doubtful=bool(differences),
        ignored=_ignored(parts),
        registered=_registered(parts),
    )


def _registered(parts: Sequence[Explained]) -> str:
    """Whether buffers were registered: the answer of the ranks that know, if it is one."""
    found = {part.registered for part in parts} - {""}
    return found.pop() if len(found) == 1 else ""


def _ignored(parts: Sequence[Explained]) -> dict[str, str]:
    """The settings that have no effect on any rank."""
    return {
        name: reason
        for name, reason in parts[0].ignored.items()
        if all(name in part.ignored for part in parts)
    }


def _collectives(part: Explained) -> list[Operation]:
    return [one for one in part.operations if one.kernel != MESSAGES]


def _differences(parts: Sequence[Explained], first: Explained) -> list[str]:
    """What other ranks did not observe as ``first`` did."""
    found = []
    # NCCL writes its log on one rank only. Every rank has a plug-in, and other libraries' logs.
    every_rank = first.source == _PLUG_IN or sum(bool(part.operations) for part in parts) > 1
    for part in parts:
        if not part.operations:
            if every_rank:
                found.append(f"rank {part.rank} reported no operation: {part.reason}")
        elif part.source != first.source:
            found.append(
                f"rank {part.rank} reported no operation to its plug-in; its {part.source} has "
                f"{_described(part)}"
            )
        elif _collectives(part) != _collectives(first):
            found.append(
                f"rank {part.rank} ran {_described(part)}, rank {first.rank} {_described(first)}"
            )
    return found


def _described(part: Explained) -> str:
    operations = _collectives(part)
    if not operations:
        return "no collective"
    return ", ".join(dict.fromkeys(f"{one.function} by {one.choice}" for one in operations))


def _joined(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name))


def paths_of(parts: Sequence[Connected]) -> Paths:
    """Returns how a library connects its ranks, from the parts of all ranks, in their order."""
    first = next((part for part in parts if not part.paths.is_empty), parts[0])
    routes: dict[tuple[int, int, str], Route] = {}
    for part in parts:
        for route in part.paths.routes:
            # Both ends of a network connection log it.
            key = (route.first, route.second, route.transport)
            known = routes.get(key)
            devices = {*route.devices, *(known.devices if known is not None else [])}
            channels = max(route.channels, known.channels if known is not None else 0)
            routes[key] = Route(*key, channels, sorted(devices))
    parameters: dict[str, str] = {}
    others: dict[str, str] = {}
    for part in reversed(parts):  # those of rank 0 apply where ranks differ
        parameters.update(part.paths.parameters)
        others.update(part.paths.others)
    messages = dict.fromkeys(
        f"rank {part.rank}: {text}" for part in parts for text in part.paths.messages
    )
    devices = {name for part in parts for name in part.network_devices}
    return Paths(
        ccl=first.ccl,
        source=first.source,
        reason=first.reason,
        routes=[routes[key] for key in sorted(routes)],
        rings=_rings(parts),
        trees=_trees(parts),
        parameters=parameters,
        others=others,
        messages=list(messages)[:_MOST_MESSAGES],
        network_devices=sorted(devices),
    )


def _rings(parts: Sequence[Connected]) -> list[Ring]:
    """The rings of all channels, each once."""
    rings = Counter(rings_by_channel([part.paths for part in parts]).values())
    return [Ring(list(ranks), channels) for ranks, channels in rings.items()]


def _trees(parts: Sequence[Connected]) -> list[Tree]:
    """The trees of all channels, each once."""
    trees = Counter(trees_by_channel([part.paths for part in parts]).values())
    return [Tree(list(parents), channels) for parents, channels in trees.items()]


class RankMessages:
    """Receives messages, passes results and notices on and holds the other contents.

    ``hellos``, ``failures`` and ``finished``: the messages by rank, in the order of their arrival.
    ``descriptions``: the descriptions of devices by host.
    """

    def __init__(
        self,
        request: Request,
        listener: Listener,
        coordinator: Coordinator,
        delivery: ResultDelivery,
        stalls: StallWatch,
    ) -> None:
        self._request = request
        self._listener = listener
        self._coordinator = coordinator
        self._server = coordinator.meeting.server
        self._delivery = delivery
        self._stalls = stalls
        self._size = len(request.processes)
        self._explains = request.explain or request.explains_at_end
        self.hellos: dict[int, Hello] = {}
        self.failures: dict[int, Failed] = {}
        self.finished: dict[int, Finished] = {}
        self.descriptions: dict[int, Described] = {}
        self._explained: dict[int, dict[int, Explained]] = {}
        self._connected: dict[str, dict[int, Connected]] = {}
        self._traced: dict[int, list[bytes]] = {}

    @property
    def all_up(self) -> bool:
        """Whether every rank has sent Hello."""
        return len(self.hellos) == self._size

    @property
    def all_finished(self) -> bool:
        """Whether every rank has sent Finished."""
        return len(self.finished) == self._size

    def hellos_by_rank(self) -> list[Hello]:
        """The Hello of every rank, once all have sent it."""
        return [self.hellos[rank] for rank in range(self._size)]

    def libraries(self) -> set[str]:
        """The names of the libraries that ranks have loaded."""
        return {library.name for hello in self.hellos.values() for library in hello.libraries}

    def has_reported_end(self, rank: int) -> bool:
        """Whether the last message of a rank has arrived: Finished or Failed."""
        return rank in self.finished or rank in self.failures

    def add_description(self, host: int, description: Described) -> None:
        """Adds a description that this process has created; callable from any thread."""
        self.descriptions[host] = description

    def receive(self, timeout_s: float) -> None:
        """Receives the messages that arrive within ``timeout_s`` and passes results on.

        Raises UnreadError if the output has no reader any more, and RankError for ranks that cannot
        be ended.
        """
        self._stalls.note()
        # Processed in order: the first and the last message of a fast rank may arrive together.
        messages = self._server.receive(timeout_s)
        self._stalls.note()
        for message in messages:
            if isinstance(message, Measured):
                is_accepted = self._add_measured(message)
            elif is_accepted := self._is_consistent(message):
                self._record(message)
            self._server.refused += not is_accepted
        self._delivery.pass_on()

    def _record(self, message: FromAny) -> None:
        if isinstance(message, Hello):
            self.hellos[message.rank] = message
            if (mpi := self._coordinator.own.mpi) is not None:  # which does not report the pids
                mpi.ranks[message.rank].found(message.devices[0].pid)
                if self.all_up:
                    mpi.watch()
        elif isinstance(message, Observed):
            self._delivery.add(message.condition)
        elif isinstance(message, Explained):
            self._add_explained(message)
        elif isinstance(message, Connected):
            self._add_connected(message)
        elif isinstance(message, Traced):
            self._add_traced(message)
        elif isinstance(message, Notice):
            self._listener.notice(message.text)
        elif isinstance(message, Failed):
            self.failures[message.rank] = message
        elif isinstance(message, Finished):
            self.finished[message.rank] = message
        elif isinstance(message, Described):
            self.add_description(self._coordinator.host_of[message.rank], message)
            self._coordinator.hear(message)
        else:
            self._coordinator.hear(message)

    def _add_measured(self, message: Measured) -> bool:
        """Adds a result; false if it is none of an item of the plan."""
        items = self._request.items
        try:
            decoded: Result = msgspec.msgpack.decode(message.result, type=self._request.kind.result)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        is_planned = decoded.index in range(len(items)) and decoded.item == items[decoded.index]
        if not (is_planned and decoded.is_consistent):
            return False
        self._delivery.add(decoded)
        return True

    def _add_explained(self, message: Explained) -> None:
        """Passes the explanation of a case on once every rank of the case has sent its part."""
        parts = self._explained.setdefault(message.index, {})
        parts[message.rank] = message
        if len(parts) == (self._request.items[message.index].ranks or self._size):
            del self._explained[message.index]
            self._delivery.add(explanation_of([parts[rank] for rank in sorted(parts)]))

    def _add_connected(self, message: Connected) -> None:
        """Passes the paths of a library on once every rank has sent its part."""
        parts = self._connected.setdefault(message.ccl, {})
        parts[message.rank] = message
        if len(parts) == self._size:
            del self._connected[message.ccl]
            self._delivery.add(paths_of([parts[rank] for rank in range(self._size)]))

    def _add_traced(self, message: Traced) -> None:
        """Passes the trace of a rank on once all of its pieces have arrived."""
        pieces = self._traced.setdefault(message.rank, [])
        pieces.append(message.content)
        if len(pieces) == message.pieces and self._request.traces is not None:
            del self._traced[message.rank]
            self._request.traces(trace_of(pieces))

    def _devices_of(self, rank: int) -> range:
        """The numbers of the devices of a rank."""
        number = len(self._request.processes[rank])
        return range(rank * number, (rank + 1) * number)

    def _is_consistent(self, message: FromAny) -> bool:
        """Whether a message is consistent with the run.

        Its indices, which are used for look-ups, must exist, and a rank must send Hello before
        Finished.
        """
        every = range(len(self._request.devices.indices))
        items = self._request.items
        consistent = True
        if isinstance(message, Hello):
            own = [*self._devices_of(message.rank)]
            known = all(one in every and other in every for one, other in message.reach)
            consistent = known and [device.rank for device in message.devices] == own
        elif isinstance(message, Observed):
            consistent = message.condition.rank in self._devices_of(message.rank)
        elif isinstance(message, Explained):
            consistent = self._explains and message.index in range(len(items))
        elif isinstance(message, Connected):
            ccls = {item.ccl for item in items}
            consistent = self._explains and message.ccl in ccls
        elif isinstance(message, Traced):
            number = len(self._traced.get(message.rank, []))
            consistent = self._request.traced_operations > 0 and message.piece == number
        elif isinstance(message, Described):
            named = [one.rank for one in message.devices] + [one.device for one in message.links]
            consistent = all(rank in every for rank in named)
        elif isinstance(message, Failed):
            consistent = -1 <= message.case_index < len(items)
        elif isinstance(message, Finished):
            consistent = message.rank in self.hellos
        return consistent
