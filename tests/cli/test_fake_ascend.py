"""The way through the ACL runtime and HCCL, on fake libraries that compute in host memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from cclmark.kinds.experiment.result import TrialResult
from cclmark.work.operations import COLLECTIVES, DTYPE_BYTES, REDUCTIONS
from fake_libraries import fake_library
from patience import deadline_s, waits

SHORT = ("-n", "2", "-w", "1")
TWO = ("--devices", "acl:0,1", "-b", "64", "-e", "64", *SHORT)
THREE = ("--devices", "acl:0-2", "-b", "480", "-e", "480", "-n", "1", "-w", "0")
UNEVEN = ("--pattern", "skew:4")
REDUCED = {"int8", "int16", "int32", "int64", "float16", "float32", "bfloat16"}
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}


@dataclass(frozen=True)
class FakeAscend:
    """Where the fake libraries are, and the environment that makes cclmark take them."""

    directory: Path

    def env(self, variant: str = "", **extra: str) -> dict[str, str]:
        """``variant``: "old" lacks most functions, "split" is a library in two files."""
        return {
            "CCLMARK_ASCENDCL_LIBRARY": str(self.directory / "libascendcl.so"),
            "CCLMARK_HCCL_LIBRARY": str(self.directory / variant / "libhccl.so"),
            **extra,
        }


@pytest.fixture(scope="module")
def ascend() -> FakeAscend:
    return FakeAscend(fake_library("libascendcl.so").parent)


@pytest.fixture(scope="module")
def everything(cclmark_in, ascend, tmp_path_factory):
    """All operations in one launch, for each form of the library."""
    return {
        variant: cclmark_in(
            tmp_path_factory.mktemp("fake"), "collectives", *THREE, *UNEVEN, env=ascend.env(variant)
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


def test_devices_libraries_and_the_missing_compiler_are_told(everything, ascend):
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
    assert library.path == str((ascend.directory / "libhccl.so").resolve())
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
        *(
            pytest.param(*one, marks=pytest.mark.exhaustive)
            for one in (("", 1), ("old", 0), ("old", 1))
        ),
    ],
)
def test_roots(cclmark, ascend, root, variant):
    run = cclmark(
        *("collectives", "--only", "broadcast,gather,scatter", *THREE, "-r", str(root)),
        env=ascend.env(variant),
    )
    assert {(it.status, it.case.root) for it in run.journal.results} == {("ok", root)}


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend950PR_9589"])
def test_every_dtype_and_reduction(cclmark, ascend, soc):
    run = cclmark(
        *("all_reduce", *TWO, "-d", "all", "-o", "all", "--placement", "out-of-place"),
        env=ascend.env(CCLMARK_FAKE_ACL_SOC=soc),
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
def test_older_products_reduce_less_of_int16(cclmark, ascend, soc, reduced):
    run = cclmark(
        *("all_reduce", *TWO, "-d", "float32,int16", "-o", "all", "--placement", "in-place"),
        env=ascend.env(CCLMARK_FAKE_ACL_SOC=soc),
    )
    results = [it for it in run.journal.results if it.case.dtype == "int16"]
    assert {it.case.reduction for it in results if it.status == "ok"} == reduced
    reasons = {it.case.reduction: it.reason for it in results if it.status == "skipped"}
    assert reasons["max"] == f"HCCL does not reduce int16 on {soc}"


def test_wrong_16_bit_integers_are_found(cclmark, ascend):
    """An element of the output of one rank is changed: the host's check names its value."""
    run = cclmark(
        *("all_gather", *TWO, "-d", "int16,uint16", "--inject", "corrupt:rank=1,index=5"),
        code=1,
        env=ascend.env(),
    )
    found = {it.case.dtype: it.verification for it in run.journal.results}
    assert {dtype: (it.wrong, it.findings[0].first_element) for dtype, it in found.items()} == {
        "int16": (1, 5),
        "uint16": (1, 5),
    }
    assert 0 <= int(found["uint16"].findings[0].expected) < 1 << 16
    assert -(1 << 15) <= int(found["int16"].findings[0].expected) < 1 << 15


