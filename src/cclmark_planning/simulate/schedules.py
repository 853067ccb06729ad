"""The algorithms of collectives as steps of flows between devices.

Identical steps are one ``FlowStep``, of which all but the first are multiplied, not simulated.
Sizes are those of nccl-tests: of all_gather, reduce_scatter and alltoall the total of a rank.

- ``ring``: NCCL's rings, one for each device of a node, which leave the node at different devices.
- ``rail``: rings that enter and leave nodes at devices of the same place.
- ``hierarchical``: ring within nodes, rings between devices of the same place, ring within nodes.
  alltoall: first to the device of the target's place in the own node. On a whole torus: rings of
  one dimension after the other, in both directions.
- ``tree``: NCCL's double binary tree over nodes, chains within, pipelined.
- ``pat``: parallel aggregated trees of NCCL, for one device in a node.
- ``nvls``: switches of nodes reduce and copy, rails between nodes, all at once.
- ``in-network``: as nvls, and the switches between nodes reduce too (SHARP).
- ``direct``: every rank sends to all others at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import numpy as np

from cclmark.base.errors import UsageError
from cclmark.work.fabric_topology import TORUS
from cclmark_planning.simulate.graph import Fabric, SwitchedFabric

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
ALLTOALL, ALLTOALLV = "alltoall", "alltoallv"
OPERATIONS = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALLTOALL, ALLTOALLV)
RING, RAIL_RING, HIERARCHICAL, TREE = "ring", "rail", "hierarchical", "tree"
PAT, NVLS, IN_NETWORK, DIRECT = "pat", "nvls", "in-network", "direct"
#: By algorithm: the operations that it performs.
ALGORITHMS = {
    RING: (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER),
    RAIL_RING: (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER),
    HIERARCHICAL: (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALLTOALL),
    TREE: (ALL_REDUCE,),
    PAT: (ALL_GATHER, REDUCE_SCATTER),
    DIRECT: (ALLTOALL, ALLTOALLV),
    NVLS: (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER),
    IN_NETWORK: (ALL_REDUCE,),
}
#: Require switches that reduce: simulated where they are asked for.
OF_SWITCHES = (NVLS, IN_NETWORK)


@dataclass(frozen=True)
class FlowStep:
    """Flows that begin together, ``repeat`` times one after the other.

    ``sources``, ``targets``: devices; ``counts``: how many equal flows each is, ``size_bytes``: of
    one flow, a number or one for each. ``passes``: how often the latency of a flow counts in all
    repetitions, on the way that data take; None: the longest counts in each. ``links``: in place of
    devices, a link for each flow. ``exchange``: in place of flows, [ranks, groups]: the ranks of a
    group all send ``size_bytes`` to each other. ``is_pipelined``: flows advance in proportion to
    their sizes. ``is_beside``: the step runs together with the one before, in a pipeline.
    """

    name: str
    size_bytes: Any
    repeat: int = 1
    sources: Any = None
    targets: Any = None
    counts: Any = None
    passes: Any = None
    links: Any = None
    exchange: Any = None
    is_pipelined: bool = False
    is_beside: bool = False


def steps_of(
    algorithm: str, operation: str, fabric: Fabric, members: Any, size_bytes: float
) -> list[FlowStep]:
    """The steps of a collective of ``members``, devices in the order of their ranks.

    Raises UsageError for an algorithm that does not perform the operation on this layout.
    """
    if operation not in ALGORITHMS[algorithm]:
        able = [name for name, operations in ALGORITHMS.items() if operation in operations]
        raise UsageError(f"{algorithm} does not perform {operation}: choose from {', '.join(able)}")
    if algorithm == DIRECT:
        size = size_bytes / len(members)
        return [FlowStep("to all others", size, exchange=members[:, None])]
    nodes = _by_node(fabric, members)
    return _BUILDERS[algorithm](operation, fabric, nodes, size_bytes)


def usual_algorithms(operation: str, fabric: Fabric, members: Any) -> list[str]:
    """The algorithms that perform the operation on this layout, without those of switches."""
    found = []
    for name, operations in ALGORITHMS.items():
        if operation in operations and name not in OF_SWITCHES:
            try:
                steps_of(name, operation, fabric, members, float(len(members)))
            except UsageError:
                continue
            found.append(name)
    return found


def matrix_step(members: Any, rows_bytes: Any) -> FlowStep:
    """The step of an alltoallv. ``rows_bytes``: [senders, receivers], in bytes."""
    rows, columns = np.nonzero(rows_bytes)
    kept = rows != columns
    rows, columns = rows[kept], columns[kept]
    return FlowStep(
        "to all others",
        rows_bytes[rows, columns],
        sources=members[rows],
        targets=members[columns],
        counts=np.ones(len(rows)),
    )


def _by_node(fabric: Fabric, members: Any) -> Any:
    """The members as [nodes, devices of a node]. Raises UsageError if nodes differ in number."""
    numbers = members // fabric.per_node
    unique, firsts, counts = np.unique(numbers, return_index=True, return_counts=True)
    width = int(counts[0])
    if (counts != width).any():
        fewest = int(counts.min())
        raise UsageError(
            f"nodes have {fewest} to {int(counts.max())} ranks, which only direct alltoalls "
            f"cover: choose as many devices of each node, for example --ranks "
            f"{len(unique) * fewest}"
        )
    order = unique[np.argsort(firsts)]
    places = {int(number): place for place, number in enumerate(order.tolist())}
    place = np.array([places[int(number)] for number in numbers.tolist()])
    return members[np.argsort(place, kind="stable")].reshape(-1, width)


def _halves(operation: str) -> int:
    """Passes of the data: an all_reduce is a reduce_scatter and an all_gather."""
    return 2 if operation == ALL_REDUCE else 1


def _flows(pairs: Sequence[tuple[Any, Any, float]]) -> tuple[Any, Any, Any]:
    """Sources, targets and counts of flows: pairs of arrays, with the number of equal flows."""
    used = [
        (one.ravel(), other.ravel(), count) for one, other, count in pairs if count and one.size
    ]
    return (
        np.concatenate([one for one, _, _ in used]),
        np.concatenate([other for _, other, _ in used]),
        np.concatenate([np.full(one.size, float(count)) for one, _, count in used]),
    )


def _chain(
    name: str, size: float, repeat: int, pairs: Sequence[tuple[Any, Any, float]]
) -> FlowStep:
    """Identical steps of rings: data pass the links of all flows in turn, so that the mean of
    their latencies counts."""
    sources, targets, counts = _flows(pairs)
    passes = repeat * counts / counts.sum()
    return FlowStep(name, size, repeat, sources, targets, counts, passes)


def _ring(operation: str, fabric: Fabric, nodes: Any, size_bytes: float) -> list[FlowStep]:
    ranks, width = nodes.size, nodes.shape[1]
    repeat = _halves(operation) * (ranks - 1)
    if fabric.topology.family == TORUS and ranks == fabric.devices:
        nodes = nodes[_snake(fabric.topology.shape)]
    following = np.roll(nodes, -1, axis=1)
    if len(nodes) == 1:
        return [_chain("ring", size_bytes / ranks, repeat, [(nodes, following, 1)])]
    pairs = [
        (nodes, following, width - 1.0),
        (np.roll(nodes, 1, axis=1), np.roll(nodes, -1, axis=0), 1.0),
    ]
    return [_chain("rings", size_bytes / ranks / width, repeat, pairs)]


def _snake(shape: Sequence[int]) -> Any:
    """The devices of a torus in an order in which each is beside the one before."""
    order = np.zeros(1, int)
    stride = 1
    for size in shape:
        order = np.concatenate(
            [(order if place % 2 == 0 else order[::-1]) + place * stride for place in range(size)]
        )
        stride *= size
    return order


def _rail_rings(operation: str, fabric: Fabric, nodes: Any, size_bytes: float) -> list[FlowStep]:
    ranks, width = nodes.size, nodes.shape[1]
    if width == 1 or len(nodes) % 2:
        raise UsageError(
            f"rail rings pass nodes in both directions in turn: {len(nodes)} nodes of {width} "
            "ranks have none; choose an even number of nodes with several ranks, or ring"
        )
    even, odd = nodes[::2], nodes[1::2]
    pairs = [
        (even, np.roll(even, -1, axis=1), width - 1.0),
        (odd, np.roll(odd, 1, axis=1), width - 1.0),
        (nodes, np.roll(nodes, -1, axis=0), 1.0),
    ]
    repeat = _halves(operation) * (ranks - 1)
    return [_chain("rings", size_bytes / ranks / width, repeat, pairs)]


def _hierarchical(operation: str, fabric: Fabric, nodes: Any, size_bytes: float) -> list[FlowStep]:
    if fabric.topology.family == TORUS and nodes.size == fabric.devices and operation != ALLTOALL:
        return _dimensions(operation, fabric, nodes.ravel(), size_bytes)
    count, width = nodes.shape
    if count == 1 or width == 1:
        raise UsageError(
            f"hierarchical requires several nodes of several ranks: there are {count} of {width}"
        )
    if operation == ALLTOALL:
        size = size_bytes / nodes.size
        shifts = [(nodes, np.roll(nodes, -shift, axis=1), 1.0) for shift in range(1, width)]
        return [
            FlowStep("in nodes", size * count, 1, *_flows(shifts)),
            FlowStep("between nodes", size * width, exchange=nodes),
        ]
    own = [(nodes, np.roll(nodes, -1, axis=1), 1.0)]
    between = [(nodes, np.roll(nodes, -1, axis=0), 1.0)]
    reduce = _chain("reduce in nodes", size_bytes / width, width - 1, own)
    gather = _chain("gather in nodes", size_bytes / width, width - 1, own)
    repeat = _halves(operation) * (count - 1)
    rails = _chain("between nodes", size_bytes / nodes.size, repeat, between)
    return {
        ALL_REDUCE: [reduce, rails, gather],
        ALL_GATHER: [rails, gather],
        REDUCE_SCATTER: [reduce, rails],
    }[operation]


def _dimensions(operation: str, fabric: Fabric, members: Any, size_bytes: float) -> list[FlowStep]:
    """Rings of each dimension of a torus, half of the data in each direction."""
    shape = fabric.topology.shape
    grid = np.arange(fabric.devices).reshape(shape[::-1])
    steps = []
    for place, size in enumerate(shape):
        if size > 1:
            axis = len(shape) - 1 - place
            pairs = [(grid, np.roll(grid, shift, axis=axis), 1.0) for shift in (-1, 1)]
            share = size_bytes / prod(shape[: place + 1]) / 2
            steps.append(_chain(f"dimension {'xyzw'[place]}", share, size - 1, pairs))
    if operation == ALL_GATHER:
        return steps[::-1]
    return steps if operation == REDUCE_SCATTER else [*steps, *steps[::-1]]


def _tree(operation: str, fabric: Fabric, nodes: Any, size_bytes: float) -> list[FlowStep]:
    count, width = nodes.shape
    sources, targets, sizes, passes = [], [], [], []

    def both_ways(one: Any, other: Any, size: float, hops: float) -> None:
        for begin, end in ((one, other), (other, one)):
            sources.append(begin.ravel())
            targets.append(end.ravel())
            sizes.append(np.full(one.size, size))
            passes.append(np.full(one.size, hops / one.size))

    if width > 1:
        # A chain for each device of a node, from the device behind it round to itself.
        size = size_bytes / width * (width - 1)
        both_ways(np.roll(nodes, -1, axis=1), nodes, size, width - 1)
    if count > 1:
        depth = ceil(np.log2(count))
        for parents in _double_tree(count):
            children = np.flatnonzero(parents >= 0)
            # Half of the data take each tree, whose latencies are equal: half counts for each.
            both_ways(nodes[children], nodes[parents[children]], size_bytes / width / 2, depth / 2)
    flows = np.concatenate(sources)
    return [
        FlowStep(
            "trees",
            np.concatenate(sizes),
            sources=flows,
            targets=np.concatenate(targets),
            counts=np.ones(len(flows)),
            passes=np.concatenate(passes),
            is_pipelined=True,
        )
    ]


def _double_tree(count: int) -> tuple[Any, Any]:
    """The parents of nodes in both trees, -1 for a root (NCCL, graph/trees.cc, ncclGetDtree)."""
    number = np.arange(count)
    bit = number & -number
    up = (number ^ bit) | (bit << 1)
    first = np.where(up >= count, number ^ bit, up)
    first[0] = -1
    if count % 2:
        second = np.where(np.roll(first, 1) >= 0, (np.roll(first, 1) + 1) % count, -1)
    else:
        mirrored = first[::-1]
        second = np.where(mirrored >= 0, count - 1 - mirrored, -1)
    return first, second


def _pat(operation: str, fabric: Fabric, nodes: Any, size_bytes: float) -> list[FlowStep]:
    ranks = nodes.size
    if nodes.shape[1] > 1:
        raise UsageError(
            f"NCCL has pat for one rank in a node, and there are {nodes.shape[1]}: choose ring or "
            "hierarchical"
        )
    order = nodes.ravel()
    steps = []
    for power in reversed(range(ceil(np.log2(ranks)))):
        distance = 1 << power
        chunks = ceil((ranks - distance) / (2 * distance))
        flows = _flows([(order, np.roll(order, -distance), 1.0)])
        steps.append(FlowStep(f"distance {distance}", size_bytes / ranks * chunks, 1, *flows))
    return steps if operation == ALL_GATHER else steps[::-1]


def _nvls(operation: str, fabric: Fabric, nodes: Any, size_bytes: float) -> list[FlowStep]:
    """Each device reduces its share of the data, which all of the node send to it through the
    switch as one, and the switch copies its result to all of them."""
    count, width = nodes.shape
    into, out_of = _switched(fabric).node_links(nodes.ravel())
    whole, share = size_bytes, size_bytes / width
    sent, received = {
        ALL_REDUCE: (whole + share, whole + share),
        REDUCE_SCATTER: (whole, share),
        ALL_GATHER: (share, whole),
    }[operation]
    if width == 1:
        raise UsageError("nvls requires nodes of several ranks: choose ring or tree")
    links = np.concatenate([into, out_of])
    # Data go through the switch once to be reduced, and once to be copied.
    passes = np.full(len(links), 2.0 * _halves(operation) / len(links))
    sizes = np.repeat(np.array([sent, received]), nodes.size)
    counts = np.ones(len(links))
    step = FlowStep("nvls", sizes, counts=counts, passes=passes, links=links, is_pipelined=True)
    if count == 1:
        return [step]
    rails = _hierarchical(operation, fabric, nodes, size_bytes)
    between = next(one for one in rails if one.name == "between nodes")
    return [step, replace(between, is_beside=True)]


def _in_network(operation: str, fabric: Fabric, nodes: Any, size_bytes: float) -> list[FlowStep]:
    count, width = nodes.shape
    if count == 1:
        raise UsageError("in-network reduction is between nodes, and there is one: choose nvls")
    switched = _switched(fabric)
    links = np.concatenate([switched.reduced_links(nodes[:, place]) for place in range(width)])
    firsts = [section.first for section in fabric.sections]
    section = np.searchsorted(firsts, links, side="right")
    passes = 2.0 / np.bincount(section)[section]  # once up and down at each level
    size, counts = size_bytes / width, np.ones(len(links))
    step = FlowStep("in-network", size, counts=counts, passes=passes, links=links)
    if width == 1:
        return [step]
    return [_nvls(operation, fabric, nodes, size_bytes)[0], replace(step, is_beside=True)]


def _switched(fabric: Fabric) -> SwitchedFabric:
    if not isinstance(fabric, SwitchedFabric):
        raise UsageError(f"{fabric.topology.family} has no switches that reduce: choose ring")
    return fabric


_BUILDERS: dict[str, Callable[[str, Fabric, Any, float], list[FlowStep]]] = {
    RING: _ring,
    RAIL_RING: _rail_rings,
    HIERARCHICAL: _hierarchical,
    TREE: _tree,
    PAT: _pat,
    NVLS: _nvls,
    IN_NETWORK: _in_network,
}
