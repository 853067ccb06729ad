"""The surroundings of a run, from the Hello of every rank and the descriptions of the hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark.analysis.hosts import unlike_devices
from cclmark.errors import MissingError
from cclmark.launch.coordinator import Coordinator
from cclmark.launch.request import Surroundings
from cclmark.plan.ranges import in_ranges
from cclmark.rendezvous.messages import Described, Hello
from cclmark.results.schema import DeviceDescription, LibraryDescription, Link, Relation
from cclmark.results.topology import relations_across, relations_between


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
    ranks: dict[str, list[int]] = {}
    for hello in hellos:
        if hello.unbound:
            ranks.setdefault(hello.unbound, []).append(hello.rank)
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
