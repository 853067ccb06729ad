"""The way through the ACL runtime and HCCL, on fake libraries that compute in host memory."""

import json
from pathlib import Path

import pytest
from vendors import HCCL

from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES, REDUCTIONS
from examples import exhaustive
from patience import deadline_s, waits

SHORT = ("-n", "2", "-w", "1")
TWO = ("--devices", "acl:0,1", "-b", "64", "-e", "64", *SHORT)
THREE = ("--devices", "acl:0-2", "-b", "480", "-e", "480", "-n", "1", "-w", "0")
UNEVEN = ("--pattern", "skew:4")
REDUCED = {"int8", "int16", "int32", "int64", "float16", "float32", "bfloat16"}


@pytest.fixture(scope="module")
def everything(cclmark_in, tmp_path_factory):
    """All operations in one launch, for each form of the library."""
    return {
        variant: cclmark_in(
            tmp_path_factory.mktemp("fake"), "collectives", *THREE, *UNEVEN, env=HCCL.env(variant)
        )
        for variant in ("", "old", "split")
    }


def routes(variant: str, operation: str) -> str:
    """How the operation has to be done, as far as it is not native."""
    if variant == "old":
        composed = ("alltoall", "gather", "scatter", "sendrecv")
        return {**dict.fromkeys(composed, "alltoallv"), "barrier": "all_reduce of 4 bytes"}.get(
            operation, "native"
        )
    return "batch send/recv" if operation in ("gather", "sendrecv") else "native"


@pytest.mark.parametrize("operation", COLLECTIVES)
@pytest.mark.parametrize("variant", ["", "old", "split"], ids=["recent", "old", "split"])
def test_measures_every_operation(everything, operation, variant):
    results = [it for it in everything[variant].journal.results if it.case.operation == operation]
    if variant == "old" and operation == "reduce":
        assert {it.status for it in results} == {"skipped"}
        assert all("no function for reduce" in it.reason for it in results)
        return
    assert len(results) == (1 if operation in ("barrier", "broadcast") else 2)
    for result in results:
        assert (result.status, result.reason) == ("ok", "")
        assert result.verification.where == "host"
        assert result.route.removeprefix("copy aside, then ") == routes(variant, operation)
        if operation == "broadcast":
            assert result.case.placement == "in-place"


def test_devices_libraries_and_the_missing_compiler_are_told(everything):
    run = everything[""]
    header = run.journal.header
    assert [(device.runtime, device.index) for device in header.devices] == [
        ("acl", 0),
        ("acl", 1),
        ("acl", 2),
    ]
    assert {device.name for device in header.devices} == {"Ascend910B3"}
    [library] = header.libraries
    assert (library.name, library.version) == ("hccl", "8.2.RC1")
    assert library.path == str((HCCL.file()).resolve())
    # In the head, or by itself where that was out already.
    assert (
        "checked on the host: kernels are compiled for CUDA only, not for Ascend"
        in run.out + run.err
    )
    times = [result.samples.device_s for result in run.journal.results]
    assert all(time_s is not None for rows in times for row in rows for time_s in row)


