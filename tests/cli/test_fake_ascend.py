"""The way through the ACL runtime and HCCL, on fake libraries that compute in host memory."""

import json
import re
from pathlib import Path

import pytest
from vendors import HCCL, outcomes

from goldens import require_golden
from patience import deadline_s, waits

SHORT = ("-n", "2", "-w", "1")
TWO = ("--devices", "acl:0,1", "-b", "64", "-e", "64", *SHORT)
THREE = ("--devices", "acl:0-2", "-b", "480", "-e", "480", "-n", "1", "-w", "0")
UNEVEN = ("--pattern", "skew:4")
REDUCED = {"int8", "int16", "int32", "int64", "float16", "float32", "bfloat16"}


EVERYTHING = ("collectives", *THREE, *UNEVEN, "-r", "all")
ISLANDS = ("--devices", "acl:0-3", "--ccl", "bridge", "--islands", "0-1=hccl,2-3=hccl")
OF_4K = ("-b", "4K", "-e", "4K", *SHORT)
MOVING = ("--only", "all_gather,alltoallv,sendrecv,gather")
OF_TYPES = ("all_reduce", *TWO, "-o", "all", "--placement", "out-of-place", "-d")
OLDER = (*OF_TYPES, "float32,int16")
# Of a variant of the library, or of another product.
RUNS = {
    **{variant or "recent": (EVERYTHING, variant) for variant in ("", "old", "split", "bare")},
    "Ascend910B3": ((*OF_TYPES, "all"), ""),
    "Ascend950PR_9589": ((*OF_TYPES, "all"), ""),
    "Ascend310P3": (OLDER, ""),
    "Ascend910A": (OLDER, ""),
    "moved": (("collectives", *MOVING, *TWO, "-d", "all"), ""),
    "pairs": (("pairs", "--devices", "acl:0-2", *OF_4K), ""),
    "islands": (("collectives", *ISLANDS, *OF_4K), ""),
    "graph": (("all_reduce", *TWO, "--timing", "graph"), ""),
    "group": (("all_reduce", *TWO, "-m", "4"), ""),
    "memory": (("all_reduce", "--devices", "acl:0,1", "-b", "1G", "-e", "1G", *SHORT), ""),
    "pairs-out-of-place": (
        ("pairs", *TWO, "--only", "broadcast", "--placement", "out-of-place"),
        "",
    ),
    "registered": (("all_reduce", *TWO, "--register", "local"), ""),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_becomes_of_every_case(cclmark, name):
    arguments, variant = RUNS[name]
    soc = name if name.startswith("Ascend") else "Ascend910B3"
    memory = str(8 << (20 if name == "memory" else 30))
    env = HCCL.env(variant, CCLMARK_FAKE_ACL_SOC=soc, CCLMARK_FAKE_MEMORY=memory)
    run = cclmark(*arguments, env=env, code=(0, 3))
    assert ("nothing was measured" in run.err) == (run.code == 3)
    require_golden(f"fakes/hccl-{name.lower()}.txt", outcomes(run))
    if name == "recent":
        times_s = [result.samples.device_s for result in run.journal.results]
        assert all(time_s is not None for rows in times_s for row in rows for time_s in row)


def test_the_missing_compiler_is_told(cclmark):
    run = cclmark("barrier", *TWO, env=HCCL.env())
    assert run.journal.header.libraries[0].path == str(HCCL.file().resolve())
    # In the head, or by itself where that was out already.
    notice = "checked on the host: no compiler of kernels at run time is known for Ascend devices"
    assert notice in run.out + run.err


def test_wrong_16_bit_integers_are_found(cclmark):
    """An element of the output of one rank is changed: the host's check names its value."""
    run = cclmark(
        *("all_gather", *TWO, "-d", "int16,uint16", "--inject", "corrupt:rank=1,index=5"),
        code=1,
        env=HCCL.env(),
    )
    found = {it.case.dtype: it.verification for it in run.journal.results}
    assert {dtype: (it.wrong, it.findings[0].first_element) for dtype, it in found.items()} == {
        "int16": (1, 5),
        "uint16": (1, 5),
    }
    assert 0 <= int(found["uint16"].findings[0].expected) < 1 << 16
    assert -(1 << 15) <= int(found["int16"].findings[0].expected) < 1 << 15


def test_command_lines_of_hccl_test_are_run(cclmark):
    """All its options, by both of their names, and all its types: docs/from/hccl-test.md."""
    short = "-b 1K -e 4K -f 4 -n 2 -o max -d fp16 -r 0 -w 1 -c 1 -p 2"
    long = "--minbytes 1K --maxbytes 4K --stepbytes 3K --iters 2 --op max --datatype fp16 --root 0"
    long += " --warmup_iters 1 --check 1 --npus 2"
    seen = []
    for line in (short, long):
        run = cclmark("reduce", *line.split(), env=HCCL.env())
        settings = run.journal.header.settings
        assert (settings.iterations, settings.warmup, settings.check) == (2, 1, 1)
        seen.append([one.case for one in run.journal.results])
        assert {one.status for one in run.journal.results} == {"ok"}
        assert len(run.journal.header.devices) == 2
    assert seen[0] == seen[1]
    types = "int8,int16,int32,fp16,fp32,int64,uint64,uint8,uint16,uint32,fp64,bfp16"
    run = cclmark("all_gather", *TWO, "-d", types, env=HCCL.env())
    assert {one.status for one in run.journal.results} == {"ok"}
    assert len({one.case.dtype for one in run.journal.results}) == 12


@pytest.mark.parametrize("arguments", [("-z", "1"), ("--timing", "per-op")], ids=str)
def test_ways_to_measure(cclmark, arguments):
    results = cclmark("all_reduce", *TWO, *arguments, env=HCCL.env()).journal.results
    assert [(it.status, it.samples.operations_per_sample) for it in results] == [("ok", 1)] * 2


def test_the_log_explains_what_hccl_does(cclmark):
    explained = ("--only", "all_reduce,all_gather", *TWO[:2], *THREE[2:], "--explain")
    run = cclmark("collectives", *explained, "--placement", "out-of-place", env=HCCL.env())
    found = {result.case.operation: result.explanation for result in run.journal.results}
    reduced, gathered = found["all_reduce"], found["all_gather"]
    assert (reduced.source, reduced.kernel) == ("log", "AllReduceMeshExecutor")
    assert reduced.algorithm == "level0:fullmesh,level1:ring,level2:null"
    assert reduced.reason == ""
    assert gathered.source == "unknown"
    assert gathered.reason == (
        "the log of hccl contains no line about the algorithm; HCCL_ALGO is not set: the library "
        "decides"
    )
    ring = HCCL.env(HCCL_ALGO="level0:NA;level1:ring")
    chosen = cclmark("collectives", *explained, "--placement", "out-of-place", env=ring)
    assert "; HCCL_ALGO=level0:NA;level1:ring is set" in chosen.out


def test_info_tells_what_the_library_can_do(cclmark, without_torch):
    run = cclmark("info", "--ccls", "--json", env=HCCL.env("old") | without_torch)
    report = {entry["name"]: entry for entry in json.loads(run.out)["ccls"]}["hccl"]
    assert report["runtimes"] == ["acl"]
    assert report["version"] == "8.2.RC1"
    assert report["id_bytes"] == 4108
    assert report["in_place_only"] == ["broadcast"]
    assert set(report["reduced_dtypes"]) == REDUCED
    assert report["routes"]["gather"] == "alltoallv"
    assert "reduce" not in report["routes"]
    assert "BatchSendRecv" in report["lacks"]
    assert "fake" in report["verified"]
    devices = cclmark("info", "--all", env=HCCL.env()).out
    assert "acl:3  Ascend910B3" in devices
    assert "compute capability" not in devices


def test_a_path_goes_before_the_variable(cclmark):
    env = HCCL.env(CCLMARK_HCCL_LIBRARY="/nonexistent")
    path = str(HCCL.file("old"))
    run = cclmark("all_reduce", *TWO, "--ccl-path", path, env=env)
    assert run.journal.header.libraries[0].path == str(Path(path).resolve())


def test_info_goes_on_without_a_driver(cclmark):
    run = cclmark("info", env=HCCL.env(CCLMARK_FAKE_ACL_FAIL="aclInit"))
    assert re.search("runtime acl +aclInit failed", run.out)
    assert "hccl 8.2.RC1" in run.out


class TestFaults:
    @pytest.mark.parametrize(
        ("operation", "fault", "rank"),
        [("all_reduce", "1:AllReduce:7", 1), ("gather", "0:Recv:7", 0)],
    )
    def test_wrong_data_is_found_and_the_rank_named(self, cclmark, operation, fault, rank):
        env = HCCL.env(CCLMARK_FAKE_NCCL_CORRUPT=fault)
        run = cclmark(operation, *TWO, "--placement", "out-of-place", code=1, env=env)
        [result] = run.journal.results
        found = [(it.rank, it.first_element) for it in result.verification.findings]
        assert found == [(rank, 7)]
        assert f"rank {rank}: " in run.out

    @pytest.mark.parametrize("call", ["SetDevice", "CommInitRootInfo", "AllReduce"])
    def test_a_failing_call_is_told_with_the_vendors_words(self, cclmark, no_leaks, call):
        fail = {"NCCL_FAIL": f"1:{call}"} if call != "SetDevice" else {"ACL_FAIL": "aclrtSetDevice"}
        env = HCCL.env(**{f"CCLMARK_FAKE_{name}": value for name, value in fail.items()})
        run = cclmark("all_reduce", *TWO, code=4, env=env)
        if call == "SetDevice":
            assert "aclrtSetDevice failed" in run.err
            return
        assert "cclmark: rank 1 (acl:1, pid " in run.message
        words = f"injected failure of {call} on rank 1"
        assert f"Hccl{call} failed: internal error: {words} (code 4)" in run.message

    def test_a_hanging_operation_ends_at_the_deadline(self, cclmark, no_leaks):
        env = HCCL.env(CCLMARK_FAKE_NCCL_HANG="1:AllReduce")
        only = ("--only", "broadcast,all_reduce,all_gather", "--placement", "in-place")
        run = cclmark("collectives", *only, *TWO, *waits(2), code=4, env=env, timeout_s=30)
        assert f"waited {deadline_s(2):g} s" in run.message
        found = [(result.case.operation, result.status) for result in run.journal.results]
        assert found == [("broadcast", "ok"), ("all_reduce", "timeout"), ("all_gather", "ok")]
        # New ranks have the same reason, which is reported once.
        assert (run.out + run.err).count("outputs are checked on the host") == 1

    def test_an_asynchronous_failure_is_told(self, cclmark, no_leaks):
        """Rank 1 never comes: the wait of its peer ends with an error of the library."""
        env = HCCL.env(CCLMARK_FAKE_NCCL_HANG="1:AllReduce", CCLMARK_FAKE_TIMEOUT_S="1")
        run = cclmark("all_reduce", *TWO, code=4, env=env, timeout_s=30)
        assert "HcclGetCommAsyncError failed: call system interface error: timed out" in run.message


class TestAnotherInterface:
    """The library takes an argument for something else than the caller means, as it would if the
    caller had its numbers or their order wrong: that must not go unnoticed.
    """

    @pytest.mark.parametrize(
        ("argument", "operations"),
        [
            ("dtype", "all_reduce,all_gather"),
            ("op", "reduce_scatter"),
            ("root", "broadcast,scatter"),
            ("direction", "sendrecv,gather"),
        ],
    )
    def test_wrong_data_is_caught(self, cclmark, argument, operations):
        env = HCCL.env(CCLMARK_FAKE_HCCL_MISREAD=argument)
        run = cclmark("collectives", "--only", operations, *THREE, code=1, env=env)
        found = {(result.case.operation, result.status) for result in run.journal.results}
        assert found == {(operation, "wrong") for operation in operations.split(",")}

    @pytest.mark.parametrize(
        ("argument", "operation", "variant", "words"),
        [
            ("displacements", "alltoallv", "", "a rank's part for itself has two sizes"),
            ("displacements", "gather", "old", "HcclAlltoAllV failed"),
            ("root", "sendrecv", "", "HcclGetCommAsyncError failed"),
            ("root info", "all_reduce", "", "the root info is not, in all its bytes"),
        ],
    )
    def test_what_cannot_be_done_is_caught(
        self, cclmark, no_leaks, argument, operation, variant, words
    ):
        env = HCCL.env(variant, CCLMARK_FAKE_HCCL_MISREAD=argument, CCLMARK_FAKE_TIMEOUT_S="1")
        run = cclmark(operation, *THREE, *waits(10), code=4, env=env)
        assert words in run.message


def test_steps_of_an_operation_are_those_of_the_documents(cclmark, tmp_path):
    trace = tmp_path / "t.pftrace"
    run = cclmark(
        *("trace", "broadcast", "--devices", "acl:0-2", "-b", "768", "-n", "2", "-w", "0"),
        *("--placement", "in-place", "--steps", "-O", trace),
        env=HCCL.env(),
    )
    assert "derived from the algorithm in the library's documents, which may not have" in run.out
    lines = (tmp_path / "t.steps.csv").read_text().splitlines()
    # A copy in, 2 parts to the others, each part to 2 others, and 2 copies out.
    assert len(lines) == 1 + 1 + 2 + 6 + 2
    assert all(line.endswith(",documented") for line in lines[1:])