def test_command_lines_of_hccl_test_are_run(cclmark, ascend):
    """All its options, by both of their names, and all its types: docs/from/hccl-test.md."""
    short = "-b 1K -e 4K -f 4 -n 2 -o max -d fp16 -r 0 -w 1 -c 1 -p 2"
    long = "--minbytes 1K --maxbytes 4K --stepbytes 3K --iters 2 --op max --datatype fp16 --root 0"
    long += " --warmup_iters 1 --check 1 --npus 2"
    seen = []
    for line in (short, long):
        run = cclmark("reduce", *line.split(), env=ascend.env())
        settings = run.journal.header.settings
        assert (settings.iterations, settings.warmup, settings.check) == (2, 1, 1)
        seen.append([one.case for one in run.journal.results])
        assert {one.status for one in run.journal.results} == {"ok"}
        assert len(run.journal.header.devices) == 2
    assert seen[0] == seen[1]
    types = "int8,int16,int32,fp16,fp32,int64,uint64,uint8,uint16,uint32,fp64,bfp16"
    run = cclmark("all_gather", *TWO, "-d", types, env=ascend.env())
    assert {one.status for one in run.journal.results} == {"ok"}
    assert len({one.case.dtype for one in run.journal.results}) == 12


def test_every_dtype_is_moved(cclmark, ascend):
    operations = ("all_gather", "alltoallv", "sendrecv", "gather")
    run = cclmark(
        *("collectives", "--only", ",".join(operations), *TWO, "-d", "all"), env=ascend.env()
    )
    statuses = {(one.case.operation, one.case.dtype): one.status for one in run.journal.results}
    assert {key for key, status in statuses.items() if status == "ok"} == {
        (operation, dtype)
        for operation in operations
        for dtype in DTYPE_BYTES
        if not dtype.startswith("fp8")
    }


@pytest.mark.parametrize(
    ("arguments", "operations"), [(("-z", "1"), 1), (("--timing", "per-op"), 1)], ids=str
)
def test_ways_to_measure(cclmark, ascend, arguments, operations):
    run = cclmark("all_reduce", *TWO, *arguments, env=ascend.env())
    results = run.journal.results
    assert [result.status for result in results] == ["ok", "ok"]
    assert {result.samples.operations_per_sample for result in results} == {operations}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--timing", "graph"), "graphs are not supported with the ACL runtime"),
        (("-m", "4"), "does not support groups of operations"),
        (("--register", "local"), "not supported with HCCL"),
    ],
    ids=str,
)
def test_what_is_not_there_is_skipped_with_the_reason(cclmark, ascend, arguments, words):
    run = cclmark("all_reduce", *TWO, *arguments, code=3, env=ascend.env())
    assert [result.status for result in run.journal.results] == ["skipped", "skipped"]
    assert all(words in result.reason for result in run.journal.results)


def test_pairs_are_measured_with_send_and_recv(cclmark, ascend):
    run = cclmark(
        *("pairs", "--devices", "acl:0-2", "-b", "4K", "-e", "4K", *SHORT), env=ascend.env()
    )
    statuses = {(it.case.operation, it.status) for it in run.journal.results}
    assert ("ping_pong", "ok") in statuses
    assert {status for _, status in statuses} == {"ok"}
    placements = {(it.case.operation, it.case.in_place) for it in run.journal.results}
    assert {operation for operation, in_place in placements if in_place} == {"broadcast"}
    assert "\n  broadcast in-place · hccl\n" in run.out


def test_variants_of_broadcast_are_compared_in_place(cclmark, ascend):
    run = cclmark(
        *("experiment", "broadcast", "--devices", "acl:0,1", "-b", "4K", "-e", "4K", "-n", "2"),
        *("-w", "1", "--rounds", "2", "--allow-unknown-settings", "--vary", "SOME_NUMBER=1"),
        env=ascend.env(),
    )
    assert {it.status for it in run.journal.of(TrialResult)} == {"ok"}
    assert {it.trial.case.in_place for it in run.journal.of(TrialResult)} == {True}
    assert "broadcast float32 root 0 in-place" in run.out


def test_another_placement_is_refused_with_what_to_do(cclmark, ascend):
    run = cclmark(
        *("pairs", "--only", "broadcast", *TWO, "--placement", "out-of-place"),
        env=ascend.env(),
        code=3,
    )
    assert "in place only: use --placement in-place" in run.err


