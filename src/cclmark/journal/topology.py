"""The connections between devices, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

from cclmark.journal.schema import DeviceDescription, Link, Relation

UNKNOWN_LINK = "?"

# The meaning of each symbol, nearest first, in the words of nvidia-smi topo.
LEGEND = {
    "X": "the device itself",
    "NV#": "# NVLinks between the two, or from each to a switch",
    "PIX": "at most one PCIe bridge between them",
    "PXB": "several PCIe bridges, not the processor's",
    "PHB": "the processor's PCIe host bridge",
    "NODE": "several host bridges of one NUMA node",
    "SYS": "the link between NUMA nodes",
    "MEM": "the memory of one host",
    "NET": "the network between two hosts",
    "P2P": "peer access over an unknown path",
    UNKNOWN_LINK: "unknown",
}

PciAddress = tuple[int, int, int]  # PCI domain, bus, device

_SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH


def relations_between(
    devices: Sequence[DeviceDescription],
    links: Sequence[Link],
    reach: set[tuple[int, int]] | None,
) -> list[Relation]:
    """Returns one relation for each ordered pair of ``devices``, by their numbers in the run.

    The devices are those of one host. ``reach``: the pairs with peer access, as the driver reports;
    None if unknown.
    """
    pairs = list(permutations((device.rank for device in devices), 2))
    if all(device.runtime == "host" for device in devices):
        return [Relation(*pair, "MEM", 1) for pair in pairs]
    try:
        relations = _from_nvml(devices, links)
    except Exception:  # the measurement can go on after any failure of NVML
        relations = [
            Relation(*pair, "P2P" if pair in (reach or ()) else UNKNOWN_LINK) for pair in pairs
        ]
    return relations if reach is None else with_hops(relations, reach)


def relations_across(
    devices: Sequence[DeviceDescription], by_host: Sequence[Sequence[Relation]]
) -> list[Relation]:
    """Returns the relations of each host, and those between devices of different hosts.

    ``by_host``: relations of hosts; those of a host that did not describe them are unknown.
    """
    within = {(one.first, one.second): one for relations in by_host for one in relations}
    found = []
    for one, other in permutations(devices, 2):
        pair = (one.rank, other.rank)
        if one.host != other.host:
            found.append(Relation(*pair, "NET", 0))
        else:
            found.append(within.get(pair) or Relation(*pair, UNKNOWN_LINK))
    return found


def _from_nvml(devices: Sequence[DeviceDescription], links: Sequence[Link]) -> list[Relation]:
    """Returns the relations without hops."""
    import pynvml

    pynvml.nvmlInit()
    try:
        handles = {
            device.rank: pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id.encode())
            for device in devices
        }
        neighbours = {number: _nvlinks(pynvml, handle) for number, handle in handles.items()}
        places = {
            number: _place(pynvml.nvmlDeviceGetPciInfo(handle))
            for number, handle in handles.items()
        }
        relations = []
        for (first, one), (second, other) in permutations(handles.items(), 2):
            count = _links_between(neighbours, places, first, second)
            kind = f"NV{count}" if count else _ancestor(pynvml, one, other)
            limit = _limit(links, first, second, count)
            relations.append(Relation(first, second, kind, None, limit))
    finally:
        pynvml.nvmlShutdown()
    return relations


def with_hops(relations: Sequence[Relation], direct: set[tuple[int, int]]) -> list[Relation]:
    """Returns the relations with the number of steps over direct connections, 0 without a path."""
    numbers = sorted({one.first for one in relations})
    steps: dict[tuple[int, int], int] = {}
    for start in numbers:
        frontier, seen, distance = [start], {start}, 0
        while frontier:
            distance += 1
            frontier = [
                end
                for end in numbers
                if end not in seen and any((at, end) in direct for at in frontier)
            ]
            seen.update(frontier)
            steps.update({(start, end): distance for end in frontier})
    for one in relations:
        one.hops = steps.get((one.first, one.second), 0)
    return list(relations)


def _place(information: Any) -> PciAddress:
    return int(information.domain), int(information.bus), int(information.device)


def _nvlinks(nvml: Any, handle: Any) -> list[PciAddress | None]:
    """Returns the other end of each active NVLink: a device's place, or None for a switch."""
    ends: list[PciAddress | None] = []
    for index in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, index) != nvml.NVML_FEATURE_ENABLED:
                continue
        except nvml.NVMLError:
            break
        try:
            if nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, index) == _SWITCH:
                ends.append(None)
                continue
        except nvml.NVMLError:
            pass
        ends.append(_place(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, index)))
    return ends


def _links_between(
    neighbours: dict[int, list[PciAddress | None]],
    places: dict[int, PciAddress],
    first: int,
    second: int,
) -> int:
    to_switch = min(neighbours[first].count(None), neighbours[second].count(None))
    return to_switch + neighbours[first].count(places[second])


def _ancestor(nvml: Any, first: Any, second: Any) -> str:
    level = nvml.nvmlDeviceGetTopologyCommonAncestor(first, second)
    signs = {
        nvml.NVML_TOPOLOGY_INTERNAL: "PIX",
        nvml.NVML_TOPOLOGY_SINGLE: "PIX",
        nvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
        nvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
        nvml.NVML_TOPOLOGY_NODE: "NODE",
        nvml.NVML_TOPOLOGY_SYSTEM: "SYS",
    }
    return signs.get(level, UNKNOWN_LINK)


def _limit(links: Sequence[Link], first: int, second: int, nvlinks: int) -> float:
    """Returns a pair's capacity in one direction: its NVLinks, else the narrower PCIe slot."""
    kind = "NVLink" if nvlinks else "PCIe"
    own = [link for link in links if link.kind == kind and link.device in (first, second)]
    if len(own) < 2:
        return 0.0
    if nvlinks:
        return nvlinks * min(link.rate_bytes_per_s for link in own)
    return min(link.count * link.rate_bytes_per_s for link in own)
