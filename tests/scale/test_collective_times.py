import math
from itertools import pairwise

import pytest

from cclmark_planning.scale.algorithms import ALGORITHMS, Shape, wire_bytes

np = pytest.importorskip("numpy")

from cclmark_planning.scale.collective_times import AlgorithmModel, Parameters  # noqa: E402

LARGE = np.array([8 * 2.0**30])
SMALL = np.array([8.0])


def parameters(**changed):
    usual = {
        **{"base_s": 7e-6, "node_hop_s": 0.7e-6, "hop_s": 5e-6, "bps": 360e9, "node_bps": 450e9},
        **{"tree_share": 1.0, "fill": 0.7, "plateau": 1.0},
    }
    return Parameters(**{name: np.array([value]) for name, value in (usual | changed).items()})


def time_s(operation, algorithm, size, nodes, per_node=8, **changed):
    model = AlgorithmModel(operation, (algorithm,), "Hopper")
    return float(model.time_s(parameters(**changed), size, Shape(nodes, per_node))[0])


def busbw(nodes, algorithm, **changed):
    ranks = nodes * 8
    return (
        LARGE[0]
        * 2
        * (ranks - 1)
        / ranks
        / time_s("all_reduce", algorithm, LARGE, nodes, **changed)
    )


@pytest.mark.parametrize("nodes", [2, 4, 64])
def test_a_ring_has_the_bandwidth_of_the_network(nodes):
    assert busbw(nodes, "ring", hop_s=1e-9, node_hop_s=1e-9) == pytest.approx(360e9, rel=1e-3)


def test_latency_is_linear_with_rings_and_logarithmic_with_trees():
    rings = [time_s("all_reduce", "ring", SMALL, nodes) for nodes in (2, 4, 6)]
    assert rings[2] - rings[1] == pytest.approx(rings[1] - rings[0], rel=1e-4)
    trees = [time_s("all_reduce", "tree", SMALL, nodes) for nodes in (2, 4, 8)]
    assert trees[2] - trees[1] == pytest.approx(trees[1] - trees[0], rel=1e-4)
    # Twice a hop for each doubling, up and down.
    assert trees[1] - trees[0] == pytest.approx(2 * 5e-6, rel=1e-3)


def test_a_ring_has_as_many_hops_as_nccl_counts():
    """Between nodes 2 (N - 1), within them 2 N (p - 1): tuning.cc of NCCL 2.30.7."""
    found = time_s("all_reduce", "ring", SMALL, 4, base_s=1e-12)
    assert found == pytest.approx(2 * 3 * 5e-6 + 2 * 4 * 7 * 0.7e-6, rel=1e-3)
    assert time_s("all_gather", "ring", SMALL, 4, base_s=1e-12) == pytest.approx(
        found / 2, rel=1e-3
    )


def test_a_tree_of_two_nodes_exceeds_the_wire():
    slow = {"bps": 200e9, "node_bps": 450e9, "hop_s": 1e-9, "node_hop_s": 1e-9}
    assert busbw(2, "tree", **slow) == pytest.approx(400e9, rel=0.02)
    assert busbw(4, "tree", **slow) == pytest.approx(200e9, rel=0.02)


@pytest.mark.parametrize("operation", ALGORITHMS)
def test_more_nodes_and_larger_messages_take_no_less_time(operation):
    sizes = np.array([8.0, 2.0**16, 2.0**20, 2.0**26, 2.0**33])
    for algorithm in ALGORITHMS[operation]:
        model = AlgorithmModel(operation, (algorithm,), "Hopper")
        rows = [model.time_s(parameters(), sizes, Shape(n, 8)) for n in (3, 4, 8, 64, 512)]
        assert all((later >= earlier * (1 - 1e-9)).all() for earlier, later in pairwise(rows))
        assert all((np.diff(row) >= -1e-12).all() for row in rows)


def test_a_hypothesis_is_the_fastest_of_its_algorithms():
    sizes = np.array([8.0, 2.0**20, 2.0**30])
    both = AlgorithmModel("all_reduce", ("ring", "tree"), "Hopper")
    alone = [AlgorithmModel("all_reduce", (name,), "Hopper") for name in both.algorithms]
    times = [one.time_s(parameters(), sizes, Shape(64, 8)) for one in alone]
    assert both.time_s(parameters(), sizes, Shape(64, 8)) == pytest.approx(np.minimum(*times))
    assert both.name == "fastest of ring and tree"
    with pytest.raises(KeyError):
        AlgorithmModel("broadcast", ("tree",)).time_s(parameters(), sizes, Shape(4, 8))


def test_what_leaves_a_node():
    size, shape = 1024.0, Shape(2, 8)
    assert wire_bytes("all_reduce", "ring", size, shape) == size * 2 * 15 / 16
    assert wire_bytes("all_reduce", "hierarchical", size, shape) == size
    assert wire_bytes("all_reduce", "tree", size, shape) == size
    assert wire_bytes("all_reduce", "tree", size, Shape(4, 8)) == 2 * size
    assert wire_bytes("alltoall", "direct", size, shape) == 8 * size * 8 / 16
    assert wire_bytes("all_reduce", "ring", size, Shape(1, 8)) == 0
    # At least busbw x (n - k) / (n - 1) for every hierarchical algorithm.
    ranks, share = 32, (32 - 8) / (32 - 1)
    bus = size * 2 * (ranks - 1) / ranks
    assert math.isclose(wire_bytes("all_reduce", "hierarchical", size, Shape(4, 8)), bus * share)
