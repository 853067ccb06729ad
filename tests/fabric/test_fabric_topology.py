import json

import pytest

from cclmark.base.errors import UsageError
from cclmark.work.accelerators import GBIT
from cclmark.work.fabric_topology import EXAMPLES, parse_topology
from goldens import refusal, require_outcomes
from places import TESTS

NODE = {"name": "node", "devices": 8, "gbit": 3600, "latency_us": 3.4}
LEAF = {"name": "leaf", "devices": 32, "gbit": 400, "latency_us": 14}
SPINE = {"name": "spine", "devices": 256, "gbit": 400, "oversubscription": 2, "links": 16}


def levels_of(text):
    return [(one.name, one.devices) for one in parse_topology(text).levels]


def test_levels_grow_to_all_devices():
    for text in EXAMPLES.values():
        topology = parse_topology(text)
        sizes = [one.devices for one in topology.levels]
        assert sizes == sorted(sizes)
        assert sizes[-1] == topology.devices
        assert parse_topology(topology.text) == topology


def test_a_fat_tree_has_pods_where_a_spine_has_too_few_ports():
    assert levels_of("fat-tree:64x8") == [("node", 8), ("leaf", 32), ("spine", 512)]
    assert levels_of("fat-tree:512x8") == [
        *[("node", 8), ("leaf", 32), ("spine", 1024), ("core", 4096)],
    ]
    # 32 devices of a leaf at 400 Gb/s, half of it above.
    spine = parse_topology("fat-tree:64x8,oversub=2").levels[2]
    assert (spine.links, spine.bps / GBIT, spine.shared_bps / GBIT) == (16, 400, 200)
    assert levels_of("fat-tree:6x8") == [("node", 8), ("leaf", 24), ("spine", 48)]
    assert levels_of("rail:2048x8") == [("node", 8), ("leaf", 256), ("spine", 16384)]


def test_a_level_is_that_of_the_nodes_which_a_run_has():
    topology = parse_topology("fat-tree:512x8")
    reached = [topology.level_of(number).name for number in (1, 8, 9, 32, 33, 1024, 1025, 4096)]
    assert reached == ["node", "node", "leaf", "leaf", "spine", "spine", "core", "core"]
    with pytest.raises(UsageError, match=r"4,097 devices are more than the 4,096 of fat-tree"):
        topology.level_of(4097)


def test_a_balanced_dragonfly_has_a_global_link_for_each_device():
    topology = parse_topology("dragonfly:9x8x4x4")
    assert (topology.devices, topology.levels[-1].links) == (1152, 16)
    assert topology.levels[-1].oversubscription == pytest.approx(1)
    assert topology.levels[2].oversubscription == pytest.approx(16 / 7)


def file_of(tmp_path, content):
    path = tmp_path / "fabric.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_file_has_levels_in_any_order_that_says_what_is_within_what(tmp_path):
    plain = parse_topology(file_of(tmp_path, {"levels": [NODE, LEAF, SPINE]}))
    assert [one.name for one in plain.levels] == ["node", "leaf", "spine"]
    assert (plain.per_node, plain.levels[2].shared_bps) == (8, 25e9)
    mixed = [SPINE, {**NODE, "within": "leaf"}, {**LEAF, "within": "spine"}]
    assert parse_topology(file_of(tmp_path, {"levels": mixed})).levels == plain.levels


def test_a_file_has_devices_switches_and_links(tmp_path):
    links = [{"ends": [name, "s"], "gbit": 100} for name in "abc"]
    graph = parse_topology(
        file_of(tmp_path, {"devices": [*"abc"], "switches": ["s"], "links": links})
    )
    assert (graph.devices, graph.per_node, len(graph.cables)) == (3, 1, 3)


def test_impossible_topologies_and_files_are_refused(tmp_path):
    def outcome(line):
        if line[0] not in "{[":
            return refusal(parse_topology, line)
        path = file_of(tmp_path, line)
        return refusal(parse_topology, path).replace(path, "FILE")

    require_outcomes(TESTS / "fabric" / "refused_topologies.txt", outcome)
