"""Drawings of ranks and their connections, by host: coordinates for the template of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        by_host: dict[str, list[int]] = {}
        for rank, host in host_of.items():
            by_host.setdefault(host, []).append(rank)
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
