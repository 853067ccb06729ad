"""The time of a collective by algorithm: NCCL's model, in the form that measured runs are fitted
with.

Source of forms and constants: src/graph/tuning.cc of NCCL 2.30.7, and for the fill of a tree's
pipeline the model that 2.32 uses for new devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cclmark_planning.scale.algorithms import (
    DIRECT,
    HIERARCHICAL,
    NVLS_TREE,
    PAT,
    RING,
    TREE,
    Shape,
)

Array = npt.NDArray[np.float64]


class Protocol(NamedTuple):
    """A protocol of NCCL: the latency of a hop as a multiple of LL's, and what share of the
    bandwidth rings and trees have with it."""

    hop: float
    ring_share: float
    tree_share: float


_LL, _LL128, _SIMPLE = Protocol(1, 0.5, 1 / 3.8), Protocol(2, 0.92, 0.9), Protocol(4, 1, 1)
PROTOCOLS = (_LL, _LL128, _SIMPLE)
_PROTOCOL_HOPS = 2.0  # a latency of a link in hops of LL, of the protocols between
# A ring's latency counts more once a rank's part of a channel exceeds 64 bytes, of 16 channels.
_PLATEAU_BYTES = 64 * 16
# A tree's chunk is an eighth of the message, and at most 1 MiB of each of 16 channels; a doubling
# of the nodes adds two chunks, up and down.
_CHUNKS, _MOST_CHUNK_BYTES = 8, 16 << 20
# PAT: 2.8 µs for each rank, steps between nodes 1 / 3.5 of a hop, 0.75 of a ring's bandwidth.
_PAT_RANK_S, _PAT_STEPS, _PAT_SHARE = 2.8e-6, 3.5, 0.75
_NVLS_HOPS = 25 / 3.4  # the latency of NVLS within a node, in hops of protocol Simple

#: A tree's bandwidth within a node that is one of two or of more, as a share of that of one node.
TREE_CAPS = {
    "Volta": (18.5 / 26.5, 10 / 26.5),
    "Ampere": (23.6 / 24, 17.8 / 24),
    "Hopper": (41.4 / 38.7, 36 / 38.7),
    "Blackwell": (42.8 / 70, 24 / 70),
}
#: The same of NVLSTree, relative to two nodes.
NVLS_CAPS = {"Hopper": (1.0, 45.5 / 57.7), "Blackwell": (1.0, 80 / 96)}


@dataclass(frozen=True)
class Parameters:
    """What a machine's times follow from; arrays of one shape, for example [draws, 1].

    ``base_s``: of a call. ``node_hop_s``, ``hop_s``: of a transfer within a node and between nodes,
    with protocol LL. ``bps``: what a node sends to other nodes, ``node_bps``: the bus bandwidth
    within a node, in bytes/s. ``tree_share``: of a tree's bandwidth between nodes. ``fill``: of the
    fill of a tree's pipeline. ``plateau``: of a ring's latency with large messages.
    """

    base_s: Array
    node_hop_s: Array
    hop_s: Array
    bps: Array
    node_bps: Array
    tree_share: Array
    fill: Array
    plateau: Array

    @classmethod
    def of_logs(cls, logs: Array) -> Parameters:
        """From logarithms, [..., 8] in the order of the fields; each becomes [..., 1]."""
        return cls(*(np.exp(logs[..., place])[..., None] for place in range(logs.shape[-1])))


class Parts(NamedTuple):
    """Seconds that grow with the number of nodes, and those that hardly do."""

    growing: Array
    fixed: Array

    @property
    def whole(self) -> Array:
        """The time."""
        return self.growing + self.fixed


_Caps = tuple[float, float]
_Formula = Callable[[Parameters, Array, Shape, Protocol, _Caps], Parts]


def _bus(reduces_and_gathers: bool, ranks: int) -> float:
    return (2 if reduces_and_gathers else 1) * (ranks - 1) / ranks


def _ring(rounds: int) -> _Formula:
    """``rounds``: how often data pass around the ring, 2 of an all_reduce."""

    def parts(one: Parameters, size: Array, shape: Shape, by: Protocol, _: _Caps) -> Parts:
        nodes, per_node = shape
        within = rounds * nodes * (per_node - 1) * one.node_hop_s * by.hop
        if nodes == 1:
            moved = _bus(rounds == 2, shape.ranks) * size / (one.node_bps * by.ring_share)
            return Parts(0 * moved, one.base_s * math.sqrt(by.hop) + within + moved)
        bandwidth = np.minimum(one.bps, one.node_bps) * by.ring_share
        between = rounds * (nodes - 1) * one.hop_s * by.hop
        factor = np.where((size / shape.ranks >= _PLATEAU_BYTES) & (by == _SIMPLE), one.plateau, 1)
        moved = _bus(rounds == 2, shape.ranks) * size / bandwidth
        return Parts((within + between) * factor, one.base_s * math.sqrt(by.hop) + moved)

    return parts


def _tree(one: Parameters, size: Array, shape: Shape, by: Protocol, caps: _Caps) -> Parts:
    """A double binary tree, pipelined. Two nodes send half of what a node of more sends."""
    within = 2 * (shape.per_node - 1) * one.node_hop_s * by.hop
    return _treelike(one, size, shape, by, caps, within)


def _nvls_tree(one: Parameters, size: Array, shape: Shape, by: Protocol, caps: _Caps) -> Parts:
    return _treelike(one, size, shape, by, caps, _NVLS_HOPS * one.node_hop_s * by.hop)


def _treelike(
    one: Parameters, size: Array, shape: Shape, by: Protocol, caps: _Caps, within: Array
) -> Parts:
    moved = _bus(True, shape.ranks) * size
    fixed = one.base_s * math.sqrt(by.hop) + within
    if shape.nodes == 1:
        fixed = fixed + moved / (one.node_bps * by.tree_share)
        return Parts(0 * fixed, fixed)
    is_pair = shape.nodes == 2
    between = (2 if is_pair else 1) * one.bps * one.tree_share
    bandwidth = np.minimum(one.node_bps * caps[not is_pair], between) * by.tree_share
    chunk = np.minimum(size / _CHUNKS, _MOST_CHUNK_BYTES)
    doubling = 2 * one.hop_s * by.hop + one.fill * 2 * chunk / (bandwidth / 2)
    return Parts(math.log2(shape.nodes) * doubling + 0 * size, fixed + moved / bandwidth)


def _pat(one: Parameters, size: Array, shape: Shape, by: Protocol, _: _Caps) -> Parts:
    bandwidth = np.minimum(one.bps, one.node_bps) * _PAT_SHARE
    steps = math.log2(max(1, shape.nodes)) * one.hop_s * by.hop / _PAT_STEPS
    growing = steps + _PAT_RANK_S * shape.ranks + 0 * size
    return Parts(growing, one.base_s + _bus(False, shape.ranks) * size / bandwidth)


def _hierarchical(rounds: int) -> _Formula:
    """Within nodes, between the ranks of one place in all nodes by halving and doubling, and within
    nodes again (arXiv 2504.18658): each byte leaves a node once."""

    def parts(one: Parameters, size: Array, shape: Shape, by: Protocol, _: _Caps) -> Parts:
        nodes, per_node = shape
        moved = rounds * size * (per_node - 1) / per_node / one.node_bps
        moved = moved + rounds * size * (nodes - 1) / nodes / one.bps
        growing = rounds * math.log2(nodes) * one.hop_s * by.hop + 0 * size
        within = rounds * math.log2(max(2, per_node)) * one.node_hop_s * by.hop
        return Parts(growing, one.base_s * math.sqrt(by.hop) + within + moved / by.ring_share)

    return parts


def _chain(one: Parameters, size: Array, shape: Shape, by: Protocol, _: _Caps) -> Parts:
    """A pipeline through all ranks: the ring of broadcast and reduce."""
    nodes, per_node = shape
    bandwidth = np.minimum(one.bps, one.node_bps) if nodes > 1 else one.node_bps
    hops = (nodes - 1) * one.hop_s + nodes * (per_node - 1) * one.node_hop_s
    fixed = one.base_s * math.sqrt(by.hop) + size / (bandwidth * by.ring_share)
    return Parts(hops * by.hop + 0 * size, fixed)


def _pairs(one: Parameters, size: Array, shape: Shape, by: Protocol, _: _Caps) -> Parts:
    """Every rank to every rank at once: the part that leaves nodes shares their interfaces, and
    each message costs a hop within the node of the sender's time."""
    nodes, per_node = shape
    ranks = shape.ranks
    within = size * (per_node - 1) / ranks / one.node_bps
    between = size * (ranks - per_node) / ranks * per_node / one.bps if nodes > 1 else 0 * within
    growing = (ranks - 1) * one.node_hop_s + 0 * size
    hop = one.hop_s if nodes > 1 else one.node_hop_s
    moved = np.maximum(within, between) / by.ring_share
    return Parts(growing, one.base_s + hop * by.hop + moved)


