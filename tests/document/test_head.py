"""The head of every text: hosts, devices, links, buffers and the method."""

import pytest
from msgspec.structs import replace

from cclmark.document.head import (
    binding_lines,
    buffer_lines,
    definition_lines,
    definitions_of,
    device_lines,
    head_facts,
    host_lines,
    labelled,
    link_lines,
    method_of,
    opening_lines,
)
from cclmark.document.paint import unpainted
from cclmark.journal.schema import (
    DeviceDescription,
    HostDescription,
    Imported,
    LibraryDescription,
    Link,
    Machine,
)
from samples import header_of, usual_settings

HEADER = header_of(usual_settings())


def device(rank, host="h0", runtime="cuda", name="GPU", index=None, **changes):
    index = rank if index is None else index
    return replace(DeviceDescription(rank, host, runtime, index, name, 1 << 30), **changes)


def test_a_line_for_each_kind_of_device():
    assert device_lines([device(0), device(1)], "1.2") == [
        "2 × GPU (cuda:0,1), 1 GiB each, driver 1.2"
    ]
    assert device_lines([device(0, name="")], "") == ["1 × unnamed (cuda:0), 1 GiB each"]
    version = device(0, driver_version="13.0", memory_bytes=0)
    assert device_lines([version], "") == ["1 × GPU (cuda:0), cuda 13.0"]
    assert device_lines([device(0, runtime="host", name="CPU")], "1.2") == ["1 × CPU (host:0)"]
    other = device(3, runtime="", memory_bytes=0)
    assert device_lines([other], "") == ["1 × GPU (3)"]
    assert device_lines([replace(other, index=-1)], "") == ["1 × GPU"]
    assert device_lines([device(0, index=-1), device(1)], "") == ["2 × GPU (cuda:1), 1 GiB each"]


@pytest.mark.parametrize(
    ("nodes", "end"),
    [((0, 0), ", NUMA node 0"), ((0, 1), ", NUMA nodes 0,1"), ((0, -1), ""), ((-1, -1), "")],
)
def test_the_nodes_of_devices_are_stated_if_all_are_known(nodes, end):
    devices = [device(rank, runtime="host", numa_node=node) for rank, node in enumerate(nodes)]
    assert device_lines(devices, "") == [f"2 × GPU (host:0,1){end}"]


def test_devices_of_several_hosts_have_lines_of_their_own_up_to_a_limit():
    two = device_lines([device(0), device(1, "h1")], "")
    assert [one.partition(":")[0] for one in two] == ["h0", "h1"]
    hosts = [device(rank, f"h{rank}") for rank in range(10)]
    assert len(device_lines(hosts[:8], "")) == 8
    assert device_lines(hosts, "")[8:] == ["… and 2 more kinds and hosts"]


@pytest.mark.parametrize(
    ("memories", "asked", "lines"),
    [
        (["plain"], "", []),
        (["plain"], "auto", []),
        ([], "", []),
        (["plain"], "plain", ["plain, of the runtime's allocator"]),
        (["vmm", "vmm"], "auto", ["physical memory mapped at reserved addresses (VMM)"]),
        (["torch", "plain"], "auto", ["0: of torch's caching", "1: plain"]),
        (["strange"], "auto", []),
    ],
)
def test_buffers_are_stated_unless_all_are_plain(memories, asked, lines):
    libraries = [
        LibraryDescription(str(place), "", "", memory=memory)
        for place, memory in enumerate(memories)
    ]
    found = buffer_lines(header_of(usual_settings(memory=asked), *libraries))
    assert len(found) == len(lines)
    assert all(line.startswith(begin) for line, begin in zip(found, lines, strict=True))


def bound(processors, mode="numa"):
    devices = [device(rank, processors=one) for rank, one in enumerate(processors)]
    return binding_lines(replace(header_of(usual_settings(bind=mode)), devices=devices))


def test_processors_of_ranks_are_stated_up_to_a_limit():
    assert bound(["0-3"], "") == []
    assert bound(["0-3", "0-3", "4-7"]) == ["numa: ranks 0-1 → 0-3; rank 2 → 4-7"]
    assert bound(["", ""]) == ["numa"]
    assert bound(["0", "1", "2", "3"])[0].endswith("rank 3 → 3")
    assert bound(["0", "1", "2", "3", "4", "5"])[0].endswith(
        "rank 3 → 3; … and 2 more lists of processors"
    )


def test_links_have_a_line_for_each_device_unless_all_are_alike():
    pcie = [Link(rank, "PCIe", 16, 0.0, "5.0") for rank in (0, 1)]
    assert link_lines(pcie) == ["PCIe 5.0 x16 per device"]
    fast = Link(0, "NVLink", 18, 25e9, "4.0")
    assert link_lines([fast, pcie[1]]) == [
        *("rank 0: 18 × NVLink 4.0 at 25 GB/s", "rank 1: PCIe 5.0 x16"),
    ]
    assert link_lines([fast, pcie[0]]) == ["18 × NVLink 4.0 at 25 GB/s and PCIe 5.0 x16 per device"]
    assert link_lines([replace(fast, rate_bytes_per_s=0.0)]) == ["18 × NVLink 4.0 per device"]
    assert link_lines([]) == []


