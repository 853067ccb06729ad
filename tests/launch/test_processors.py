"""Lists of processors, and where the processors of a host are."""

import functools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.journal.host_processors import (
    largest_cache_bytes,
    numa_nodes,
    processors_near,
    processors_of_node_of,
    share_of_nodes,
    spread_over_cores,
)
from cclmark.journal.schema import DeviceDescription
from cclmark.rank.engine_values import describe_device
from cclmark.work.binding import MOST_PROCESSORS, format_processors, parse_processors
from goldens import refusal, require_outcomes

LISTS = st.sets(st.integers(0, MOST_PROCESSORS - 1), max_size=60)
BUS = "00000000:1A:00.0"


@pytest.fixture
def sysfs(tmp_path):
    """Makes a sysfs with these NUMA nodes, and a device at BUS."""

    def make(nodes, device_node=None, near=""):
        for number, processors in nodes.items():
            node = tmp_path / "devices" / "system" / "node" / f"node{number}"
            node.mkdir(parents=True)
            (node / "cpulist").write_text(processors + "\n")
        if device_node is not None:
            device = tmp_path / "bus" / "pci" / "devices" / "0000:1a:00.0"
            device.mkdir(parents=True)
            (device / "numa_node").write_text(f"{device_node}\n")
            (device / "local_cpulist").write_text(near + "\n")
        return tmp_path

    return make


@given(LISTS)
def test_what_is_written_is_read_again(processors):
    assert parse_processors(format_processors(processors)) == processors


def test_lists_of_the_kernel_are_read_or_refused():
    def processors(line):
        return refusal(lambda: sorted(parse_processors(json.loads(line))))

    require_outcomes(Path(__file__).with_name("processor_lists.txt"), processors)


def test_devices_are_described_with_the_processors_near_them(sysfs, monkeypatch):
    paths = sysfs({}, 1, "0-47,96-143")
    read = functools.partial(processors_near, system=paths)
    monkeypatch.setattr("cclmark.rank.engine_values.processors_near", read)
    fields = dict.fromkeys(DeviceDescription.__struct_fields__, 0) | {"library_path": ""}
    for bus, near in ((BUS, "0-47,96-143"), ("", "")):
        info = SimpleNamespace(**fields | {"pci_bus_id": bus})
        assert describe_device(SimpleNamespace(info=info), 0).near == near


def test_nodes_without_processors_are_left_out(sysfs):
    assert numa_nodes(sysfs({1: "4-7", 0: "0-3", 2: ""})) == {0: {0, 1, 2, 3}, 1: {4, 5, 6, 7}}


@pytest.mark.parametrize(
    ("nodes", "node", "near", "processors"),
    [
        ({0: "0-1", 1: "2-3"}, 1, "2-3", {2, 3}),
        ({0: "0-1", 1: "2-3"}, -1, "0-3", set()),  # sysfs lists all as local: node unknown
        ({0: "0-1"}, -1, "0-1", {0, 1}),  # there is no other
        ({0: "0-1", 2: ""}, 2, "0-1", {0, 1}),  # a node of memory alone
        ({}, -1, "0-1", set()),
        ({0: "0-1", 1: "2-3"}, None, "", set()),
    ],
)
def test_the_processors_of_the_node_of_a_device(sysfs, nodes, node, near, processors):
    assert processors_of_node_of(BUS, sysfs(nodes, node, near)) == processors


TWO = {0: {0, 1, 2, 3}, 1: {4, 5, 6, 7}}


@pytest.mark.parametrize(
    ("nodes", "allowed", "number", "shares"),
    [
        (TWO, range(8), 2, [{0, 1, 2, 3}, {4, 5, 6, 7}]),
        (TWO, {1, 2, 3, 4}, 2, [{1, 2, 3}, {4}]),
        (TWO, {1, 2, 3, 4}, 4, [{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {4}]),
        (TWO, {5}, 2, [{5}, {5}]),
        ({}, {0, 1}, 2, [set(), set()]),
        ({3: {6, 7}, 0: {0, 1}, 1: {2, 3}, 2: {4, 5}}, range(8), 2, [{0, 1}, {4, 5}]),
    ],
)
def test_ranks_are_split_over_nodes(nodes, allowed, number, shares):
    assert [share_of_nodes(nodes, allowed, rank, number) for rank in range(number)] == shares


def test_ranks_take_one_processor_of_every_core_first(tmp_path):
    for processor, siblings in {0: "0-1", 1: "0-1", 2: "2,6", 3: "3", 6: "2,6"}.items():
        topology = tmp_path / "devices" / "system" / "cpu" / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert spread_over_cores({0, 1, 2, 3, 6}, tmp_path) == [0, 2, 3, 1, 6]
    assert spread_over_cores({1, 6}, tmp_path) == [1, 6]  # alone on their cores
    assert spread_over_cores({4, 9}, tmp_path) == [4, 9]  # sysfs does not list them


def test_last_level_caches_count_once_for_all_who_share_them(tmp_path):
    for processor, (shared, size) in enumerate([("0-1", "32768K"), ("0-1", "32768K"), ("2", "8M")]):
        for index, level, own, of in ((2, 2, str(processor), "512K"), (3, 3, shared, size)):
            cache = tmp_path / f"devices/system/cpu/cpu{processor}/cache/index{index}"
            cache.mkdir(parents=True)
            for name, text in (("level", level), ("size", of), ("shared_cpu_list", own)):
                (cache / name).write_text(f"{text}\n")
    assert largest_cache_bytes(tmp_path) == (32 << 20) + (8 << 20)
    assert largest_cache_bytes(tmp_path / "absent") == 0
