from itertools import permutations

from msgspec.structs import replace

from cclmark.analysis.hosts import differences_between, unlike_devices
from cclmark.analysis.links import path_warnings
from cclmark.explain.paths import FLAGCX_SINGLE, INFINIBAND, PEER_ACCESS, RankPaths, Route
from cclmark.journal.schema import (
    DeviceDescription,
    HostDescription,
    Machine,
    Paths,
    Relation,
)
from cclmark.kinds.registry import read_journal
from cclmark.launch.rank_messages import paths_of
from cclmark.rendezvous.messages import Connected
from goldens import outline, require_golden, require_stated
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
THROUGH_HOST = Paths("bridge", "engine", routes=both_ways("host memory"))
ALONE = Paths("flagcx", parameters={FLAGCX_SINGLE: "yes"})
#: The header, the transport or the paths, and the parameters of the library.
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
    # Data that pass through the host.
    ({}, ALONE, {}),
    ({"environment": {"FLAGCX_USE_HOST_COMM": "1"}}, Paths("flagcx"), {}),
    ({}, THROUGH_HOST, {}),
    ({"runtime": "host"}, THROUGH_HOST, {}),
]


def test_paths_that_are_worse_than_the_topology():
    lines = []
    for header, transport, parameters in PATHS:
        of = {"parameters": parameters, "network_devices": ["mlx5_0", "mlx5_1"]}
        is_whole = isinstance(transport, Paths)
        ours = transport if is_whole else paths(transport, header.get("ranks", 2), **of)
        lines += path_warnings(a_header(**header), ours) or ["-"]
    require_golden("texts/path-warnings.txt", "\n".join([*lines, ""]))


def part(rank, **more):
    return Connected(rank, b"", "nccl", "log", "", RankPaths(**more), [])


def whole_part(rank):
    before, after = (rank + 2) % 3, (rank + 1) % 3
    ends = [(rank, after), (before, rank)]
    return part(
        rank,
        routes=[Route(*both, "NET/IB", 2, [str(rank)]) for both in ends],
        ring_next={0: (rank, after), 1: (rank, before)},
        tree_parent={0: (rank, rank - 1)},
        parameters={"nodes": "3"},
        messages=["odd"] if rank == 1 else [],
    )


def test_the_parts_of_ranks_become_one():
    """Rings without the lines of a rank are left out, and a log that contradicts itself does not
    end in an endless ring.
    """
    first = part(0, ring_next={0: (0, 1)}, tree_parent={0: (0, -1)})
    parts = {
        "three ranks": [*map(whole_part, range(3))],
        "a rank without lines": [first, part(1, ring_next={})],
        "contradiction": [part(rank, ring_next={rank: (rank, rank)}) for rank in (0, 1)],
    }
    found = {name: outline(paths_of(own))[:-1] for name, own in parts.items()}
    require_stated("texts/paths-of-ranks.txt", found)


MACHINE = Machine("a", "Debian", "6.1", "EPYC", 8, 1 << 30, vendor_driver="580.1")
FIRST_HOST = HostDescription(MACHINE, "id-a", {"NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "0"})
OWN = {**FIRST_HOST.environment, "CUDA_VISIBLE_DEVICES": "1", "CCLMARK_INTERFACE": "eth1"}


def other(**changes):
    of_machine = {name: text for name, text in changes.items() if hasattr(MACHINE, name)}
    rest = {name: value for name, value in changes.items() if name not in of_machine}
    machine = replace(MACHINE, hostname="b", **of_machine)
    return replace(FIRST_HOST, machine=machine, identity="id-b", **rest)


#: What differs between two hosts.
HOSTS = {
    "nothing": {},
    "half a second": {"clock_ahead_s": 0.5},
    "own devices and interface": {"environment": OWN},
    "driver": {"vendor_driver": "570.2"},
    "value": {"environment": {"NCCL_ALGO": "Tree"}},
    "no value": {"environment": {}},
    "clock": {"clock_ahead_s": -7.0},
}


def test_a_difference_is_told_once():
    found = {
        name: differences_between([FIRST_HOST, other(**changes)]) for name, changes in HOSTS.items()
    }
    assert differences_between([FIRST_HOST]) == []
    require_stated("words/host-differences.txt", found)


def of_rank(rank, runtime="cuda", name="H200", max_clock_hz=1.98e9):
    device = DeviceDescription(rank, "a", runtime, 0, name, 150 << 30, driver_version="13.0")
    return replace(device, max_clock_hz=max_clock_hz)


def test_devices_that_differ_as_far_as_that_is_known():
    slower = of_rank(1, max_clock_hz=1.5e9, name="H20")
    assert unlike_devices([of_rank(0), slower, of_rank(2)]) == [
        "devices differ in names: H200 of ranks 0,2, H20 of ranks 1",
        "devices differ in highest clocks: 1980 MHz of ranks 0,2, 1500 MHz of ranks 1",
    ]
    for unknown in (of_rank(1, max_clock_hz=0.0), of_rank(1, "host", "EPYC")):
        assert unlike_devices([of_rank(0), unknown]) == []