def hosts(number, **changes):
    names = [
        HostDescription(replace(HEADER.machine, hostname=f"h{one}"), "", {})
        for one in range(number)
    ]
    return replace(HEADER, hosts=names, **changes)


@pytest.mark.parametrize(
    ("header", "where"),
    [
        (hosts(0, machine=replace(HEADER.machine, hostname="one")), "on one"),
        (hosts(2, launcher="srun"), "on 2 hosts (h0, h1), started by srun"),
        (hosts(4), "on 4 hosts (h0, h1, h2, h3)"),
        (hosts(6), "on 6 hosts (h0, h1, h2, h3 and 2 more)"),
        (HEADER, ""),
    ],
)
def test_hosts_are_named_up_to_a_limit(header, where):
    assert opening_lines(header, "rank", "m", unpainted)[0] == f"cclmark   {where}".rstrip()


def test_the_head_counts_devices_or_ranks_of_another_tool():
    two = replace(HEADER, cclmark_version="1", devices=[device(0), device(1)])
    assert opening_lines(two, "process", "m", unpainted)[0] == "cclmark 1  2 processes"
    other = replace(two, imported=Imported("x", "", ranks=8))
    assert opening_lines(other, "rank", "m", unpainted)[0] == "cclmark 1  8 ranks"
    noticed = replace(HEADER, notices=["long words " * 9])
    assert len(opening_lines(noticed, "rank", "m", unpainted)) == 3
    narrow = opening_lines(noticed, "rank", "m", unpainted, 60)
    first, *rest = narrow[-1].split("\n")
    assert max(map(len, [first, *rest])) <= 60
    assert all(line.startswith(" " * 13 + "long") for line in rest)


def test_equal_labels_stand_once():
    rows = [("a", "1"), ("a", "2"), ("b", ""), ("a", "3"), ("b", "4")]
    blank = "  " + " " * 9 + "  "
    assert labelled(rows) == [
        *("  a          1", f"{blank}2", f"{blank}3", "  b          4"),
    ]
    facts = dict(head_facts(replace(HEADER, libraries=[LibraryDescription("a", "1", "")])))
    assert facts == {"library": "a 1"}


def test_the_host_is_stated_as_far_as_it_is_known():
    assert host_lines(HEADER)[0].startswith("  host       1 × ")
    machine = Machine("h", "Linux", "6.1", "CPU", 2, 1 << 30)
    known = replace(HEADER, machine=machine, started_at="now")
    assert host_lines(known) == ["  host       2 × CPU, 1 GiB; Linux, kernel 6.1; started now"]
    assert (
        host_lines(replace(known, machine=replace(machine, processors=0, kernel=""), started_at=""))
        == []
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"iterations": 1},
            "throughput, 1 iteration, slowest rank, each case's output checked",
        ),
        ({"iterations": 2}, "2 iterations,"),
        ({"precision": 0.025}, "until the median is known to ±2.5 % (95 %),"),
        ({"check": 0}, "slowest rank, outputs not checked"),
        ({"check": 1}, "output checked after timing"),
        ({"check": 3, "check_on": "host"}, "output checked 3 times on the host after timing"),
        ({"cache": "warm"}, "same buffers again and again"),
        ({"across_ranks": "mean"}, "mean of ranks"),
        ({"across_ranks": "0"}, "rank 0"),
        ({"timing": "auto"}, "replayed from graphs"),
        (
            {"barrier": "library", "clock": "host"},
            "the library's barrier, the host's clock",
        ),
        ({"config": {"a": "1", "b": "2"}}, ", communicators with a=1 b=2"),
    ],
)
def test_the_method_says_what_differs_from_the_default(settings, words):
    assert words in method_of(header_of(usual_settings(**settings)))
    plain = method_of(HEADER)
    assert not any(word in plain for word in ("barrier", "clock", "again", "communicators"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "slowest rank, one figure for each case"),
        ({"timing": "graph", "iterations": 20}, "graph, 20 iterations, slowest rank, one figure"),
        ({"across_ranks": ""}, "one figure for each case"),
        (
            {"timing": "", "clock": "device"},
            "slowest rank, one figure for each case, the device's clock where it has one",
        ),
    ],
)
def test_the_method_of_another_tool_is_what_its_text_says(settings, words):
    header = replace(header_of(usual_settings(**settings)), imported=Imported("x", ""))
    assert words in method_of(header)


def test_tools_are_listed_by_what_a_time_is():
    others = [
        replace(HEADER, imported=Imported(tool, "", figure=figure))
        for tool, figure in (("a", "the mean"), ("b", "the mean"), ("c", ""))
    ]
    found = definitions_of([HEADER, *others, HEADER])
    assert [*found.values()] == [["cclmark"], ["a", "b"]]
    assert definition_lines(found)[1] == "a and b: a time is the mean"


@pytest.mark.parametrize(
    ("imported", "line"),
    [
        (Imported("x", ""), "from x"),
        (Imported("x", "", file="f.txt", file_date="2026-01-02T03"), "from x, f.txt of 2026-01-02"),
    ],
)
def test_the_origin_has_file_and_day(imported, line):
    assert dict(head_facts(replace(HEADER, imported=imported)))["imported"] == line
