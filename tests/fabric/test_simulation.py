"""Simulated collectives beside closed forms, and what impairments cost."""

import json

import numpy as np
import pytest

from cclmark.base.errors import UsageError
from cclmark.work.fabric_topology import parse_topology
from cclmark_planning.simulate.graph import (
    EVEN,
    HASH,
    Efficiency,
    Impairments,
    all_pairs,
    fabric_of,
)
from cclmark_planning.simulate.schedules import ALGORITHMS, OPERATIONS, steps_of, usual_algorithms
from cclmark_planning.simulate.simulation import FabricJob, SimulationError, least_time, simulate
from goldens import refusal, require_outcomes
from places import TESTS

SIZE = 1e9
NVLINK_BPS, NIC_BPS, TORUS_BPS = 450e9, 50e9, 50e9
NODE_S, NET_S = 3.4e-6, 14e-6


def fabric(text, routing=EVEN, **impairments):
    return fabric_of(parse_topology(text), routing, Efficiency(), Impairments(**impairments))


def job(net, operation, algorithm, members=None, size=SIZE, rows=None):
    members = np.arange(net.devices) if members is None else np.asarray(members)
    return FabricJob(operation, algorithm, size, members, rows)


def time_of(net, *args, **kwargs):
    return simulate(net, job(net, *args, **kwargs)).time_s


def transfer_of(net, *args, neighbours=(), **kwargs):
    """The time of the first phase without latencies."""
    return simulate(net, job(net, *args, **kwargs), neighbours).phases[0].transfer_s


# Without contention: Thakur et al., IJHPCA 2005; one leaf switch, so that all latencies are equal.
CLOSED = {
    ("nvlink:8", "all_reduce", "ring"): 14 / 8 * SIZE / NVLINK_BPS + 14 * NODE_S,
    ("nvlink:8", "all_gather", "ring"): 7 / 8 * SIZE / NVLINK_BPS + 7 * NODE_S,
    ("nvlink:8", "alltoall", "direct"): 7 / 8 * SIZE / NVLINK_BPS + NODE_S,
    # Each device sends all of its data to the switch, and its result (NVLS).
    ("nvlink:8", "all_reduce", "nvls"): 9 / 8 * SIZE / NVLINK_BPS + 2 * NODE_S,
    ("fat-tree:32x1", "all_reduce", "ring"): 62 / 32 * SIZE / NIC_BPS + 62 * NET_S,
    # Each of two trees has half of the data, and a node of it two children.
    ("fat-tree:32x1", "all_reduce", "tree"): 2 * SIZE / NIC_BPS + 10 * NET_S,
    ("fat-tree:32x1", "reduce_scatter", "pat"): 31 / 32 * SIZE / NIC_BPS + 5 * NET_S,
    ("fat-tree:4x8", "all_reduce", "ring"): 62 / 32 * SIZE / 8 / NIC_BPS
    + 62 * (28 * NODE_S + 4 * NET_S) / 32,
    ("fat-tree:4x8", "all_reduce", "hierarchical"): 14 / 8 * SIZE / NVLINK_BPS
    + 14 * NODE_S
    + 6 / 4 * SIZE / 8 / NIC_BPS
    + 6 * NET_S,
    ("fat-tree:4x8", "alltoall", "direct"): 24 / 32 * SIZE / NIC_BPS + NET_S,
    ("fat-tree:4x8", "all_reduce", "in-network"): max(9 / 8 * SIZE / NVLINK_BPS, SIZE / 8 / NIC_BPS)
    + 2 * NODE_S
    + NET_S,
    # Rings in both directions of each dimension; a hop of a router takes 0.5 µs.
    ("torus:4x4", "all_reduce", "hierarchical"): 2
    * (3 / 4 * SIZE / 2 / TORUS_BPS + 3 / 4 * SIZE / 4 / 2 / TORUS_BPS + 6 * (NODE_S + 0.5e-6)),
}


@pytest.mark.parametrize("case", CLOSED, ids=" ".join)
def test_times_are_closed_forms_without_contention(case):
    text, operation, algorithm = case
    assert time_of(fabric(text), operation, algorithm) == pytest.approx(CLOSED[case], rel=1e-3)


def test_an_oversubscribed_fabric_slows_an_alltoall_down_by_what_crosses_it():
    one, four = (
        transfer_of(fabric(f"fat-tree:64x8,oversub={over}"), "alltoall", "direct")
        for over in (1, 4)
    )
    # 480 of 511 peers are below other leaf switches, and all 504 of other nodes use the interface.
    assert one == pytest.approx(504 / 512 * SIZE / NIC_BPS)
    assert four == pytest.approx(480 / 512 * SIZE / (NIC_BPS / 4))


EXCHANGES = (
    *("nvlink:8", "rail:16x4,leaf=4", "rail:16x4,leaf=2,pod=4", "fat-tree:16x1,leaf=4"),
    *("fat-tree:32x4,leaf=2,pod=8,oversub=2", "dragonfly:4x3x2x2", "dragonfly:9x8x1x1"),
    *("torus:4x6x3", "torus:2x5", "torus:7"),
)


