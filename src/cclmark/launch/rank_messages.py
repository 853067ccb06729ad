"""The messages of ranks and processes: their receipt, their checks and their contents."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cclmark.analysis.hosts import unlike_devices
from cclmark.base.errors import MissingError
from cclmark.base.grouping import by_key
from cclmark.explain.operation import MESSAGES, Operation
from cclmark.explain.paths import Route, rings_by_channel, trees_by_channel
from cclmark.journal.item_results import Result
from cclmark.journal.schema import (
    DeviceDescription,
    Explanation,
    LibraryDescription,
    Link,
    Paths,
    Relation,
    Ring,
    Tree,
)
from cclmark.journal.topology import relations_across, relations_between
from cclmark.launch.agent import describe_devices
from cclmark.launch.coordinator import Coordinator, RankLayout
from cclmark.launch.diagnosis import StallWatch
from cclmark.launch.request import Listener, Request, ResultDelivery, Surroundings
from cclmark.rendezvous.messages import (
    Connected,
    Describe,
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
from cclmark.work.sizes import in_ranges

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
            self._coordinator.found(message.rank, message.devices[0].pid, all_up=self.all_up)
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


def surroundings_of(
    coordinator: Coordinator,
    hellos: Sequence[Hello],
    descriptions: Mapping[int, Described],
    *,
    between_devices: bool,
    explained: bool = False,
) -> Surroundings:
    """The surroundings of a run.

    ``hellos`` by rank. ``descriptions`` by host; hosts that have not answered in time are missing.
    ``between_devices``: the kind of work measures connections, so the relations between all devices
    are part of the surroundings. ``explained``: the paths between ranks are observed, and compared
    with the relations between the devices of the first host.
    """
    described = {one.rank: one for answer in descriptions.values() for one in answer.devices}
    devices = [described.get(device.rank, device) for device in devices_of(hellos)]
    links = [link for host in sorted(descriptions) for link in descriptions[host].links]
    notices = [text for host in sorted(descriptions) for text in descriptions[host].notices]
    machine = coordinator.joins[0].host.machine
    if 0 in descriptions:
        machine.vendor_driver = descriptions[0].vendor_driver or machine.vendor_driver
    if between_devices and len(coordinator.hosts) > 1:
        relations = relations_across(devices, [one.relations for one in descriptions.values()])
    else:
        relations = _relations(
            devices, links, hellos, between_devices=between_devices, explained=explained
        )
    if len(descriptions) < len(coordinator.hosts):
        notices.append("links unknown: NVML does not answer")
    return Surroundings(
        machine,
        devices,
        links,
        _libraries(hellos),
        _with_memory_limits(relations, hellos),
        [
            *dict.fromkeys(notices),
            *unbound_ranks(hellos),
            *unlike_devices(devices),
            *_unlike_libraries(hellos),
        ],
        coordinator.placement.launcher if coordinator.placement is not None else "",
        coordinator.hosts if len(coordinator.hosts) > 1 else [],
    )


def devices_of(hellos: Sequence[Hello]) -> list[DeviceDescription]:
    """The devices of all ranks, as the ranks describe them."""
    return [device for hello in hellos for device in hello.devices]


def check_no_device_twice(devices: Sequence[DeviceDescription]) -> None:
    """Raises MissingError if two ranks use one accelerator: libraries would hang or fail."""
    drivers: dict[tuple[str, str, str], int] = {}
    for device in devices:
        if not device.pci_bus_id:
            continue
        key = (device.host, device.runtime, device.pci_bus_id)
        other = drivers.setdefault(key, device.rank)
        if other != device.rank:
            raise MissingError(
                f"ranks {other} and {device.rank} on {device.host} have the same device "
                f"({device.runtime} {device.pci_bus_id}): start one process per device, or make a "
                "different device visible to each process"
            )


def unbound_ranks(hellos: Sequence[Hello]) -> list[str]:
    """The ranks that ``--bind numa`` could not bind, one sentence per reason."""
    ranks = by_key((hello.unbound, hello.rank) for hello in hellos if hello.unbound)
    return [
        f"--bind numa: rank{'s' * (len(unbound) > 1)} {in_ranges(unbound)} not bound: {reason}"
        for reason, unbound in ranks.items()
    ]


def _relations(
    devices: list[DeviceDescription],
    links: list[Link],
    hellos: Sequence[Hello],
    *,
    between_devices: bool,
    explained: bool,
) -> list[Relation]:
    if between_devices:
        reach = {pair for hello in hellos for pair in hello.reach}
        return relations_between(devices, links, reach)
    if not explained:
        return []
    # Only the driver of this host describes connections, and only ranks that measure them query
    # which devices have peer access.
    own = [one for one in devices if one.host == devices[0].host and one.runtime != "host"]
    return relations_between(own, links, None) if own else []


def _with_memory_limits(relations: list[Relation], hellos: Sequence[Hello]) -> list[Relation]:
    """Adds the measured bandwidth of the host's memory to relations between its devices."""
    measured = {one.rank: one.memory_bytes_per_s for one in hellos}
    for relation in relations:
        if relation.kind == "MEM":
            relation.limit_bytes_per_s = measured[relation.first]
    return relations


