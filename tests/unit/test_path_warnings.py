"""Warnings about paths that are worse than the connections between devices."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cclmark.analysis.links import path_warnings
from cclmark.document.connection_words import connection_lines
from cclmark.explain.paths import FLAGCX_SINGLE, INFINIBAND, PEER_ACCESS, RankPaths, Route
from cclmark.kinds.registry import read_journal
from cclmark.launch.rank_messages import paths_of
from cclmark.rendezvous.messages import Connected
from cclmark.results.schema import DeviceDescription, Paths, Relation, Ring, Tree

SAMPLE = read_journal(Path(__file__).parents[1] / "golden" / "sample.jsonl")
ROUTES = {
    "host": "SHM/direct/direct",
    "network": "NET/Socket",
    "indirect": "P2P/indirect/2[2]",
    "direct": "P2P/CUMEM",
}


def a_header(ranks=2, kind="NV18", hops=1, hosts=1, environment=None, runtime="cuda"):
    devices = [
        DeviceDescription(rank, f"node{rank % hosts}", runtime, rank, "device", 1 << 30)
        for rank in range(ranks)
    ]
    relations = [
        Relation(first, second, kind, hops)
        for first in range(ranks)
        for second in range(ranks)
        if first != second
    ]
    return msgspec.structs.replace(
        SAMPLE.header, devices=devices, relations=relations, environment=environment or {}
    )


def both_ways(transport, ranks=2):
    return [
        Route(first, second, transport, 4)
        for first in range(ranks)
        for second in range(ranks)
        if first != second
    ]


def paths(transport, ranks=2, **more):
    return Paths("nccl", "log", routes=both_ways(transport, ranks), **more)


def test_a_disabled_link_is_named_with_its_cause():
    found = path_warnings(a_header(), paths(ROUTES["host"], parameters={"NCCL_P2P_DISABLE": "1"}))
    assert found == [
        "ranks 0 and 1 communicate through host memory although 18 NVLinks connect them: "
        "NCCL_P2P_DISABLE=1 is set"
    ]


@pytest.mark.parametrize(
    ("hops", "parameters", "environment", "cause"),
    [
        (1, {}, {"NCCL_P2P_LEVEL": "LOC"}, "NCCL_P2P_LEVEL=LOC is set"),
        (
            1,
            {PEER_ACCESS: "P2P is disabled between connected GPUs 0 and 1"},
            {},
            "P2P is disabled between connected GPUs 0 and 1",
        ),
        (2, {}, {}, "the driver reports no peer access between them"),
        (1, {"NCCL_P2P_DISABLE": "0"}, {}, "the library's log contains no reason"),
        (1, {"NCCL_P2P_LEVEL": "0"}, {}, "NCCL_P2P_LEVEL=0 is set"),
        (1, {"NCCL_P2P_LEVEL": "SYS"}, {}, "the library's log contains no reason"),
        (1, {"NCCL_P2P_LEVEL": "NVL"}, {}, "the library's log contains no reason"),
        (None, {}, {}, "the library's log contains no reason"),
        (
            1,
            {"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "LOC"},
            {},
            "NCCL_P2P_DISABLE=1 and NCCL_P2P_LEVEL=LOC are set",
        ),
    ],
)
def test_causes(hops, parameters, environment, cause):
    (found,) = path_warnings(
        a_header(hops=hops, environment=environment),
        paths(ROUTES["host"], parameters=parameters),
    )
    assert found.endswith(f"connect them: {cause}")


def test_many_pairs_are_one_warning():
    (found,) = path_warnings(a_header(ranks=4), paths(ROUTES["host"], ranks=4))
    assert found.startswith("ranks 0–1, 0–2, 0–3, 1–2 and 2 more pairs communicate through host")


def test_the_network_within_a_host():
    (found,) = path_warnings(
        a_header(kind="SYS"), paths(ROUTES["network"], parameters={"NCCL_SHM_DISABLE": "1"})
    )
    assert found == (
        "ranks 0 and 1 communicate through the network (NET/Socket) although they are on one "
        "host: NCCL_SHM_DISABLE=1 is set"
    )


@pytest.mark.parametrize("kind", ["SYS", "NODE", "PHB", "?"])
def test_host_memory_between_distant_devices_is_normal(kind):
    assert path_warnings(a_header(kind=kind), paths(ROUTES["host"])) == []


def test_direct_paths_are_normal():
    assert path_warnings(a_header(), paths(ROUTES["direct"])) == []
    both = Paths("nccl", "log", routes=[*both_ways("P2P/CUMEM"), *both_ways("SHM/direct/direct")])
    assert path_warnings(a_header(), both) == []


def test_another_device_between():
    (found,) = path_warnings(a_header(), paths(ROUTES["indirect"]))
    assert "through the memory of another device" in found


@pytest.mark.parametrize(
    ("parameters", "end"),
    [
        ({"NCCL_IB_DISABLE": "1"}, ": NCCL_IB_DISABLE=1 is set"),
        ({INFINIBAND: "none"}, ": the library found none that it can use (see ibv_devinfo)"),
        ({}, "(mlx5_0, mlx5_1)"),
    ],
)
def test_sockets_beside_infiniband(parameters, end):
    ours = paths(ROUTES["network"], parameters=parameters, network_devices=["mlx5_0", "mlx5_1"])
    (found,) = path_warnings(a_header(hosts=2), ours)
    assert found.startswith("ranks 0 and 1 communicate by TCP sockets although the hosts have")
    assert found.endswith(end)


def test_sockets_of_messages_are_sockets_too():
    ours = paths("NET/Socket/Shared", network_devices=["mlx5_0"])
    (found,) = path_warnings(a_header(hosts=2), ours)
    assert "by TCP sockets" in found


@pytest.mark.parametrize("kind", ["NV²", "NV" + "9" * 5000, "NV", "NV-1", ""])
def test_odd_relations_of_a_journal_are_accepted(kind):
    assert path_warnings(a_header(kind=kind), paths(ROUTES["host"])) == []


def test_many_routes_take_little_time():
    ranks = 300
    ours = paths("P2P/CUMEM", ranks=ranks)
    header = a_header()
    assert f"{ranks * (ranks - 1) // 2 - 6} more pairs" in connection_lines(header, [ours])[1]


def test_sockets_without_infiniband_are_normal():
    assert path_warnings(a_header(hosts=2), paths(ROUTES["network"])) == []


def test_the_network_without_gpudirect():
    (found,) = path_warnings(
        a_header(hosts=2), paths("NET/IB", parameters={"NCCL_NET_GDR_LEVEL": "LOC"})
    )
    assert "without GPUDirect RDMA: NCCL_NET_GDR_LEVEL=LOC is set" in found
    assert path_warnings(a_header(hosts=2), paths("NET/IB/GDRDMA")) == []


def test_flagcx_leaves_its_devices():
    (found,) = path_warnings(a_header(), Paths("flagcx", parameters={FLAGCX_SINGLE: "yes"}))
    assert "use two or more devices of each kind" in found
    (found,) = path_warnings(a_header(environment={"FLAGCX_USE_HOST_COMM": "1"}), Paths("flagcx"))
    assert "FLAGCX_USE_HOST_COMM=1 is set" in found


def test_bridge_through_the_host():
    ours = Paths("bridge", "engine", routes=both_ways("host memory"))
    (found,) = path_warnings(a_header(), ours)
    assert found.endswith("their devices cannot read each other's memory")
    assert path_warnings(a_header(runtime="host"), ours) == []


def test_unknown_ranks_of_a_journal_are_accepted():
    ours = Paths("nccl", "log", routes=[Route(7, 9, "NET/Socket", 1)])
    assert path_warnings(a_header(), ours) == []
    assert connection_lines(a_header(), [ours])


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
    ours = paths(
        "P2P/CUMEM",
        rings=[Ring([0, 1], 24)],
        trees=[Tree([-1, 0], 12), Tree([1, -1], 12)],
        parameters={
            "NCCL_ALGO": "Ring",
            "nodes": "1",
            "channels of NVLS": "0",
            "chunk of messages in bytes": "524288",
            "a cluster of FlagCX with one rank": "no",
        },
        messages=["rank 0: the library warns"],
    )
    assert connection_lines(a_header(), [ours]) == [
        "  nccl, connections (the library's log)",
        "    ranks 0–1  P2P/CUMEM, 4 channels, devices connected by NV18",
        "    ring        0 → 1 → 0 (24 channels)",
        "    tree        0 ← 1 (12 channels)",
        "    tree        1 ← 0 (12 channels)",
        "    set         NCCL_ALGO=Ring",
        "    parameters  clusters of one rank in FlagCX: no, channels of NVLS: 0, "
        "chunk of messages: 512 KiB, nodes: 1",
        "    warning: rank 0: the library warns (message of the library)",
    ]
    unknown = Paths("mpi", reason="mpi has no interface that reports its connections")
    assert connection_lines(a_header(), [unknown]) == [
        "  mpi, connections: unknown: mpi has no interface that reports its connections"
    ]
