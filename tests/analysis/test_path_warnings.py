"""Warnings about paths that are worse than the connections between devices."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from cclmark.analysis.links import path_warnings
from cclmark.document.connection_words import connection_lines
from cclmark.explain.paths import FLAGCX_SINGLE, INFINIBAND, PEER_ACCESS, RankPaths, Route
from cclmark.journal.schema import DeviceDescription, Paths, Relation, Ring, Tree
from cclmark.kinds.registry import read_journal
from cclmark.launch.rank_messages import paths_of
from cclmark.rendezvous.messages import Connected
from goldens import require_golden
from places import TESTS

SAMPLE = read_journal(TESTS / "golden" / "sample.jsonl")


def a_header(ranks=2, kind="NV18", hops=1, hosts=1, environment=None, runtime="cuda"):
    devices = [
        DeviceDescription(rank, f"node{rank % hosts}", runtime, rank, "device", 1 << 30)
        for rank in range(ranks)
    ]
    relations = [Relation(*pair, kind, hops) for pair in permutations(range(ranks), 2)]
    changed = {"devices": devices, "relations": relations, "environment": environment or {}}
    return replace(SAMPLE.header, **changed)


def both_ways(transport, ranks=2):
    return [Route(*pair, transport, 4) for pair in permutations(range(ranks), 2)]


def paths(transport, ranks=2, **more):
    return Paths("nccl", "log", routes=both_ways(transport, ranks), **more)


TWO_HOSTS = {"hosts": 2}
DISABLED = "P2P is disabled between connected GPUs 0 and 1"
LEVEL = "NCCL_P2P_LEVEL"
HOST, SOCKET = "SHM/direct/direct", "NET/Socket"
#: The header, the transport, and the parameters of the library.
PATHS = [
    # A connection between the devices is not used, for a reason.
    ({}, HOST, {"NCCL_P2P_DISABLE": "1"}),
    ({"environment": {LEVEL: "LOC"}}, HOST, {}),
    ({}, HOST, {PEER_ACCESS: DISABLED}),
    ({"hops": 2}, HOST, {}),
    ({}, HOST, {LEVEL: "0"}),
    ({}, HOST, {"NCCL_P2P_DISABLE": "1", LEVEL: "LOC"}),
    # The log contains no reason.
    *(({}, HOST, one) for one in ({"NCCL_P2P_DISABLE": "0"}, {LEVEL: "SYS"}, {LEVEL: "NVL"})),
    ({"hops": None}, HOST, {}),
    ({"ranks": 4}, HOST, {}),
    ({"kind": "SYS"}, SOCKET, {"NCCL_SHM_DISABLE": "1"}),
    ({}, "P2P/indirect/2[2]", {}),
    # Between hosts.
    (TWO_HOSTS, SOCKET, {"NCCL_IB_DISABLE": "1"}),
    (TWO_HOSTS, SOCKET, {INFINIBAND: "none"}),
    (TWO_HOSTS, SOCKET, {}),
    (TWO_HOSTS, "NET/Socket/Shared", {}),
    (TWO_HOSTS, "NET/IB", {"NCCL_NET_GDR_LEVEL": "LOC"}),
    (TWO_HOSTS, "NET/IB/GDRDMA", {}),
    # Host memory between distant devices and direct paths are normal; odd relations of a journal
    # are accepted.
    *(
        ({"kind": kind}, HOST, {})
        for kind in ("SYS", "NODE", "PHB", "?", "NV²", "NV" + "9" * 5000, "NV", "NV-1", "")
    ),
    ({}, "P2P/CUMEM", {}),
]


def test_paths_that_are_worse_than_the_topology():
    lines = []
    for header, transport, parameters in PATHS:
        of = {"parameters": parameters, "network_devices": ["mlx5_0", "mlx5_1"]}
        ours = paths(transport, header.get("ranks", 2), **of)
        lines += path_warnings(a_header(**header), ours) or ["-"]
    require_golden("texts/path-warnings.txt", "\n".join([*lines, ""]))


def test_normal_paths_have_no_warning():
    both = Paths("nccl", "log", routes=[*both_ways("P2P/CUMEM"), *both_ways("SHM/direct/direct")])
    assert path_warnings(a_header(), both) == []
    assert path_warnings(a_header(hosts=2), paths("NET/Socket")) == []  # without InfiniBand
    unknown = Paths("nccl", "log", routes=[Route(7, 9, "NET/Socket", 1)])  # ranks of a journal
    assert path_warnings(a_header(), unknown) == []
    assert connection_lines(a_header(), [unknown])


def test_many_routes_take_little_time():
    ranks = 100
    lines = connection_lines(a_header(), [paths("P2P/CUMEM", ranks=ranks)])
    assert f"{ranks * (ranks - 1) // 2 - 6} more pairs" in lines[1]


THROUGH_HOST = Paths("bridge", "engine", routes=both_ways("host memory"))
WITHOUT_PEERS = "their devices cannot read each other's memory"
ALONE = Paths("flagcx", parameters={FLAGCX_SINGLE: "yes"})
ON_HOST = {"environment": {"FLAGCX_USE_HOST_COMM": "1"}}


@pytest.mark.parametrize(
    ("header", "ours", "warnings"),
    [
        ({}, ALONE, ["use two or more devices of each kind"]),
        (ON_HOST, Paths("flagcx"), ["FLAGCX_USE_HOST_COMM=1 is set"]),
        ({}, THROUGH_HOST, [WITHOUT_PEERS]),
        ({"runtime": "host"}, THROUGH_HOST, []),
    ],
)
def test_data_that_pass_through_the_host(header, ours, warnings):
    found = path_warnings(a_header(**header), ours)
    assert [one[-len(end) :] for one, end in zip(found, warnings, strict=True)] == warnings


def part(rank, **more):
    return Connected(rank, b"", "nccl", "log", "", RankPaths(**more), [])


def test_the_parts_of_ranks_become_one():
    found = paths_of(
        [
            part(
                rank,
                routes=[
                    Route(rank, (rank + 1) % 3, "NET/IB", 2, [str(rank)]),
                    Route((rank + 2) % 3, rank, "NET/IB", 2, [str(rank)]),
                ],
                ring_next={0: (rank, (rank + 1) % 3), 1: (rank, (rank + 2) % 3)},
                tree_parent={0: (rank, rank - 1)},
                parameters={"nodes": "3"},
                messages=["odd"] if rank == 1 else [],
            )
            for rank in range(3)
        ]
    )
    assert found.rings == [Ring([0, 1, 2], 1), Ring([0, 2, 1], 1)]
    assert found.trees == [Tree([-1, 0, 1], 1)]
    assert found.routes[0] == Route(0, 1, "NET/IB", 2, ["0", "1"])
    assert len(found.routes) == 3
    assert found.messages == ["rank 1: odd"]


def test_rings_without_the_lines_of_a_rank_are_left_out():
    found = paths_of(
        [part(0, ring_next={0: (0, 1)}, tree_parent={0: (0, -1)}), part(1, ring_next={})]
    )
    assert (found.rings, found.trees) == ([], [])
    # A log that contradicts itself does not end in an endless ring.
    assert paths_of([part(0, ring_next={0: (0, 0)}), part(1, ring_next={0: (1, 1)})]).rings == []


def test_the_text():
    parameters = {
        **{"NCCL_ALGO": "Ring", "nodes": "1", "channels of NVLS": "0"},
        **{"chunk of messages in bytes": "524288", "a cluster of FlagCX with one rank": "no"},
    }
    trees = [Tree([-1, 0], 12), Tree([1, -1], 12)]
    warns = ["rank 0: the library warns"]
    ours = paths("P2P/CUMEM", trees=trees, parameters=parameters, messages=warns)
    unknown = Paths("mpi", reason="mpi has no interface that reports its connections")
    found = [replace(ours, rings=[Ring([0, 1], 24)]), unknown]
    lines = connection_lines(a_header(), found)
    require_golden("texts/connections.txt", "\n".join([*lines, ""]))