@pytest.mark.parametrize("text", EXCHANGES)
def test_flows_counted_by_groups_are_those_routed_one_by_one(text):
    net = fabric(text)
    members = np.sort(np.random.default_rng(7).permutation(net.devices)[: net.devices * 3 // 4])
    groups = members[: len(members) // 2 * 2].reshape(-1, 1 if text.startswith("torus") else 2)
    routed, routed_s = net.routed_exchange(groups)
    counted, counted_s = net.exchange_loads(groups)
    assert counted.tolist() == pytest.approx(routed.tolist())
    assert counted_s == pytest.approx(routed_s)


@pytest.mark.parametrize("routing", ["even", "hash"])
@pytest.mark.parametrize("text", EXCHANGES)
def test_routes_begin_and_end_at_their_devices(text, routing):
    net = fabric(text, routing)
    sources, targets = next(all_pairs(np.arange(net.devices)))
    routes = net.routes(sources, targets)
    for row in range(0, len(sources), max(1, len(sources) // 200)):
        ends = [
            net.link_name(link).split(".")[0].split("-") for link in routes.links[row] if link >= 0
        ]
        assert ends[0][0] == f"gpu{sources[row]}"
        assert f"gpu{targets[row]}" in [end[1] for end in ends]
    # What enters a device in all is what leaves it, of all flows.
    loads = net.loads(routes, np.ones(len(sources)))
    assert loads.sum() > len(sources)


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one != "alltoallv"])
@pytest.mark.parametrize("text", ["rail:4x4", "fat-tree:16x2,oversub=2", "torus:4x4", "nvlink:8"])
def test_every_algorithm_moves_what_the_operation_requires(text, operation):
    net = fabric(text)
    members = np.arange(net.devices)
    found = usual_algorithms(operation, net, members)
    assert found
    for algorithm in found:
        done = simulate(net, job(net, operation, algorithm))
        assert done.time_s > done.bound_s > 0
        out_of_devices = sum(
            done.loads_bytes[section.first : section.first + net.devices].sum()
            for section in net.sections
            if section.label.startswith("gpu-")
        )
        if net.topology.family != "torus":
            halves = 2 if operation == "all_reduce" else 1
            assert out_of_devices >= halves * (net.devices - 1) * SIZE * (1 - 1e-9)


def test_a_time_below_the_law_of_the_link_is_an_error(monkeypatch):
    net = fabric("nvlink:8")
    law_s = least_time(net, job(net, "all_reduce", "ring"))
    assert law_s == pytest.approx(14 / 8 * SIZE / NVLINK_BPS)
    net.capacity_bps = net.capacity_bps * 2
    with pytest.raises(SimulationError, match="it cannot take less than"):
        time_of(net, "all_reduce", "ring")


def test_a_slow_link_costs_what_its_flows_wait():
    usual = time_of(fabric("fat-tree:64x8"), "all_reduce", "ring")
    slow = time_of(fabric("fat-tree:64x8", slow={"gpu7-leaf": 0.5}), "all_reduce", "ring")
    nic_s = 2 * 511 / 512 * SIZE / 8 / NIC_BPS
    assert slow - usual == pytest.approx(nic_s, rel=1e-3)
    # Packets go over all uplinks: one at half rate halves them. Adaptive routes avoid it.
    even, adaptive = (
        transfer_of(
            fabric("fat-tree:64x8", routing, slow={"leaf3-spine.5": 0.5}), "alltoall", "direct"
        )
        for routing in ("even", "adaptive")
    )
    assert even == pytest.approx(480 / 512 * SIZE / (NIC_BPS / 2))
    assert adaptive == pytest.approx(504 / 512 * SIZE / NIC_BPS)


def test_a_broken_interface_loads_that_of_the_next_device():
    for text in ("fat-tree:4x8", "rail:4x8"):
        usual = time_of(fabric(text), "all_reduce", "hierarchical")
        broken = time_of(fabric(text, broken=["gpu7-leaf"]), "all_reduce", "hierarchical")
        assert broken - usual == pytest.approx(6 / 4 * SIZE / 8 / NIC_BPS, rel=0.01), text
    net = fabric("fat-tree:2x2", broken=["gpu1-leaf"])
    route = net.routes(np.array([1]), np.array([3])).links[0]
    names = [net.link_name(link) for link in route if link >= 0]
    assert names == ["gpu1-node", "node-gpu0", "gpu0-leaf", "leaf-gpu3"]


@pytest.mark.parametrize("text", ["torus:4x4", "torus:16x16", "torus:4x16", "torus:8x4x2"])
def test_the_halves_of_a_torus_limit_an_alltoall(text):
    """A half of n devices sends n²/4 parts of the size over n, by two links of each line."""
    net = fabric(text)
    bps = 2 * net.devices / max(net.shape) * TORUS_BPS
    law_s = least_time(net, job(net, "alltoall", "direct"))
    assert law_s == pytest.approx(net.devices / 4 * SIZE / bps)
    assert transfer_of(net, "alltoall", "direct") == pytest.approx(law_s, rel=1e-6)


def test_hashed_flows_avoid_broken_links_and_share_others():
    name = "leaf0-spine.0"
    net = fabric("fat-tree:64x8", HASH, broken=[name])
    members = np.arange(256)
    loads, _ = net.exchange_loads(members[:, None])
    by_name = {net.link_name(link): load for link, load in enumerate(loads) if load}
    assert name not in by_name
    assert 0 < by_name["leaf0-spine.1"] != by_name["leaf1-spine.1"] > 0
    usual = time_of(fabric("fat-tree:64x8"), "all_reduce", "ring")
    assert time_of(fabric("fat-tree:64x8", HASH), "all_reduce", "ring") > usual


def test_background_takes_its_share():
    usual = transfer_of(fabric("fat-tree:32x1"), "all_reduce", "ring")
    busy = transfer_of(fabric("fat-tree:32x1", background={"leaf": 0.2}), "all_reduce", "ring")
    assert busy == pytest.approx(usual / 0.8)


def test_a_neighbour_takes_half_of_the_links_that_both_use():
    # Nodes 0 and 2 of the job, 1 and 3 of the neighbour: both cross the one uplink of each leaf.
    net = fabric("fat-tree:4x1,leaf=2,oversub=2")

    def ring(members, **more):
        return job(net, "all_reduce", "ring", members, **more)

    def beside(members, *neighbours):
        return simulate(net, ring(members), neighbours)

    alone = beside([0, 2]).phases[0].transfer_s
    both = beside([0, 2], ring([1, 3])).phases[0].transfer_s
    assert both == pytest.approx(2 * alone, rel=0.01)
    # On links of their own they do not meet.
    assert beside([0, 1], ring([2, 3])).time_s == pytest.approx(beside([0, 1]).time_s)
    # One that is much shorter repeats.
    shorter = beside([0, 2], ring([1, 3], size=5e7)).phases[0].transfer_s
    assert shorter == pytest.approx(2 * alone, rel=0.1)


def test_the_flows_of_an_alltoall_share_the_place_of_their_interface():
    # 8 nodes below 2 leaf switches, half of each for both jobs: each device has a fair share of the
    # uplinks, so that a ring, with one flow over them, is not slowed down by 3 flows of each.
    net = fabric("fat-tree:8x1,leaf=4,oversub=2")
    ring = ("all_reduce", "ring", [0, 1, 4, 5])
    other = job(net, "alltoall", "direct", [2, 3, 6, 7], size=100 * SIZE)
    beside = transfer_of(net, *ring, neighbours=[other])
    assert beside == pytest.approx(transfer_of(net, *ring), rel=0.5)


def test_an_uneven_alltoall_follows_each_flow():
    net = fabric("nvlink:3")
    rows = np.array([[0, 9e9, 0], [0, 0, 0], [0, 4.5e9, 0]])
    done = simulate(net, job(net, "alltoallv", "direct", rows=rows))
    # Both share the link to device 1: 13.5 GB at 450 GB/s.
    assert done.time_s == pytest.approx(0.03 + NODE_S)
    assert done.bound_s == pytest.approx(0.02)


def test_layouts_and_impairments_that_are_not_covered_are_refused():
    def outcome(line):
        text, operation, algorithm, *impaired = line.split(" ", 3)
        given = json.loads(*impaired or ["{}"])
        return refusal(lambda: time_of(fabric(text, **given), operation, algorithm))

    require_outcomes(TESTS / "fabric" / "refused_algorithms.txt", outcome)


def test_nodes_with_different_numbers_of_ranks_are_refused_but_for_alltoalls():
    net = fabric("fat-tree:4x4")
    members = np.array([0, 1, 2, 3, 4, 5, 6])
    with pytest.raises(UsageError, match="nodes have 3 to 4 ranks"):
        steps_of("ring", "all_reduce", net, members, SIZE)
    assert usual_algorithms("alltoall", net, members) == ["direct"]
    assert {*ALGORITHMS} >= {*usual_algorithms("all_reduce", net, members[:4])}


def test_flows_of_a_graph_take_all_shortest_routes(tmp_path):
    links = ", ".join(
        f'{{"ends": ["{one}", "{other}"], "gbit": {gbit}, "latency_us": 1}}'
        for one, other, gbit in [
            *[("a", "s", 800), ("s", "t", 400), ("s", "u", 400)],
            *[("t", "v", 400), ("u", "v", 400), ("v", "b", 800)],
        ]
    )
    text = f'{{"devices": ["a", "b"], "switches": ["s", "t", "u", "v"], "links": [{links}]}}'
    path = str(tmp_path / "graph.json")
    (tmp_path / "graph.json").write_text(text)
    sent = SIZE / 2
    whole = sent / 100e9 + 4e-6
    assert time_of(fabric(path), "alltoall", "direct") == pytest.approx(whole)
    half = sent / 50e9 + 4e-6
    for routing, broken in (("hash", []), ("even", ["t-v"])):
        net = fabric(path, routing, broken=broken)
        assert time_of(net, "alltoall", "direct") == pytest.approx(half)
    with pytest.raises(UsageError, match="no route from s to v without"):
        time_of(fabric(path, broken=["t-s", "s-u"]), "alltoall", "direct")
