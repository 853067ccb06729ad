"""Drawings for the template of a page, as coordinates.

Ranks and their connections by host, stages over time, and where devices and network interfaces are:
NUMA nodes, and PCIe switches in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cclmark.base.grouping import by_key
from cclmark.document.text import counted
from cclmark.journal.schema import DeviceDescription, Header, Machine, NetworkInterface, TracedStage
from cclmark.work.sizes import format_size

_NODE = 13.0  # radius of a rank
_GAP = 14.0  # between hosts, and around them
_TITLE = 20.0  # height of a host's name
_LEAST_RADIUS = 44.0  # of the circle of a host's ranks
_ARC = 62.0  # of that circle, for each rank
_ASIDE = 4.0  # between parallel lines
_ARROW = 5.0  # the part of a line that its arrow covers


@dataclass(frozen=True)
class Node:
    """A rank. Coordinates in units of the drawing, downwards."""

    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Box:
    """The ranks of a host."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True)
class Edge:
    """A line between two ranks. ``look``: the number of its colour and dashes."""

    x1: float
    y1: float
    x2: float
    y2: float
    look: int
    arrow: bool


@dataclass(frozen=True)
class Diagram:
    """A drawing. ``says``: describes it for users who cannot see it. ``legend``: names by look."""

    title: str
    says: str
    width: float
    height: float
    boxes: Sequence[Box]
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    legend: Sequence[tuple[int, str]] = ()
    radius: float = _NODE


@dataclass(frozen=True)
class DiagramLine:
    """A line to draw. ``arrow``: at ``second``."""

    first: int
    second: int
    look: int = 0
    arrow: bool = False


class DiagramLayout:
    """Places the ranks of each host on a circle, and hosts side by side."""

    def __init__(self, host_of: Mapping[int, str]) -> None:
        """``host_of``: the host's name of each rank."""
        self._boxes: list[Box] = []
        self._nodes: dict[int, Node] = {}
        by_host = by_key((host, rank) for rank, host in host_of.items())
        most = max(map(len, by_host.values()))
        radius = 0.0 if most == 1 else max(_LEAST_RADIUS, most * _ARC / math.tau)
        side = 2 * (radius + _NODE + _GAP)
        columns = math.ceil(math.sqrt(len(by_host)))
        rows = math.ceil(len(by_host) / columns)
        title = _TITLE if len(by_host) > 1 else 0.0
        self.width = columns * (side + _GAP) + _GAP
        self.height = rows * (side + title + _GAP) + _GAP
        for number, (host, ranks) in enumerate(by_host.items()):
            left = _GAP + number % columns * (side + _GAP)
            top = _GAP + number // columns * (side + title + _GAP)
            if title:
                self._boxes.append(Box(left, top, side, side + title, host))
            middle_x, middle_y = left + side / 2, top + title + side / 2
            around = radius if len(ranks) > 1 else 0.0
            # Two ranks side by side, others clockwise from the top.
            first = math.pi if len(ranks) == 2 else -math.pi / 2
            for place, rank in enumerate(ranks):
                angle = first + math.tau * place / len(ranks)
                self._nodes[rank] = Node(
                    middle_x + around * math.cos(angle),
                    middle_y + around * math.sin(angle),
                    str(rank),
                )

    def drawn(
        self,
        title: str,
        says: str,
        connections: Sequence[DiagramLine],
        legend: Sequence[tuple[int, str]] = (),
    ) -> Diagram:
        """Returns a drawing of the connections; without the ranks that have no place."""
        parallel: dict[tuple[int, int], int] = {}
        edges = []
        for one in connections:
            if one.first not in self._nodes or one.second not in self._nodes:
                continue
            if one.first == one.second:
                continue
            pair = (min(one.first, one.second), max(one.first, one.second))
            before = parallel.get(pair, 0)
            parallel[pair] = before + 1
            # Arrows keep to their right, so that both directions are visible.
            aside = _ASIDE if one.arrow else before * _ASIDE
            edges.append(self._edge(one, aside))
        nodes = list(self._nodes.values())
        return Diagram(title, says, self.width, self.height, self._boxes, nodes, edges, legend)

    def _edge(self, one: DiagramLine, aside: float) -> Edge:
        start, end = self._nodes[one.first], self._nodes[one.second]
        length = math.hypot(end.x - start.x, end.y - start.y)
        along_x, along_y = (end.x - start.x) / length, (end.y - start.y) / length
        right_x, right_y = -along_y * aside, along_x * aside
        until = _NODE + (_ARROW if one.arrow else 0.0)
        return Edge(
            start.x + along_x * _NODE + right_x,
            start.y + along_y * _NODE + right_y,
            end.x - along_x * until + right_x,
            end.y - along_y * until + right_y,
            one.look,
            one.arrow,
        )


LOOKS = 16  # different looks of bars: eight colours, each full and half transparent
_WIDTH = 1000.0
_LEFT = 76.0  # of the names of the rows
_ROW = 22.0
_BAR = 15.0
_AXIS = 24.0
_LEAST_WIDTH = 1.0  # of a bar
_TICKS = 8
_MOST_ROWS = 64