def _neighbours(one: Parameters, size: Array, shape: Shape, by: Protocol, _: _Caps) -> Parts:
    """Each rank to the next: one rank of a node sends to another node, by its own interface."""
    bandwidth = one.node_bps
    hop = one.node_hop_s
    if shape.nodes > 1:
        bandwidth, hop = np.minimum(one.bps / shape.per_node, bandwidth), one.hop_s
    fixed = one.base_s + hop * by.hop + size / (bandwidth * by.ring_share)
    return Parts(0 * fixed, fixed)


_OF_A_ROUND = {RING: _ring(1), PAT: _pat, HIERARCHICAL: _hierarchical(1)}
_FORMULAS: Mapping[str, Mapping[str, _Formula]] = {
    "all_reduce": {
        **{RING: _ring(2), TREE: _tree, NVLS_TREE: _nvls_tree},
        HIERARCHICAL: _hierarchical(2),
    },
    **dict.fromkeys(("all_gather", "reduce_scatter"), _OF_A_ROUND),
    "broadcast": {RING: _chain},
    "reduce": {RING: _chain},
    "alltoall": {DIRECT: _pairs},
    "sendrecv": {DIRECT: _neighbours},
}


class CrossedLevel(NamedTuple):
    """A level of the network that is crossed: what a device achieves into it while all devices of
    its group of ``devices`` send, in bytes/s, and what its latency is longer by."""

    devices: int
    bps: float
    latency_s: float = 0.0


