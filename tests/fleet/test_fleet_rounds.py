from hypothesis import given
from hypothesis import strategies as some

from cclmark.work.fabric_topology import parse_topology
from cclmark_fleet.scan.fleet_rounds import (
    LEVEL,
    confirming_rounds,
    planned_rounds,
)
from cclmark_fleet.scan.fleet_shape import FleetShape, shape_of_hosts, shape_of_topology

#: Numbers of devices of nodes, which may differ.
SHAPES = some.lists(some.integers(1, 9), min_size=1, max_size=40).filter(lambda own: sum(own) > 1)


def shape_of(sizes):
    hosts = [host for host, size in enumerate(sizes) for _ in range(size)]
    return shape_of_hosts(
        hosts, [f"host-{name}" for name in "abcdefghijklmnopqrstuvwxyz" * 2][: len(sizes)]
    )


def require_disjoint(rounds, shape):
    for one in rounds:
        ends = [end for pair in one.pairs for end in pair]
        assert len({*ends}) == len(ends)
        assert all(0 <= end < shape.devices for end in ends)


@given(SHAPES, some.integers(0, 9))
def test_pairs_of_a_round_are_disjoint_in_any_fleet(sizes, seed):
    shape = shape_of(sizes)
    require_disjoint(planned_rounds(shape, seed), shape)


@given(SHAPES, some.data())
def test_suspects_meet_good_nodes_once_each(sizes, data):
    shape = shape_of(sizes)
    devices = some.integers(0, shape.devices - 1)
    suspects = data.draw(some.sets(devices, max_size=4))
    links = [
        (min(one), max(one))
        for one in data.draw(some.sets(some.tuples(devices, devices), max_size=3))
        if one[0] != one[1]
    ]
    rounds = confirming_rounds(shape, suspects, links, 1)
    assert len(rounds) <= 6
    require_disjoint(rounds, shape)
    doubted = {shape.node_of[one] for one in suspects | {end for link in links for end in link}}
    good = {*range(len(sizes))} - doubted
    for node in doubted if len(good) >= len(doubted) else ():
        met = {
            shape.node_of[end]
            for one in rounds
            for pair in one.pairs
            if node in {shape.node_of[end] for end in pair}
            for end in pair
        }
        assert met & good


@given(some.integers(4, 8), some.integers(0, 3))
def test_xor_rounds_of_a_power_of_two_meet_each_level_of_the_addresses_once(bits, per_node_bits):
    count, size = 1 << bits, 1 << per_node_bits
    shape = shape_of_hosts([one // size for one in range(count * size)], [*map(str, range(count))])
    between = [
        one.pairs
        for one in planned_rounds(shape, 1)
        if one.purpose == LEVEL and shape.node_of[one.pairs[0][0]] != shape.node_of[one.pairs[0][1]]
    ]
    assert len(between) == bits
    for bit, pairs in enumerate(between):
        assert {shape.node_of[one] ^ shape.node_of[other] for one, other in pairs} == {1 << bit}
        assert {end for pair in pairs for end in pair} == {*range(count * size)}


def test_rounds_grow_with_the_logarithm_of_nodes():
    counts = {}
    for nodes in (16, 128, 1024):
        shape = shape_of_topology(parse_topology(f"fat-tree:{nodes}x8"))
        counts[nodes] = len(planned_rounds(shape, 1))
    assert counts == {16: 7 + 4 + 3 + 2, 128: 7 + 7 + 3 + 2, 1024: 7 + 10 + 3 + 2}


def test_every_two_devices_of_a_small_node_meet():
    shape = shape_of([8, 8])
    met = {pair for one in planned_rounds(shape, 1) for pair in one.pairs}
    assert {(one, other) for one in range(8) for other in range(one + 1, 8)} <= met


def test_devices_of_two_nodes_meet_others_than_their_neighbours():
    """Else a slow device of one node cannot be told from its partner."""
    shape = shape_of([8, 8])
    partners = {
        other
        for one in planned_rounds(shape, 1)
        for pair in one.pairs
        if 3 in pair
        for other in pair
    }
    assert len({one for one in partners if one >= 8}) >= 4


def test_racks_come_from_names_with_two_numbers():
    names = [f"rack{rack}-node{node:02}.cluster7" for rack in range(3) for node in range(4)]
    shape = shape_of_hosts(range(12), names)
    (racks,) = shape.groupings
    assert racks.names == ("rack0-node", "rack1-node", "rack2-node")
    assert shape.level(0, 3) == 1 and shape.level(0, 4) == 2
    for unclear in (["a1", "b2"], ["n1-1", "n1-2"], ["x1-1", "x2-1", "x3-1"], ["\x1b[31m", "é1-1"]):
        assert shape_of_hosts(range(len(unclear)), unclear).groupings == ()


def test_rails_have_their_own_switches():
    shape = shape_of_topology(parse_topology("rail:8x4,leaf=4"))
    leaf = shape.groupings[0]
    assert len(leaf.names) == 2 * 4
    assert leaf.of[:5] == (0, 1, 2, 3, 0)
    assert isinstance(shape, FleetShape) and shape.device_name(7) == "node1:3"