@dataclass(frozen=True)
class Bar:
    """A stage. Coordinates in units of the drawing, downwards. ``says``: its time and bytes."""

    x: float
    y: float
    width: float
    look: int
    says: str


@dataclass(frozen=True)
class Tick:
    """A time on the axis."""

    x: float
    label: str


@dataclass(frozen=True)
class StageBars:
    """A drawing. ``rows``: the names of the rows, with the middle of each. ``legend``: by look."""

    title: str
    says: str
    width: float
    height: float
    bars: Sequence[Bar]
    rows: Sequence[tuple[float, str]]
    ticks: Sequence[Tick]
    legend: Sequence[tuple[int, str]]
    note: str = ""
    bar_height: float = _BAR


def stage_bars(
    title: str,
    what: str,
    stages: Mapping[int, Sequence[TracedStage]],
    names: Mapping[int, str] | None = None,
) -> StageBars:
    """Draws the stages of each ``what`` by its number. ``names``: of the rows, by default both."""
    shown = dict(list(stages.items())[:_MOST_ROWS])
    every = [stage for of_one in shown.values() for stage in of_one]
    end_s = max((stage.begin_s + stage.time_s for stage in every), default=0.0) or 1.0
    looks = {name: number for number, name in enumerate(dict.fromkeys(one.name for one in every))}
    scale = (_WIDTH - _LEFT - 2) / end_s
    bars, rows = [], []
    for place, (number, of_one) in enumerate(shown.items()):
        top = place * _ROW
        row = f"{what} {number}" if names is None else names[number]
        rows.append((top + _BAR / 2, row))
        for stage in of_one:
            size = f", {format_size(stage.size_bytes)}" if stage.size_bytes else ""
            bars.append(
                Bar(
                    _LEFT + stage.begin_s * scale,
                    top,
                    max(_LEAST_WIDTH, stage.time_s * scale),
                    looks[stage.name] % LOOKS,
                    f"{row}: {stage.name}, {stage.time_s * 1e3:.2f} ms{size}",
                )
            )
    step_s = _nice(end_s / _TICKS)
    ticks: list[Tick] = []
    while len(ticks) * step_s <= end_s:
        time_s = len(ticks) * step_s
        ticks.append(Tick(_LEFT + time_s * scale, f"{time_s * 1e3:g} ms"))
    longest = max(every, key=lambda one: one.time_s, default=None)
    says = f"The stages of {counted(len(shown), what)} over time."
    if longest is not None:
        says += f" The longest is {longest.name}, {longest.time_s * 1e3:.2f} ms."
    more = len(stages) - len(shown)
    return StageBars(
        title,
        says,
        _WIDTH,
        len(shown) * _ROW + _AXIS,
        bars,
        rows,
        ticks,
        [(number % LOOKS, name) for name, number in looks.items()],
        f"{more} more are in the table of stages and in the trace" if more > 0 else "",
    )


def _nice(value: float) -> float:
    """The next larger of 1, 2, 5 times a power of ten."""
    power = 1e-9
    while power * 10 < value:
        power *= 10
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


_RADIUS = 13.0  # of a device
_PAD = 10.0  # in boxes and between them
_NAME = 20.0  # height of the name of a box
_LINE = 22.0  # height of a network interface
_CHARACTER = 6.8  # the width of one
_LEAST_BOX = 150.0  # width
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
        own = max(_LEAST_BOX, max(map(len, texts)) * _CHARACTER + 2 * _PAD)
        across = min(len(self.devices), _ACROSS) * (2 * _RADIUS + _PAD) + 2 * _PAD
        return max([own, across, *(one.width + 2 * _PAD for one in self.inside)])

    @property
    def height(self) -> float:
        rows = -(-len(self.devices) // _ACROSS)
        height = _NAME * bool(self.title) + _PAD + rows * (2 * _RADIUS + _PAD)
        height += len(self.interfaces) * (_LINE + _PAD / 2)
        return height + sum(one.height + _PAD for one in self.inside)


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
    top = _PAD
    for one in found:
        _draw(one, _PAD, top, boxes, nodes)
        top += one.height + _PAD
    width = max(one.width for one in found) + 2 * _PAD
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
    at = top + _NAME + _PAD / 2
    for place, device in enumerate(one.devices):
        across, row = place % _ACROSS, place // _ACROSS
        x = left + _PAD + _RADIUS + across * (2 * _RADIUS + _PAD)
        nodes.append(Node(x, at + _RADIUS + row * (2 * _RADIUS + _PAD), str(device.rank)))
    at += -(-len(one.devices) // _ACROSS) * (2 * _RADIUS + _PAD)
    for interface in one.interfaces:
        boxes.append(Box(left + _PAD, at, one.width - 2 * _PAD, _LINE, interface_text(interface)))
        at += _LINE + _PAD / 2
    for inside in one.inside:
        _draw(inside, left + _PAD, at, boxes, nodes)
        at += inside.height + _PAD


def _said(one: _Place) -> str:
    parts = [counted(len(one.devices), "device")] * bool(one.devices)
    parts += map(interface_text, one.interfaces)
    parts += [f"({_said(inside)})" for inside in one.inside]
    return f"{one.title}: {', '.join(parts)}"
