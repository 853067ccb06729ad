"""Log lines about choices and connections, as NCCL, RCCL and FlagCX write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.explain.nccl_log import operations_in, paths_in
from cclmark.explain.paths import FLAGCX_CLUSTERS, FLAGCX_SINGLE, INFINIBAND, Route

HEAD = "node1:4711:4712 [0] NCCL INFO "

# Lines of NCCL 2.28, as rank 0 of two on one host writes them.
ON_ONE_HOST = """\
node1:4711:4711 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to NVL
node1:4711:4712 [0] NCCL INFO NET/IB : No device found.
node1:4711:4712 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
node1:4711:4712 [0] NCCL INFO Using network Socket
node1:4711:4712 [0] NCCL INFO comm 0x55 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
node1:4711:4712 [0] NCCL INFO Channel 00/02 : 0 1
node1:4711:4712 [0] NCCL INFO Channel 01/02 : 0 1
node1:4711:4712 [0] NCCL INFO Ring 00 : 1 -> 0 -> 1
node1:4711:4712 [0] NCCL INFO Ring 01 : 1 -> 0 -> 1
node1:4711:4712 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1
node1:4711:4712 [0] NCCL INFO P2P Chunksize set to 524288
node1:4711:4712 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p \
channels, 32 p2p channels per peer
node1:4711:4715 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node1:4711:4715 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node1:4711:4715 [0] NCCL INFO Channel 01/1 : 0[0] -> 1[1] via P2P/CUMEM/read
node1:4711:4716 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
"""


def test_lines_of_one_host():
    found = paths_in(ON_ONE_HOST)
    assert found.routes == [Route(0, 1, "P2P/CUMEM/read", 2)]
    assert found.ring_next == {0: (0, 1), 1: (0, 1)}
    assert found.tree_parent == {0: (0, -1), 1: (0, 1)}
    assert found.parameters == {
        "NCCL_P2P_LEVEL": "NVL",
        INFINIBAND: "none",
        "devices of Socket": "[0]eth0:10.0.0.1<0>",
        "network": "Socket",
        "nodes": "1",
        "chunk of messages in bytes": "524288",
        "channels of collectives": "24",
        "channels of NVLS": "0",
        "channels of messages": "32",
        "channels of messages per peer": "32",
    }
    assert found.messages == []
    assert found.communicators == [2]


@pytest.mark.parametrize(
    ("line", "route"),
    [
        ("00 : 0[0] -> 1[1] via SHM/direct/direct", Route(0, 1, "SHM/direct/direct", 1)),
        ("00/0 : 3[3] -> 4[4] via P2P/IPC", Route(3, 4, "P2P/IPC", 1)),
        ("00/0 : 0[0] -> 1[1] via P2P/direct pointer", Route(0, 1, "P2P/direct pointer", 1)),
        ("00/0 : 0[0] -> 3[3] via P2P/indirect/1[1]", Route(0, 3, "P2P/indirect/1[1]", 1)),
        (
            "07/0 : 8[0] -> 1[1] [receive] via NET/IB/2/GDRDMA",
            Route(8, 1, "NET/IB/GDRDMA", 1, ["2"]),
        ),
        (
            "07/0 : 1[1] -> 8[0] [send] via NET/IB/2(5)/GDRDMA/Shared",
            Route(1, 8, "NET/IB/PXN/GDRDMA/Shared", 1, ["2"]),
        ),
        ("00/0 : 0[0] -> 1[1] [send] via NET/Socket/0", Route(0, 1, "NET/Socket", 1, ["0"])),
        # RCCL, and NCCL before 2.19 with bus identifiers
        (
            "03/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x7f00 nRanks 08",
            Route(0, 1, "P2P/IPC", 1),
        ),
    ],
)
def test_transports(line, route):
    assert paths_in(f"{HEAD}Channel {line}").routes == [route]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NCCL_IB_HCA set to mlx5_0", {"NCCL_IB_HCA": "mlx5_0"}),
        ("NCCL_P2P_DISABLE set by environment to 1.", {"NCCL_P2P_DISABLE": "1"}),
        ("P2P Chunksize set to 131072", {"chunk of messages in bytes": "131072"}),
        ("NET/IB : Using [RO]; OOB eth0:192.0.2.2<0>", {INFINIBAND: "none"}),
        (
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            {INFINIBAND: "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE"},
        ),
        ("NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>", {INFINIBAND: "[0]mlx5_0:1/IB"}),
    ],
)
def test_settings_and_devices(line, value):
    assert paths_in(HEAD + line).parameters == value


def test_a_cut_line_of_trees_is_completed():
    lines = [
        "Tree 0 : -1 -> 0 -> 1/-1/-1",
        "Tree 40 : 1 -> 0 -> -1/-1/-1",
        "Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 [2] 1/-1/-1->0->",
    ]
    found = paths_in("\n".join(HEAD + line for line in lines))
    assert found.tree_parent == {0: (0, -1), 1: (0, -1), 40: (0, 1)}


def test_flagcx():
    found = paths_in(
        "n:1:1 [0] FLAGCX INFO rank = 0, nranks = 2, nclusters = 2, cluster_id = 0, cluster_size "
        "= 1, cluster_inter_rank = 0, homo_rank = 0, homo_root_rank = 0, homo_inter_rank = 0, "
        "homo_ranks = 1, has_single_rank_homo_comm = 1, homoInterRootRank = 0\n"
        "n:1:1 [0] flagcx.cc:731 FLAGCX WARN Host comm is required to perform C2C reduce op"
    )
    assert found.parameters == {FLAGCX_CLUSTERS: "2", FLAGCX_SINGLE: "yes"}
    assert found.messages == ["Host comm is required to perform C2C reduce op"]


def test_messages_are_bounded_and_printable():
    text = "".join(
        f"n:1:1 [0] x.cc:1 NCCL WARN message {i} \x1b[31m{'x' * 999}\n" for i in range(99)
    )
    found = paths_in(text).messages
    assert len(found) == 20
    assert all(len(one) <= 300 and one.isprintable() for one in found)


@given(st.integers(0, len(ON_ONE_HOST)))
def test_a_log_that_is_cut_off_contains_nothing_else(end):
    whole, part = paths_in(ON_ONE_HOST), paths_in(ON_ONE_HOST[:end])
    for route in part.routes:
        assert (route.first, route.second) == (0, 1)
        assert route.channels <= 2
    assert set(part.ring_next) <= set(whole.ring_next)
    assert set(part.parameters) <= set(whole.parameters)


@given(st.text())
def test_any_text_is_read(text):
    paths_in(text)
    paths_in("\n".join(HEAD + line for line in text.splitlines()))


LINES = """\
node:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}
node:1:1 [0] NCCL INFO something else: 12 Bytes
node:1:1 [0] NCCL INFO AllReduce [Symmetric]: 8 Bytes -> Kernel AllReduce_AGxLL_R nchannels 3
node:1:1 [0] NCCL INFO AllGather [Copy Engine]: 4096 Bytes -> cudaMemcpyBatchAsync
node:1:1 [0] NCCL INFO 2048 Bytes -> Algo 0 proto 2 time 12.5
node:1:1 [0] NCCL INFO 2048 Bytes -> Algo 77 proto 2 time 12.5
"""


def test_the_choices_of_all_versions_are_read():
    ring, symmetric, copied, tree = operations_in(LINES)
    assert (ring.function, ring.kernel, ring.protocol) == ("AllReduce", "ring", "LL")
    assert (symmetric.kernel, symmetric.algorithm) == ("symmetric", "AllReduce_AGxLL_R")
    assert (copied.kernel, copied.algorithm) == ("copy engine", "cudaMemcpyBatchAsync")
    assert (tree.kernel, tree.protocol) == ("tree", "SIMPLE")
    assert [one.channels for one in (ring, symmetric, copied, tree)] == [8, 3, 0, 0]
    assert [one.count for one in (ring, symmetric, copied, tree)] == [1024, 8, 4096, 2048]
    first = LINES.splitlines()[0]
    assert all(operations_in(first[:length]) == [] for length in range(len(first)))