def _beyond(
    one: Parameters, algorithm: str, shape: Shape, levels: Sequence[CrossedLevel]
) -> Parameters:
    """The parameters through levels: what a node sends to others is limited by them.

    Through the nodes in their order, a ring enters and leaves a group once with what a node sends,
    a double tree about twice. In an alltoall, all devices of a group send to all others; as many
    cross a level in the other algorithms at most.
    """
    for level in levels:
        group = min(level.devices, shape.ranks)
        if algorithm in (RING, TREE, NVLS_TREE):
            limit = group * level.bps / (1 if algorithm == RING else 2)
            hops = min(1.0, shape.per_node / group) if algorithm == RING else 1.0
        else:
            apart = shape.ranks - (group if algorithm == DIRECT else shape.per_node)
            all_apart = shape.ranks - shape.per_node
            limit = shape.per_node * level.bps * (all_apart / apart if apart else np.inf)
            hops = 1.0
        one = replace(
            one,
            bps=np.minimum(one.bps, limit),
            hop_s=one.hop_s + level.latency_s * hops / _PROTOCOL_HOPS,
        )
    return one


@dataclass(frozen=True)
class AlgorithmModel:
    """A hypothesis: the fastest of ``algorithms`` runs. ``architecture``: of TREE_CAPS."""

    operation: str
    algorithms: tuple[str, ...]
    architecture: str = ""

    @property
    def name(self) -> str:
        """The hypothesis in words: ``fastest of ring and tree``."""
        words = " and ".join(self.algorithms)
        return words if len(self.algorithms) == 1 else f"fastest of {words}"

    def parts(
        self, one: Parameters, size: Array, shape: Shape, levels: Sequence[CrossedLevel] = ()
    ) -> list[Parts]:
        """Of each algorithm, with its fastest protocol: arrays [..., sizes].

        ``levels``: those between the nodes that the parameters do not have.
        """
        return [
            self._fastest(name, _beyond(one, name, shape, levels), size, shape)
            for name in self.algorithms
        ]

    def _fastest(self, name: str, one: Parameters, size: Array, shape: Shape) -> Parts:
        formula = _FORMULAS[self.operation][name]
        table = NVLS_CAPS if name == NVLS_TREE else TREE_CAPS
        caps = table.get(self.architecture, table["Hopper"])
        best: Parts | None = None
        for protocol in PROTOCOLS if name != NVLS_TREE else (_SIMPLE,):
            found = formula(one, size, shape, protocol, caps)
            if best is None:
                best = found
                continue
            is_faster = found.whole < best.whole
            best = Parts(
                np.where(is_faster, found.growing, best.growing),
                np.where(is_faster, found.fixed, best.fixed),
            )
        assert best is not None
        return best

    def time_s(
        self,
        one: Parameters,
        size: Array,
        shape: Shape,
        growing: Array | float = 1.0,
        fixed: Array | float = 1.0,
        levels: Sequence[CrossedLevel] = (),
    ) -> Array:
        """The time in seconds, with a factor for each of the two parts."""
        every = self.parts(one, size, shape, levels)
        times: Array = np.minimum.reduce([growing * p.growing + fixed * p.fixed for p in every])
        return times
