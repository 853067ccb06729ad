"""The introduction of a run: the surroundings that the listener receives before any result."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cclmark.analysis.hosts import unlike_devices
from cclmark.base.errors import MissingError
from cclmark.base.grouping import by_key
from cclmark.journal.schema import DeviceDescription, LibraryDescription, Link, Relation
from cclmark.journal.topology import relations_across, relations_between
from cclmark.launch.agent import describe_devices
from cclmark.launch.coordinator import Coordinator, RankLayout
from cclmark.launch.rank_messages import RankMessages
from cclmark.launch.request import Request, ResultDelivery, Surroundings
from cclmark.rendezvous.messages import Describe, Described, Hello
from cclmark.work.sizes import in_ranges


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
    """The ranks that loaded another library file than the first rank, a common cause of hangs."""
    first: dict[str, tuple[int, LibraryDescription]] = {}
    differences = []
    for hello in hellos:
        for library in hello.libraries:
            rank, expected = first.setdefault(library.name, (hello.rank, library))
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