def test_transfers_say_why_they_are_not_measured(cclmark, ascend):
    run = cclmark("p2p", "--devices", "acl:0,1", "-e", "1M", *SHORT, code=3, env=ascend.env())
    assert "transfers are not supported on Ascend devices" in run.out + run.err


def test_islands(cclmark, ascend):
    """Through the host: memory that the runtime did not allocate."""
    arguments = ("--devices", "acl:0-3", "--ccl", "bridge", "--islands", "0-1=hccl,2-3=hccl")
    run = cclmark("collectives", *arguments, "-b", "4K", "-e", "4K", *SHORT, env=ascend.env())
    assert {(it.status, it.reason) for it in run.journal.results} == {("ok", "")}


def test_a_missing_operation_is_skipped_with_the_reason(cclmark, ascend):
    only = ("--only", "all_reduce,reduce_scatter,alltoallv", "--devices", "acl:0,1")
    env = ascend.env("bare")
    run = cclmark("collectives", *only, "-b", "4K", "-e", "4K", *SHORT, env=env)
    for result in run.journal.results:
        missing = result.case.operation == "reduce_scatter"
        assert result.status == ("skipped" if missing else "ok")
        assert ("has no function for reduce_scatter" in result.reason) == missing


def test_the_log_explains_what_hccl_does(cclmark, ascend):
    explained = ("--only", "all_reduce,all_gather", *TWO[:2], *THREE[2:], "--explain")
    run = cclmark("collectives", *explained, "--placement", "out-of-place", env=ascend.env())
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
    ring = ascend.env(HCCL_ALGO="level0:NA;level1:ring")
    chosen = cclmark("collectives", *explained, "--placement", "out-of-place", env=ring)
    assert "; HCCL_ALGO=level0:NA;level1:ring is set" in chosen.out


def test_info_tells_what_the_library_can_do(cclmark, ascend, without_torch):
    run = cclmark("info", "--ccls", "--json", env=ascend.env("old") | without_torch)
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
    devices = cclmark("info", env=ascend.env()).out
    assert "acl:3  Ascend910B3" in devices
    assert "compute capability" not in devices


class TestChoice:
    def test_ascend_devices_are_taken_where_there_are_no_others(self, cclmark, ascend):
        env = ascend.env(CCLMARK_CUDA_LIBRARY="/nonexistent")
        del env["CCLMARK_CUDA_LIBRARY"]
        run = cclmark("all_reduce", "-g", "2", "-b", "64", "-e", "64", *SHORT, env=env)
        assert {it.case.ccl for it in run.journal.results} == {"hccl"}
        assert [device.runtime for device in run.journal.header.devices] == ["acl", "acl"]

    def test_libraries_of_other_devices_are_refused(self, cclmark, ascend):
        run = cclmark("all_reduce", *TWO, "--ccl", "nccl", code=2, env=ascend.env())
        assert "nccl supports cuda devices, not acl" in run.err

    def test_torch_is_not_handed_memory_that_it_cannot_use(self, cclmark, ascend):
        for command in (("all_reduce", *TWO, "--ccl", "torch:hccl"), ("torch", "check")):
            run = cclmark(*command, code=2, env=ascend.env())
            assert "torch.distributed is supported on cuda or host devices only" in run.err

    def test_a_path_goes_before_the_variable(self, cclmark, ascend):
        env = ascend.env(CCLMARK_HCCL_LIBRARY="/nonexistent")
        path = str(ascend.directory / "old" / "libhccl.so")
        run = cclmark("all_reduce", *TWO, "--ccl-path", path, env=env)
        assert run.journal.header.libraries[0].path == str(Path(path).resolve())


