"""The algorithms of collectives that are modelled, and what a node sends to others with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

RING, TREE, NVLS_TREE, PAT = "ring", "tree", "NVLSTree", "PAT"
HIERARCHICAL, DIRECT = "hierarchical", "direct"


class Shape(NamedTuple):
    """``nodes`` of ``per_node`` ranks each, one rank for each device."""

    nodes: int
    per_node: int

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.nodes * self.per_node


def _rounds(number: int) -> dict[str, _Sent]:
    """By algorithm. ``number``: how often each byte passes through all nodes."""
    return {
        RING: lambda size, shape: number * size * (shape.ranks - 1) / shape.ranks,
        HIERARCHICAL: lambda size, shape: number * size * (shape.nodes - 1) / shape.nodes,
    }


def _up_and_down(size: float, shape: Shape) -> float:
    return size * (1 if shape.nodes == 2 else 2)


def _to_all(size: float, shape: Shape) -> float:
    return shape.per_node * size * (shape.ranks - shape.per_node) / shape.ranks


_Sent = Callable[[float, Shape], float]
_OF_TWO_ROUNDS = {**_rounds(2), TREE: _up_and_down, NVLS_TREE: _up_and_down}
_OF_A_ROUND = {**_rounds(1), PAT: _rounds(1)[RING]}
_OF_A_CHAIN: dict[str, _Sent] = {RING: lambda size, shape: size}
_SENT: Mapping[str, Mapping[str, _Sent]] = {
    "all_reduce": {name: _OF_TWO_ROUNDS[name] for name in (RING, TREE, NVLS_TREE, HIERARCHICAL)},
    "all_gather": {name: _OF_A_ROUND[name] for name in (RING, PAT, HIERARCHICAL)},
    "reduce_scatter": {name: _OF_A_ROUND[name] for name in (RING, PAT, HIERARCHICAL)},
    "broadcast": _OF_A_CHAIN,
    "reduce": _OF_A_CHAIN,
    "alltoall": {DIRECT: _to_all},
    "sendrecv": {DIRECT: lambda size, shape: size},
}
#: The modelled algorithms by operation; others have no model.
ALGORITHMS: Mapping[str, tuple[str, ...]] = {name: tuple(sent) for name, sent in _SENT.items()}


def wire_bytes(operation: str, algorithm: str, size_bytes: float, shape: Shape) -> float:
    """What a node sends to other nodes in an operation, with one rank for each device.

    A flat ring sends as much as a rank sends to the next one; hierarchical algorithms send each
    byte once in a round, trees of two nodes too, trees of more nodes twice: to the parent and to
    the children (P. Sanders et al., Two-tree algorithms, 2009). Raises KeyError for an algorithm
    that the operation does not have.
    """
    return 0.0 if shape.nodes == 1 else _SENT[operation][algorithm](size_bytes, shape)