@pytest.mark.parametrize(
    ("variant", "root"),
    [
        *(("", 0), ("", 2), ("old", 2)),
        *(exhaustive(*one) for one in (("", 1), ("old", 0), ("old", 1))),
    ],
)
def test_roots(cclmark, root, variant):
    run = cclmark(
        *("collectives", "--only", "broadcast,gather,scatter", *THREE, "-r", str(root)),
        env=HCCL.env(variant),
    )
    assert {(it.status, it.case.root) for it in run.journal.results} == {("ok", root)}


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend950PR_9589"])
def test_every_dtype_and_reduction(cclmark, soc):
    run = cclmark(
        *("all_reduce", *TWO, "-d", "all", "-o", "all", "--placement", "out-of-place"),
        env=HCCL.env(CCLMARK_FAKE_ACL_SOC=soc),
    )
    reduced = REDUCED | ({"uint64", "float64"} if soc.startswith("Ascend950") else set())
    measured, reasons = set(), {}
    for result in run.journal.results:
        key = (result.case.dtype, result.case.reduction)
        if result.status == "ok":
            measured.add(key)
        else:
            assert result.status == "skipped"
            reasons[key] = result.reason
    assert measured == {
        (dtype, reduction)
        for dtype in reduced
        for reduction in ("sum", "prod", "max", "min")
        if (dtype, reduction) not in {("bfloat16", "prod"), ("int16", "prod")}
    }
    assert set(reasons) == {(d, r) for d in DTYPE_BYTES for r in REDUCTIONS} - measured
    assert reasons["float32", "avg"] == "HCCL has no reduction avg"
    assert reasons["bfloat16", "prod"] == "HCCL does not support prod of bfloat16"
    assert reasons["int16", "prod"] == "HCCL does not support prod of int16"
    assert reasons["uint16", "sum"] == f"HCCL does not reduce uint16 on {soc}"
    assert reasons["uint8", "sum"] == f"HCCL does not reduce uint8 on {soc}"
    assert "its code differs between releases" in reasons["fp8e4m3", "sum"]


@pytest.mark.parametrize(("soc", "reduced"), [("Ascend310P3", {"sum"}), ("Ascend910A", set())])
def test_older_products_reduce_less_of_int16(cclmark, soc, reduced):
    run = cclmark(
        *("all_reduce", *TWO, "-d", "float32,int16", "-o", "all", "--placement", "in-place"),
        env=HCCL.env(CCLMARK_FAKE_ACL_SOC=soc),
    )
    results = [it for it in run.journal.results if it.case.dtype == "int16"]
    assert {it.case.reduction for it in results if it.status == "ok"} == reduced
    reasons = {it.case.reduction: it.reason for it in results if it.status == "skipped"}
    assert reasons["max"] == f"HCCL does not reduce int16 on {soc}"


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


def test_every_dtype_is_moved(cclmark):
    operations = ("all_gather", "alltoallv", "sendrecv", "gather")
    run = cclmark(
        *("collectives", "--only", ",".join(operations), *TWO, "-d", "all"), env=HCCL.env()
    )
    statuses = {(one.case.operation, one.case.dtype): one.status for one in run.journal.results}
    assert {key for key, status in statuses.items() if status == "ok"} == {
        (operation, dtype)
        for operation in operations
        for dtype in DTYPE_BYTES
        if not dtype.startswith("fp8")
    }


@pytest.mark.parametrize("arguments", [("-z", "1"), ("--timing", "per-op")], ids=str)
def test_ways_to_measure(cclmark, arguments):
    results = cclmark("all_reduce", *TWO, *arguments, env=HCCL.env()).journal.results
    assert [(it.status, it.samples.operations_per_sample) for it in results] == [("ok", 1)] * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--timing", "graph"), "graphs are not supported with the ACL runtime"),
        (("-m", "4"), "does not support groups of operations"),
        (("--register", "local"), "not supported with HCCL"),
    ],
    ids=str,
)
def test_what_is_not_there_is_skipped_with_the_reason(cclmark, arguments, words):
    run = cclmark("all_reduce", *TWO, *arguments, code=3, env=HCCL.env())
    assert [result.status for result in run.journal.results] == ["skipped", "skipped"]
    assert all(words in result.reason for result in run.journal.results)


def test_pairs_are_measured_with_send_and_recv(cclmark):
    run = cclmark(
        *("pairs", "--devices", "acl:0-2", "-b", "4K", "-e", "4K", *SHORT), env=HCCL.env()
    )
    statuses = {(it.case.operation, it.status) for it in run.journal.results}
    assert ("ping_pong", "ok") in statuses
    assert {status for _, status in statuses} == {"ok"}
    placements = {(it.case.operation, it.case.in_place) for it in run.journal.results}
    assert {operation for operation, in_place in placements if in_place} == {"broadcast"}
    assert "\n  broadcast in-place · hccl\n" in run.out


