"""Lines of libraries' logs about their algorithms, and what is recorded of standard output."""

import subprocess
import sys

import pytest

from cclmark.plan.libraries import log_of, shipped
from cclmark.plan.library_files import Log
from cclmark.run.instruments import operations_of_log

ONECCL = (
    "2026:11:24-04:22:55:16342:[1] |CCL_DEBUG| selector_impl.hpp:355 get: selected algo: coll "
    "allreduce, count 16, algo recursive_doubling\n"
)
HCCL = (
    "[INFO] HCCL(1595259,python):2026-01-06-15:38:29.882.077 [op_common.cc:102] [1595259] "
    "[HCCL_ALG]: [SelectAlg] algTag[AllReduce_127.10.0.1%eth1_30000_0_17365_host] "
    "algName[AllReduceMeshExecutor] userRank[0] algType[level0:fullmesh,level1:ring,level2:null] "
    "userRankSize[8] level0Size[8] moduleNum[1] level2Size[1] opExpansionMode[HOST] "
    "isZeroCopy[0] isOpBase[1].\n"
)


def test_oneccls_line():
    (found,) = operations_of_log(f"noise\n{ONECCL}more noise\n", log_of("oneccl"))
    assert (found.function, found.kernel, found.algorithm, found.channels) == (
        *("allreduce", "recursive doubling"),
        *("recursive_doubling", 0),
    )
    assert found.choice == "recursive doubling"


@pytest.mark.parametrize(
    ("kind", "algorithm"), [("selected hint algo", "ring"), ("selected scale-out algo", "direct")]
)
def test_oneccls_other_selections(kind, algorithm):
    line = f"|CCL_DEBUG| selector_impl.hpp:278 get: {kind}: coll reduce, count 4, algo {algorithm}"
    assert [one.algorithm for one in operations_of_log(line, log_of("oneccl"))] == [algorithm]


def test_hccls_line():
    (found,) = operations_of_log(HCCL, log_of("hccl"))
    assert (found.kernel, found.algorithm) == (
        "AllReduceMeshExecutor",
        "level0:fullmesh,level1:ring,level2:null",
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("oneccl", ONECCL[:-30]),
        ("oneccl", ONECCL.replace("CCL_DEBUG", "CCL_INFO")),
        ("hccl", HCCL[:150]),
        ("hccl", "[HCCL_ALG]: [InitRankInfo] userRank[0] userRankSize[8] serverNum[1]\n"),
    ],
)
def test_other_lines_and_parts_of_lines_are_no_operation(name, line):
    assert operations_of_log(line, log_of(name)) == []


def test_all_groups():
    log = Log(pattern=r"(?P<algorithm>\w+) (?P<protocol>\w+) on (?P<channels>\w+)")
    found = operations_of_log("TREE LL on 3\nTREE LL on many\n", log)
    assert [(one.algorithm, one.protocol, one.channels) for one in found] == [
        ("TREE", "LL", 3),
        ("TREE", "LL", 0),
    ]


def test_the_libraries_that_log():
    assert {name for name in shipped() if log_of(name).pattern} == {"hccl", "oneccl"}


def run_program(program):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_standard_output_of_c_is_read_by_case():
    run = run_program("""
import ctypes, os, sys
from cclmark.plan.libraries import log_of
from cclmark.run.instruments import LibraryLog
c = ctypes.CDLL(None)
print("before")
c.printf(b"before in C\\n")
log = LibraryLog(["oneccl", "shm"])
assert os.environ["CCL_LOG_LEVEL"] == "debug"
c.printf(b"|CCL_DEBUG| selected algo: coll reduce, count 1, algo while_loading\\n")
for name in ("ring", "tree"):
    log.begin()
    c.printf(f"|CCL_DEBUG| selected algo: coll reduce, count 1, algo {name}\\n".encode())
    print([one.algorithm for one in log.operations(log_of("oneccl"))], file=sys.stderr)
""")
    assert run.stderr.splitlines() == ["['ring']", "['tree']"]
    assert sorted(run.stdout.splitlines()) == ["before", "before in C"]


def test_standard_output_stays_without_a_library_that_logs():
    run = run_program("""
from cclmark.run.instruments import LibraryLog
log = LibraryLog(["nccl", "unknown"])
log.begin()
print("after")
""")
    assert run.stdout == "after\n"