def _libraries(hellos: Sequence[Hello]) -> list[LibraryDescription]:
    """The libraries of all ranks, each with the description of the first rank that has it."""
    found: dict[str, LibraryDescription] = {}
    for hello in hellos:
        for library in hello.libraries:
            found.setdefault(library.name, library)
    return list(found.values())


def _unlike_libraries(hellos: Sequence[Hello]) -> list[str]:
    """The ranks that loaded another library file than the first rank, a common cause of hangs.

    Devices of another runtime require another build.
    """
    first: dict[tuple[str, ...], tuple[int, LibraryDescription]] = {}
    differences = []
    for hello in hellos:
        runtimes = {device.runtime for device in hello.devices}
        for library in hello.libraries:
            build = (library.name, *sorted(runtimes))
            rank, expected = first.setdefault(build, (hello.rank, library))
            if (library.version, library.path) != (expected.version, expected.path):
                differences.append(
                    f"rank {hello.rank} loaded {library.name} {library.version} from "
                    f"{library.path}, but rank {rank} did not: mixed versions can hang or crash"
                )
    return differences


_POLL_S = 0.02
_DESCRIPTION_S = 5.0


@dataclass(eq=False)
class Introduction:
    """Collects the descriptions of devices and reports the surroundings once."""

    _request: Request
    _coordinator: Coordinator
    _layout: RankLayout
    _messages: RankMessages
    _delivery: ResultDelivery
    _requested_s: float | None = None

    def check_devices(self) -> None:
        """Raises MissingError if two ranks use one accelerator, until the run is introduced."""
        if not self._delivery.has_begun and self._messages.all_up:
            self._name_hosts()
            check_no_device_twice(devices_of(self._messages.hellos_by_rank()))

    def advance(self) -> None:
        """Reports the surroundings once all ranks have sent Hello, while they continue to start."""
        if self._delivery.has_begun or not self._messages.all_up:
            return
        if self._requested_s is None:
            self._requested_s = time.monotonic()
            self._name_hosts()
            self._request_descriptions()
        descriptions = self._messages.descriptions
        if len(descriptions) == len(self._coordinator.hosts) or self._has_timed_out():
            surroundings = surroundings_of(
                self._coordinator,
                self._messages.hellos_by_rank(),
                dict(descriptions),
                between_devices=self._request.kind.between_devices,
                explained=self._request.explained,
            )
            self._delivery.begin(surroundings)

    def wait(self) -> None:
        """Waits for the descriptions if they are requested, and reports the surroundings."""
        self.advance()  # the last rank may have arrived just now
        while self._requested_s is not None and not self._delivery.has_begun:
            self._messages.receive(_POLL_S)
            self.advance()

    def _name_hosts(self) -> None:
        """Names the hosts of devices as the coordinator does: ranks' own names may be equal."""
        hosts = self._coordinator.hosts
        if len(hosts) < 2:
            return
        for rank, hello in self._messages.hellos.items():
            for device in hello.devices:
                device.host = hosts[self._layout.host_of[rank]].machine.hostname

    def _has_timed_out(self) -> bool:
        since_s = self._requested_s
        return since_s is not None and time.monotonic() > since_s + _DESCRIPTION_S

    def _request_descriptions(self) -> None:
        """Has one process per host query the vendor's interface, on this host in a thread."""
        of_host: dict[int, list[DeviceDescription]] = {}
        reach: dict[int, list[tuple[int, int]]] = {}
        for rank, hello in self._messages.hellos.items():
            host = self._layout.host_of[rank]
            of_host.setdefault(host, []).extend(hello.devices)
            reach.setdefault(host, []).extend(hello.reach)
        several = self._request.kind.between_devices and len(of_host) > 1
        first_processes: dict[int, int] = {}
        for process, host in enumerate(self._coordinator.host_of):
            first_processes.setdefault(host, process)
        for host, process in first_processes.items():
            devices = of_host.get(host, [])
            own_reach = reach.get(host, []) if several else None
            if process > 0:
                self._coordinator.meeting.server.tell(process, Describe(devices, own_reach))
                continue
            # On copies, so that a partial result of the thread is never used.
            copies = [msgspec.structs.replace(device) for device in devices]
            threading.Thread(
                target=self._describe_own, args=(copies, own_reach), daemon=True
            ).start()

    def _describe_own(
        self, devices: list[DeviceDescription], reach: list[tuple[int, int]] | None
    ) -> None:
        machine = self._coordinator.joins[0].host.machine
        self._messages.add_description(0, describe_devices(devices, machine, 0, b"", reach))
