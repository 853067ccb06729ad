"""Paths of ``--explain``: fakes log their connections as NCCL and FlagCX do."""

import re

import pytest

from cclmark.kinds.registry import read_journal
from goldens import outline, require_golden

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


ON_DEVICES = ("all_reduce", *RUN)
OF_TWO = ("-b", "1K", "-e", "1K", "-n", "1", "-w", "0", "-c", "0", "--explain")
ISLANDS = ("--ccl", "bridge", "--islands", "0-1=nccl,2-3=nccl", "--through-host")
NO_PEERS = {"NCCL_P2P_DISABLE": "1"}
# Arguments and variables.
RUNS = {
    "all-ranks": (ON_DEVICES, {"NCCL_ALGO": "RING"}),
    # The network within a host is a warning.
    "network": (ON_DEVICES, NO_PEERS | {"NCCL_SHM_DISABLE": "1", "CCLMARK_FAKE_WARNING": "1"}),
    "two-libraries": ((*ON_DEVICES, "--ccl", "nccl,flagcx"), {}),
    "flagcx-leaves-its-devices": (
        ("all_reduce", "-g", "2", *OF_TWO, "--ccl", "flagcx"),
        {"FLAGCX_CLUSTER_SPLIT_LIST": "1,1"},
    ),
    # Those of several communicators are not mixed up.
    "several-communicators": (ON_DEVICES, {"CCLMARK_FAKE_SUBSET": "2"}),
    "engine": (("all_reduce", "--devices", "host:2", *OF_TWO), {}),
    "bridge": (("all_reduce", "-g", "4", *OF_TWO, *ISLANDS), {}),
}


@pytest.mark.parametrize("name", RUNS)
def test_connections(cclmark, fake_cuda, name):
    """As the journal has them, and as the run prints them."""
    arguments, variables = RUNS[name]
    library = fake_cuda.nccl.parent / "libflagcx.so"
    run = cclmark(*arguments, env=fake_cuda.env(CCLMARK_FLAGCX_LIBRARY=str(library), **variables))
    shown = re.findall(r"^ *(\S+, connections.*?\n)\n", run.out, re.MULTILINE | re.DOTALL)
    findings = re.findall(r"^ .*(?:communicates? through| reports: ).*\n", run.out, re.MULTILINE)
    sources = {result.case.ccl: result.explanation.source for result in run.journal.results}
    text = outline([sources, *run.journal.paths])
    require_golden(f"paths/{name}.txt", text + "".join([*shown, *findings]))


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


def test_the_json_document_becomes_the_journal_again(cclmark, fake_cuda, tmp_path):
    run = cclmark("all_reduce", *RUN, "--format", "json", env=fake_cuda.env())
    document = tmp_path / "run.json"
    document.write_text(run.out)
    cclmark("import", document, "-o", tmp_path / "again.jsonl")
    again = read_journal(tmp_path / "again.jsonl")
    assert again.paths == run.journal.paths
    assert again.results == run.journal.results
