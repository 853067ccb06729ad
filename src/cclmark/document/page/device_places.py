"""A drawing of where devices and network interfaces are: NUMA nodes, and PCIe switches in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cclmark.base.grouping import by_key
from cclmark.document.page.drawings import Box, Diagram, Node
from cclmark.document.text import counted
from cclmark.journal.schema import DeviceDescription, Header, Machine, NetworkInterface

_RADIUS = 13.0  # of a device
_GAP = 10.0
_TITLE = 20.0  # height of the name of a box
_LINE = 22.0  # height of a network interface
_CHARACTER = 6.8  # the width of one
_LEAST_WIDTH = 150.0
_ACROSS = 8  # devices beside each other
_MOST_DEVICES, _MOST_INTERFACES = 64, 64
_SWITCH = 2  # its place in a path: below the host bridge and the root port
_WORKING = ("active", "up", "unknown", "")


_Member = DeviceDescription | NetworkInterface


@dataclass
class _Place:
    """A box with what is in it: devices, network interfaces, and further boxes."""

    title: str
    devices: list[DeviceDescription] = field(default_factory=list)
    interfaces: list[NetworkInterface] = field(default_factory=list)
    inside: list[_Place] = field(default_factory=list)

    @property
    def width(self) -> float:
        texts = [self.title, *map(interface_text, self.interfaces)]
        own = max(_LEAST_WIDTH, max(map(len, texts)) * _CHARACTER + 2 * _GAP)
        across = min(len(self.devices), _ACROSS) * (2 * _RADIUS + _GAP) + 2 * _GAP
        return max([own, across, *(one.width + 2 * _GAP for one in self.inside)])

    @property
    def height(self) -> float:
        rows = -(-len(self.devices) // _ACROSS)
        height = _TITLE * bool(self.title) + _GAP + rows * (2 * _RADIUS + _GAP)
        height += len(self.interfaces) * (_LINE + _GAP / 2)
        return height + sum(one.height + _GAP for one in self.inside)


def places_of_devices(header: Header) -> list[Diagram]:
    """The drawing; none without a network interface, or with too many."""
    machines = [one.machine for one in header.hosts] or [header.machine]
    number = sum(len(one.interfaces) for one in machines)
    if not 0 < number <= _MOST_INTERFACES or len(header.devices) > _MOST_DEVICES:
        return []
    several = len(machines) > 1
    found = [
        place
        for machine in machines
        for place in _nodes(machine, _devices_of(machine, header, several), several)
    ]
    boxes: list[Box] = []
    nodes: list[Node] = []
    top = _GAP
    for one in found:
        _draw(one, _GAP, top, boxes, nodes)
        top += one.height + _GAP
    width = max(one.width for one in found) + 2 * _GAP
    says = "; ".join(_said(one) for one in found)
    title = "Devices and network interfaces by NUMA node and PCIe switch"
    return [Diagram(title, f"{says}.", width, top, boxes, nodes, [])]


def _devices_of(machine: Machine, header: Header, several: bool) -> list[DeviceDescription]:
    of_machine = [one for one in header.devices if one.host == machine.hostname or not several]
    return [one for one in of_machine if one.pci_bus_id]


def _nodes(
    machine: Machine, devices: Sequence[DeviceDescription], several: bool
) -> Iterator[_Place]:
    """The NUMA nodes that have some of these, in their order."""
    host = f"{machine.hostname}, " * several
    members: list[_Member] = [*devices, *machine.interfaces]
    # Linux reports no node where there is only one.
    only = 0 if machine.numa_nodes == 1 else -1
    for node, own in sorted(by_key((max(one.numa_node, only), one) for one in members).items()):
        named = f"NUMA node {node}" if node >= 0 else "NUMA node unknown"
        place = _Place(f"{host}{named}")
        for switch, beside in by_key((_switch(one), one) for one in own).items():
            within = _Place(f"PCIe switch {switch}") if switch else place
            for one in beside:
                if isinstance(one, DeviceDescription):
                    within.devices.append(one)
                else:
                    within.interfaces.append(one)
            if switch:
                place.inside.append(within)
        yield place


def _switch(one: _Member) -> str:
    """The first PCIe switch on the way to it, empty without any: the address of its upper port."""
    return one.pci_path[_SWITCH] if len(one.pci_path) > _SWITCH + 1 else ""


def interface_text(one: NetworkInterface) -> str:
    """A network interface in words: ``mlx5_0 (ib0) InfiniBand 400 Gb/s``."""
    names = f" ({', '.join(one.interfaces)})" if one.interfaces else ""
    rate = f" {one.rate_bits_per_s / 1e9:g} Gb/s" if one.rate_bits_per_s else ""
    state = "" if one.state in _WORKING else f", {one.state}"
    return f"{one.name}{names} {one.kind}".rstrip() + rate + state


def _draw(one: _Place, left: float, top: float, boxes: list[Box], nodes: list[Node]) -> None:
    boxes.append(Box(left, top, one.width, one.height, one.title))
    at = top + _TITLE + _GAP / 2
    for place, device in enumerate(one.devices):
        across, row = place % _ACROSS, place // _ACROSS
        x = left + _GAP + _RADIUS + across * (2 * _RADIUS + _GAP)
        nodes.append(Node(x, at + _RADIUS + row * (2 * _RADIUS + _GAP), str(device.rank)))
    at += -(-len(one.devices) // _ACROSS) * (2 * _RADIUS + _GAP)
    for interface in one.interfaces:
        boxes.append(Box(left + _GAP, at, one.width - 2 * _GAP, _LINE, interface_text(interface)))
        at += _LINE + _GAP / 2
    for inside in one.inside:
        _draw(inside, left + _GAP, at, boxes, nodes)
        at += inside.height + _GAP


def _said(one: _Place) -> str:
    parts = [counted(len(one.devices), "device")] * bool(one.devices)
    parts += map(interface_text, one.interfaces)
    parts += [f"({_said(inside)})" for inside in one.inside]
    return f"{one.title}: {', '.join(parts)}"