class TestSettings:
    def test_the_environment_of_hccl_is_kept(self, cclmark, ascend):
        for buffer_mb in ("64", "200"):
            env = ascend.env(HCCL_BUFFSIZE=buffer_mb, ASCEND_RT_VISIBLE_DEVICES="0,1,2,3")
            run = cclmark("all_reduce", *TWO, env=env)
            kept = run.journal.header.environment
            assert kept["HCCL_BUFFSIZE"] == buffer_mb
            assert kept["ASCEND_RT_VISIBLE_DEVICES"] == "0,1,2,3"

    def test_an_experiment_shows_what_the_buffer_size_does(self, cclmark, ascend):
        """4 MiB are four pieces of a buffer of 1 MiB, and one of any larger than themselves."""
        piece_s = 0.02
        run = cclmark(
            *("experiment", "broadcast", "--ccl", "hccl", "--devices", "acl:0,1"),
            *("-b", "4M", "-e", "4M", "--placement", "in-place"),
            *("--rounds", "3", "-n", "1", "-w", "0", "--vary", "HCCL_BUFFSIZE=1,8"),
            env=ascend.env(CCLMARK_FAKE_HCCL_PIECE_US=f"{piece_s * 1e6:.0f}"),
        )
        times_s = {}
        for one in run.journal.of(TrialResult):
            assert (one.status, one.is_checked) == ("ok", True)
            times_s.setdefault(one.trial.variant.describe(), []).append(one.summary.time_s)
        assert min(times_s["HCCL_BUFFSIZE=1"]) >= 4 * piece_s
        for other in ("default", "default again", "HCCL_BUFFSIZE=8"):
            assert piece_s <= min(times_s[other]) < 4 * piece_s
        assert "HCCL_BUFFSIZE=1" in run.out
        assert run.journal.header.environment.get("HCCL_BUFFSIZE") is None  # a variant's only


class TestWithoutADriver:
    """A machine that has CANN and no device: what a build machine and many a container are."""

    @pytest.mark.parametrize("call", ["aclInit", "aclrtGetDeviceCount"])
    def test_a_driver_that_does_not_answer(self, cclmark, ascend, call):
        run = cclmark("all_reduce", *TWO, code=3, env=ascend.env(CCLMARK_FAKE_ACL_FAIL=call))
        assert f"{call} failed: driver error: {call}: EL0003: the driver" in run.err
        assert "(code 507899)" in run.err
        assert "Install the driver" in run.err
        assert "/dev/davinci_manager" in run.err
        assert run.written() == []

    def test_no_devices(self, cclmark, ascend):
        run = cclmark("all_reduce", *TWO, code=3, env=ascend.env(CCLMARK_FAKE_DEVICES="0"))
        assert "aclInit failed" in run.err

    def test_info_goes_on(self, cclmark, ascend):
        run = cclmark("info", env=ascend.env(CCLMARK_FAKE_ACL_FAIL="aclInit"))
        assert "runtime acl: aclInit failed" in run.out
        assert "hccl 8.2.RC1" in run.out

    @pytest.mark.parametrize("number", [(), ("-g", "2")])
    def test_who_names_no_device_is_not_given_the_host(self, cclmark, ascend, number):
        env = ascend.env(CCLMARK_FAKE_ACL_FAIL="aclInit")
        run = cclmark("all_reduce", *number, *SHORT, code=3, env=env)
        assert "the Ascend devices of this machine cannot be used: aclInit failed" in run.err
        assert run.written() == []

    def test_a_device_that_cannot_be_set(self, cclmark, ascend, no_leaks):
        env = ascend.env(CCLMARK_FAKE_ACL_FAIL="aclrtSetDevice")
        run = cclmark("all_reduce", *TWO, code=4, env=env)
        assert "aclrtSetDevice failed" in run.err

    def test_memory_that_is_used_up(self, cclmark, ascend):
        env = ascend.env(CCLMARK_FAKE_MEMORY=str(8 << 20))
        arguments = ("--devices", "acl:0,1", "-b", "1G", "-e", "1G", *SHORT)
        run = cclmark("all_reduce", *arguments, code=3, env=env)
        assert {result.status for result in run.journal.results} == {"skipped"}