def test_islands(cclmark):
    """Through the host: memory that the runtime did not allocate."""
    arguments = ("--devices", "acl:0-3", "--ccl", "bridge", "--islands", "0-1=hccl,2-3=hccl")
    run = cclmark("collectives", *arguments, "-b", "4K", "-e", "4K", *SHORT, env=HCCL.env())
    assert {(it.status, it.reason) for it in run.journal.results} == {("ok", "")}


def test_a_missing_operation_is_skipped_with_the_reason(cclmark):
    only = ("--only", "all_reduce,reduce_scatter,alltoallv", "--devices", "acl:0,1")
    env = HCCL.env("bare")
    run = cclmark("collectives", *only, "-b", "4K", "-e", "4K", *SHORT, env=env)
    for result in run.journal.results:
        missing = result.case.operation == "reduce_scatter"
        assert result.status == ("skipped" if missing else "ok")
        assert ("has no function for reduce_scatter" in result.reason) == missing


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
    devices = cclmark("info", env=HCCL.env()).out
    assert "acl:3  Ascend910B3" in devices
    assert "compute capability" not in devices


def test_a_path_goes_before_the_variable(cclmark):
    env = HCCL.env(CCLMARK_HCCL_LIBRARY="/nonexistent")
    path = str(HCCL.file("old"))
    run = cclmark("all_reduce", *TWO, "--ccl-path", path, env=env)
    assert run.journal.header.libraries[0].path == str(Path(path).resolve())


DRIVER = ("driver error: {0}: EL0003: the driver", "code 507899", "Install the driver", "davinci_m")
BOTH = {name: str(HCCL.file().parent / f"lib{name.lower()}.so") for name in ("ASCENDCL", "HCCL")}


@pytest.mark.parametrize(
    ("arguments", "variable", "value", "words"),
    [
        *((TWO, "FAKE_ACL_FAIL", call, DRIVER) for call in ("aclInit", "aclrtGetDeviceCount")),
        (TWO, "FAKE_DEVICES", "0", ("aclInit failed",)),
        # A command that names no device is not given the host.
        *(
            (number, "FAKE_ACL_FAIL", "aclInit", ("the Ascend devices of this machine cannot be",))
            for number in ((), ("-g", "2"))
        ),
        *(
            (TWO, f"{name}_LIBRARY", "/none.so", (words, "is set to this path", "set_env.sh"))
            for name, words in (
                ("ASCENDCL", "the ACL runtime (libascendcl) was not found"),
                ("HCCL", "HCCL (libhccl) was not found"),
            )
        ),
        (TWO, "ASCENDCL_LIBRARY", BOTH["HCCL"], ("libhccl.so has no symbol aclInit",)),
        (
            *(TWO, "HCCL_LIBRARY", BOTH["ASCENDCL"]),
            ("libascendcl.so has no HcclGetRootInfo", "libhcomm"),
        ),
        (
            *(("--devices", "acl:0,1", "-b", "1G", "-e", "1G", *SHORT), "FAKE_MEMORY"),
            *(str(8 << 20), ("nothing was measured",)),
        ),
        ((*TWO, "--only", "broadcast", "--placement", "out-of-place"), "", "", ("in place only",)),
    ],
)
def test_what_is_missing_is_reported(cclmark, arguments, variable, value, words):
    """Also on a machine with CANN and without a device: a build machine, many a container."""
    command = "pairs" if "--only" in arguments else "all_reduce"
    env = HCCL.env(**{f"CCLMARK_{variable}": value} if variable else {})
    run = cclmark(command, *arguments, code=3, env=env)
    for one in words:
        assert one.format(value) in run.out + run.err


def test_info_goes_on_without_a_driver(cclmark):
    run = cclmark("info", env=HCCL.env(CCLMARK_FAKE_ACL_FAIL="aclInit"))
    assert "runtime acl: aclInit failed" in run.out
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
