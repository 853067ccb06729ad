"""Paths of ``--explain``: fakes log their connections as NCCL and FlagCX do."""

from cclmark.explain.paths import FLAGCX_CLUSTERS, FLAGCX_SINGLE, Route
from cclmark.journal.schema import Ring, Tree
from cclmark.kinds.registry import read_journal

# NVML of a machine whose devices are connected to a switch by 18 NVLinks each.
NVML = """
NVML_NVLINK_MAX_LINKS = 18
NVML_FEATURE_ENABLED = 1

class NVMLError(Exception): pass

class PciInfo:
    def __init__(self, bus): self.domain, self.bus, self.device = 0, bus, 0

def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetHandleByPciBusId(bus_id): return int(bus_id.decode().split(":")[1], 16)
def nvmlDeviceGetPciInfo(handle): return PciInfo(handle)
def nvmlDeviceGetNvLinkState(handle, link): return 1
def nvmlDeviceGetNvLinkRemoteDeviceType(handle, link): return 2
"""
RUN = ("-g", "3", "-b", "1K", "-e", "1K", "-n", "1", "-w", "0", "-c", "0", "--explain")


def with_flagcx(fake_cuda, **variables):
    library = fake_cuda.nccl.parent / "libflagcx.so"
    return fake_cuda.env(CCLMARK_FLAGCX_LIBRARY=str(library), **variables)


def test_connections_of_all_ranks(cclmark, fake_cuda):
    run = cclmark("all_reduce", *RUN, env=fake_cuda.env(NCCL_ALGO="RING"))
    (paths,) = run.journal.paths
    assert (paths.ccl, paths.source, paths.reason) == ("nccl", "log", "")
    assert paths.routes == [
        Route(0, 1, "P2P/CUMEM", 2),
        Route(1, 2, "P2P/CUMEM", 2),
        Route(2, 0, "P2P/CUMEM", 2),
    ]
    assert paths.rings == [Ring([0, 1, 2], 2)]
    assert paths.trees == [Tree([-1, 0, 1], 2)]
    assert paths.parameters["NCCL_ALGO"] == "RING"
    assert paths.parameters["channels of collectives"] == "24"
    # The library lists these, and the log those that are set.
    assert paths.others == {"NCCL_BUFFSIZE": "4194304", "NCCL_P2P_DISABLE": "0"}
    assert not any("NCCL_DEBUG" in name or "PLUGIN" in name for name in paths.parameters)
    assert "all 3 pairs of ranks  P2P/CUMEM, 2 channels" in run.out
    assert "ring        0 → 1 → 2 → 0 (2 channels)" in run.out
    assert "tree        0 ← 1; 1 ← 2 (2 channels)" in run.out
    assert "chunk of messages: 512 KiB, nodes: 1" in run.out


def test_host_memory_beside_nvlinks_is_a_warning(cclmark, fake_cuda, tmp_path):
    (tmp_path / "pynvml.py").write_text(NVML)
    env = fake_cuda.env(NCCL_P2P_DISABLE="1", PYTHONPATH=str(tmp_path))
    run = cclmark("all_reduce", *RUN, env=env)
    assert (
        "nccl: ranks 0–1, 0–2, 1–2 communicate through host memory although 18 NVLinks connect "
        "them: NCCL_P2P_DISABLE=1 is set" in run.out
    )
    relations = run.journal.header.relations
    assert len(relations) == 6
    assert {(one.kind, one.hops) for one in relations} == {("NV18", None)}
    alone = cclmark("all_reduce", *RUN[:-1], env=env)
    assert alone.journal.header.relations == []  # nothing is compared with them
    assert alone.journal.paths == []
    assert "connections" not in alone.out


def test_the_network_within_a_host_is_a_warning(cclmark, fake_cuda):
    env = fake_cuda.env(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1", CCLMARK_FAKE_WARNING="1")
    run = cclmark("all_reduce", *RUN, env=env)
    (paths,) = run.journal.paths
    assert {route.transport for route in paths.routes} == {"NET/Socket"}
    assert {tuple(route.devices) for route in paths.routes} == {("0",)}
    assert len(paths.routes) == 3  # both ends have logged each
    assert paths.messages == [f"rank {rank}: the fake warns" for rank in range(3)]
    assert (
        "nccl: ranks 0–1, 0–2, 1–2 communicate through the network (NET/Socket) although "
        "they are on one host: NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1 are set" in run.out
    )
    assert "nccl reports: rank 2: the fake warns" in run.out


def test_the_json_document_becomes_the_journal_again(cclmark, fake_cuda, tmp_path):
    run = cclmark("all_reduce", *RUN, "--format", "json", env=fake_cuda.env())
    document = tmp_path / "run.json"
    document.write_text(run.out)
    cclmark("import", document, "-o", tmp_path / "again.jsonl")
    again = read_journal(tmp_path / "again.jsonl")
    assert again.paths == run.journal.paths
    assert again.results == run.journal.results


def test_every_library_of_a_run_has_its_own(cclmark, fake_cuda):
    run = cclmark("all_reduce", *RUN, "--ccl", "nccl,flagcx", env=with_flagcx(fake_cuda))
    nccl, flagcx = run.journal.paths
    assert (nccl.ccl, flagcx.ccl) == ("nccl", "flagcx")
    assert FLAGCX_CLUSTERS not in nccl.parameters
    assert flagcx.parameters[FLAGCX_CLUSTERS] == "1"
    assert flagcx.parameters[FLAGCX_SINGLE] == "no"
    assert "warning" not in run.out
    sources = {result.case.ccl: result.explanation.source for result in run.journal.results}
    assert sources == {"nccl": "plug-in", "flagcx": "log"}


def test_flagcx_leaves_its_devices(cclmark, fake_cuda):
    env = with_flagcx(fake_cuda, FLAGCX_CLUSTER_SPLIT_LIST="1,1")
    run = cclmark("all_reduce", "-g", "2", *RUN[2:], "--ccl", "flagcx", env=env)
    (paths,) = run.journal.paths
    assert paths.parameters[FLAGCX_SINGLE] == "yes"
    assert "flagcx: FlagCX communicates through host memory in most operations" in run.out


def test_connections_of_several_communicators_are_not_mixed_up(cclmark, fake_cuda):
    run = cclmark("all_reduce", *RUN, env=fake_cuda.env(CCLMARK_FAKE_SUBSET="2"))
    (paths,) = run.journal.paths
    assert (paths.source, paths.routes, paths.rings, paths.trees) == ("unknown", [], [], [])
    assert "nccl, connections: unknown: the library created communicators of 2 and 3" in run.out


def test_libraries_of_the_engine(cclmark):
    run = cclmark("all_reduce", "--devices", "host:2", *RUN[2:])
    (paths,) = run.journal.paths
    assert (paths.source, paths.rings, paths.trees) == ("engine", [], [])
    assert paths.routes == [Route(0, 1, "shared memory"), Route(1, 0, "shared memory")]
    assert "ranks 0–1  shared memory" in run.out


def test_bridge(cclmark, fake_cuda):
    run = cclmark(
        *("all_reduce", "-g", "4", *RUN[2:], "--ccl", "bridge", "--islands", "0-1=nccl,2-3=nccl"),
        "--through-host",
        env=fake_cuda.env(),
    )
    (paths,) = run.journal.paths
    by_pair = {(route.first, route.second): route.transport for route in paths.routes}
    assert by_pair[0, 1] == "library of the island"
    assert by_pair[0, 2] == by_pair[3, 1] == "host memory"
    assert "communicate through host memory: --through-host is set" in run.out