class TestLibrariesThatAreNotThere:
    @pytest.mark.parametrize(
        ("variable", "words"),
        [
            ("CCLMARK_ASCENDCL_LIBRARY", "the ACL runtime (libascendcl) was not found"),
            ("CCLMARK_HCCL_LIBRARY", "HCCL (libhccl) was not found"),
        ],
    )
    def test_nowhere(self, cclmark, ascend, variable, words):
        env = ascend.env(**{variable: "/nonexistent/lib.so"})
        run = cclmark("all_reduce", *TWO, code=3, env=env)
        assert words in run.err
        assert f"{variable} is set to this path" in run.err
        assert "set_env.sh" in run.err

    def test_a_symbol_is_missing(self, cclmark, ascend):
        runtime, hccl = (str(ascend.directory / f"lib{name}.so") for name in ("ascendcl", "hccl"))
        run = cclmark("all_reduce", *TWO, code=3, env=ascend.env(CCLMARK_ASCENDCL_LIBRARY=hccl))
        assert "libhccl.so has no symbol aclInit" in run.err
        run = cclmark("all_reduce", *TWO, code=3, env=ascend.env(CCLMARK_HCCL_LIBRARY=runtime))
        assert "libascendcl.so has no HcclGetRootInfo" in run.err
        assert "libhcomm" in run.err


class TestFaults:
    @pytest.mark.parametrize("rank", [0, 1])
    def test_wrong_data_is_found_and_the_rank_named(self, cclmark, ascend, rank):
        env = ascend.env(CCLMARK_FAKE_NCCL_CORRUPT=f"{rank}:AllReduce:7")
        run = cclmark("all_reduce", *TWO, code=1, env=env)
        found = [result.verification.findings for result in run.journal.results]
        assert [[(it.rank, it.wrong, it.first_element) for it in entry] for entry in found] == [
            [(rank, 1, 7)],
            [(rank, 1, 7)],
        ]
        assert f"rank {rank}: 1 element" in run.out

    def test_corruption_of_what_is_composed(self, cclmark, ascend):
        env = ascend.env(CCLMARK_FAKE_NCCL_CORRUPT="0:Recv:3")
        run = cclmark("gather", *TWO, "--placement", "out-of-place", code=1, env=env)
        [result] = run.journal.results
        assert {it.rank for it in result.verification.findings} == {0}

    @pytest.mark.parametrize("call", ["CommInitRootInfo", "AllReduce"])
    def test_a_failing_call_is_told_with_the_vendors_words(self, cclmark, ascend, no_leaks, call):
        run = cclmark(
            "all_reduce", *TWO, code=4, env=ascend.env(CCLMARK_FAKE_NCCL_FAIL=f"1:{call}")
        )
        assert "cclmark: rank 1 (acl:1, pid " in run.message
        words = f"injected failure of {call} on rank 1"
        assert f"Hccl{call} failed: internal error: {words} (code 4)" in run.message

    def test_a_hanging_operation_ends_at_the_deadline(self, cclmark, ascend, no_leaks):
        env = ascend.env(CCLMARK_FAKE_NCCL_HANG="1:AllReduce")
        only = ("--only", "broadcast,all_reduce,all_gather", "--placement", "in-place")
        run = cclmark("collectives", *only, *TWO, *waits(3), code=4, env=env, timeout_s=30)
        assert f"waited {deadline_s(3):g} s" in run.message
        found = [(result.case.operation, result.status) for result in run.journal.results]
        assert found == [("broadcast", "ok"), ("all_reduce", "timeout"), ("all_gather", "ok")]
        # New ranks have the same reason, which is reported once.
        assert (run.out + run.err).count("outputs are checked on the host") == 1

    def test_an_asynchronous_failure_is_told(self, cclmark, ascend, no_leaks):
        """Rank 1 never comes: the wait of its peer ends with an error of the library."""
        env = ascend.env(CCLMARK_FAKE_NCCL_HANG="1:AllReduce", CCLMARK_FAKE_TIMEOUT_S="1")
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
    def test_wrong_data_is_caught(self, cclmark, ascend, argument, operations):
        env = ascend.env(CCLMARK_FAKE_HCCL_MISREAD=argument)
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
        self, cclmark, ascend, no_leaks, argument, operation, variant, words
    ):
        env = ascend.env(variant, CCLMARK_FAKE_HCCL_MISREAD=argument, CCLMARK_FAKE_TIMEOUT_S="1")
        run = cclmark(operation, *THREE, *waits(10), code=4, env=env)
        assert words in run.message
