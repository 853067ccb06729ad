"""Vendors' libraries and runtimes, through fakes that move real data."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from vendors import (
    BKCL,
    CNCL,
    ECCL,
    HCCL,
    MACA,
    MUSA,
    ONECCL,
    RCCL,
    SHAPES,
    SHIM,
    SUNRISE,
    VENDORS,
    by_name,
    measure,
    outcomes,
)

from commands import completed
from examples import exhaustive
from fake_libraries import fake_library
from goldens import outline, require_golden
from patience import deadline_s, waits
from places import TESTS

LONE_RANK = TESTS / "fakes" / "lone_rank.py"
ALL_ROOTS = ("--root", "all", "--pattern", "skew:4")
EVERYTHING = ("collectives", "-b", "6K", "-e", "6K", *ALL_ROOTS)
SMALL = ("all_reduce", "-e", "64")
ONE_KIB = ("-b", "1K", "-e", "1K")
GROUPED = "grouped send/recv"
CLOCKS = {"rccl": "device", "musa-mccl": "host"}  # without event times the host is the clock
TYPES = ("-d", "all", "-o", "all", "--placement", "out-of-place", "-b", "384", "-e", "384")
KNOWN = {vendor.ccl: (vendor, EVERYTHING) for vendor in VENDORS}
RUNS = {
    **KNOWN,
    **{
        f"{vendor.ccl}-types": (vendor, ("collectives", "--only", "all_reduce,sendrecv", *TYPES))
        for vendor in SHAPES
    },
    **{f"{vendor.ccl}-old": (vendor, EVERYTHING, "old") for vendor in (RCCL, CNCL, ONECCL)},
    "oneccl-bare": (ONECCL, EVERYTHING, "bare"),
    **{
        f"{vendor.ccl}-pairs": (vendor, ("pairs", *ONE_KIB, "--only", "ping_pong,all_reduce"))
        for vendor in (MACA, CNCL, BKCL, ONECCL)
    },
    **{f"{vendor.ccl}-group": (vendor, (*SMALL, "-m", "3")) for vendor in (CNCL, BKCL, ONECCL)},
    **{f"{vendor.ccl}-graph": (vendor, (*SMALL, "--timing", "graph")) for vendor in (RCCL, MUSA)},
    **{
        f"{vendor.ccl}-registered": (vendor, (*SMALL, "--register", "local"))
        for vendor in (CNCL, BKCL)
    },
}


def of_all(*tried) -> pytest.MarkDecorator:
    """Runs a test with all vendors; with ``tried`` the others only with --all."""
    marked = [
        vendor if not tried or vendor in tried else exhaustive(vendor)
        for vendor in (VENDORS if not tried else SHAPES)
    ]
    return pytest.mark.parametrize("vendor", marked, ids=by_name)


class TestEveryVendor:
    """What all of them do."""

    @pytest.mark.parametrize("name", RUNS)
    def test_what_becomes_of_every_case(self, cclmark, name) -> None:
        vendor, arguments, *variant = RUNS[name]
        run = measure(cclmark, vendor, *arguments, env=vendor.env(*variant), code=(0, 3))
        require_golden(f"fakes/{name}.txt", outcomes(run))
        for result in run.journal.results:
            if result.case.operation == "all_reduce" and name in CLOCKS:
                assert result.summary.clock == CLOCKS[name]
        if name in KNOWN and vendor.runtime != "host":
            # In the header if the notice comes before it, else behind it.
            assert "outputs are checked on the host: " in run.out + run.err

    @of_all(RCCL, ECCL, CNCL, BKCL, ONECCL)
    def test_corrupt_data_is_caught(self, cclmark, vendor) -> None:
        env = vendor.env(CCLMARK_FAKE_NCCL_CORRUPT="1:AllReduce:7")
        run = measure(cclmark, vendor, "all_reduce", *ONE_KIB, env=env, code=1)
        for result in run.journal.results:
            assert result.status == "wrong"
            (finding,) = result.verification.findings
            assert (finding.rank, finding.wrong, finding.first_element) == (1, 1, 7)

    @pytest.mark.parametrize(
        ("vendor", "words"),
        [
            *((one, "AllReduce failed: internal error") for one in SHAPES[:5]),
            (CNCL, "cnclAllReduce failed: CNCL: internal error (code 1)"),
            (BKCL, "bkcl_all_reduce failed: no text given (code 3)"),
            (ONECCL, "onecclAllReduce failed: Internal error: "),
        ],
        ids=lambda value: getattr(value, "ccl", ""),
    )
    def test_a_failing_call_is_named_with_the_vendors_words(self, cclmark, vendor, words) -> None:
        env = vendor.env(CCLMARK_FAKE_NCCL_FAIL="1:AllReduce")
        run = measure(cclmark, vendor, *SMALL, env=env, code=4)
        assert words in run.err
        assert "injected failure of AllReduce on rank 1" in run.err or vendor in (CNCL, BKCL)
        assert "cclmark: rank 1 (" in run.err

    @of_all(CNCL, ONECCL)
    def test_an_operation_that_hangs_ends_at_the_deadline(self, cclmark, no_leaks, vendor) -> None:
        env = vendor.env(CCLMARK_FAKE_NCCL_HANG="1:AllReduce")
        only = ("--only", "all_reduce,all_gather", "--placement", "in-place")
        arguments = ("collectives", *only, "-b", "64", "-e", "64", *waits(2))
        run = measure(cclmark, vendor, *arguments, env=env, code=4)
        assert [result.status for result in run.journal.results] == ["timeout", "ok"]
        # Calls of oneCCL return when their work is done, so only the launcher reads the clock.
        assert (
            "did not get any further than" if vendor is ONECCL else f"waited {deadline_s(2):g} s"
        ) in run.err


class TestAnotherInterface:
    """The library takes an argument for something else than the caller means, as it would if the
    tables had wrong numbers: that must not go unnoticed.
    """

    @pytest.mark.parametrize(
        ("vendor", "misread", "arguments"),
        [
            # max becomes min, float16 becomes bfloat16: of one size, so only the data tell.
            (RCCL, "SHIFT_REDUCTIONS=1", ("all_reduce", "-o", "max")),
            (RCCL, "SHIFT_DTYPES=3", ("all_reduce", "-d", "float16")),
            (CNCL, "MISREAD=op", ("reduce_scatter", "-o", "max")),
            (CNCL, "MISREAD=dtype", ("all_reduce", "-d", "float16")),
            (BKCL, "MISREAD=root", ("collectives", "--only", "broadcast,reduce", "-r", "1")),
            (ONECCL, "MISREAD=root", ("collectives", "--only", "broadcast,reduce", "-r", "1")),
            (BKCL, "MISREAD=parts", ("alltoallv", "--pattern", "skew:4")),
        ],
        ids=lambda value: value if isinstance(value, str) else getattr(value, "ccl", ""),
    )
    def test_wrong_data_is_caught(self, cclmark, no_leaks, vendor, misread, arguments) -> None:
        name, _, value = misread.partition("=")
        env = vendor.env(**{f"CCLMARK_FAKE_{name}": value}, CCLMARK_FAKE_TIMEOUT_S="2")
        run = measure(cclmark, vendor, *arguments, *ONE_KIB, env=env, code=1)
        assert {result.status for result in run.journal.results} == {"wrong"}

    @pytest.mark.parametrize(
        ("vendor", "misread", "arguments", "code", "words"),
        [
            (RCCL, "SHIFT_DTYPES=12", SMALL, 3, "the data type is not one"),
            (CNCL, "MISREAD=id", SMALL, 4, "not all bytes of the id came"),
            (ONECCL, "MISREAD=id", SMALL, 4, "not all bytes of the id came"),
            (
                *(ONECCL, "MISREAD=parts", ("alltoallv", *ONE_KIB, "--pattern", "skew:4")),
                *(4, "onecclAllToAllV failed"),
            ),
        ],
        ids=lambda value: getattr(value, "ccl", ""),
    )
    def test_what_cannot_be_done_is_refused(
        self, cclmark, no_leaks, vendor, misread, arguments, code, words
    ) -> None:
        name, _, value = misread.partition("=")
        env = vendor.env(**{f"CCLMARK_FAKE_{name}": value}, CCLMARK_FAKE_TIMEOUT_S="2")
        run = measure(cclmark, vendor, *arguments, env=env, code=code)
        assert words in run.out + run.err

    @pytest.mark.parametrize("operation", ["all_reduce", "sendrecv"])
    def test_what_is_refused_inside_a_group_ends_it(self, cclmark, operation) -> None:
        """CNCL refuses it when called. What comes later must not join the group and never start."""
        more = ("-m", "2", "-o", "max") if operation == "all_reduce" else ()
        arguments = (operation, "-d", "float32,float16", *ONE_KIB, *more)
        run = measure(cclmark, CNCL, *arguments, env=CNCL.env(CCLMARK_FAKE_MISREAD="dtype"))
        found = {(it.case.dtype, it.status) for it in run.journal.results}
        assert found == {("float32", "skipped"), ("float16", "ok")}


@pytest.fixture(scope="module")
def reports(cclmark_in, tmp_path_factory) -> dict[str, dict]:
    """What ``info`` says of every library on a machine that has all of them."""
    env = {name: text for vendor in SHAPES for name, text in vendor.env().items()}
    run = cclmark_in(tmp_path_factory.mktemp("info"), "info", "--ccls", "--json", env=env)
    return {report["name"]: report for report in json.loads(run.out)["ccls"]}


class TestWhatDiffers:
    """Spellings, signatures and abilities."""

    @pytest.mark.parametrize("vendor", SHAPES, ids=by_name)
    def test_how_operations_are_done(self, reports, vendor) -> None:
        report = dict(reports[vendor.ccl])
        assert report.pop("id_bytes") == vendor.id_bytes
        report["path"] = Path(report["path"]).name
        require_golden(f"fakes/{vendor.ccl}-info.txt", outline(report))
        assert reports["sunrise-pccl"]["reason"].startswith("sunrise-pccl was not found")

    def test_info_names_missing_operations(self, cclmark, without_torch) -> None:
        info = cclmark("info", "--ccls", "--json", env=ONECCL.env("bare") | without_torch)
        (report,) = [it for it in json.loads(info.out)["ccls"] if it["name"] == "oneccl"]
        missing = {"reduce", "alltoall", "alltoallv", "gather", "scatter", "sendrecv"}
        assert not set(report["routes"]) & missing
        assert {"Reduce", "Recv", "AllToAll"} <= set(report["lacks"])

    @pytest.mark.parametrize(
        ("variable", "words"),
        [
            ("NCCL_FAIL=1:InitComms", "cnclInitComms failed: CNCL: internal error (code 1)"),
            ("NCCL_HANG=1:AllReduce", "AsyncError failed: CNCL: asynchronous error (code 22)"),
        ],
    )
    def test_errors_of_cncl_outside_calls(self, cclmark, no_leaks, variable, words) -> None:
        name, _, value = variable.partition("=")
        env = CNCL.env(**{f"CCLMARK_FAKE_{name}": value}, CCLMARK_FAKE_TIMEOUT_S="1")
        assert words in measure(cclmark, CNCL, *SMALL, env=env, code=4).err

    def test_oneccl_says_what_hosts_may_need(self, cclmark) -> None:
        env = ONECCL.env(CCLMARK_FAKE_NCCL_FAIL="1:CommInitRank")
        run = measure(cclmark, ONECCL, *SMALL, env=env, code=4)
        assert "Host memory may require CCL_PLUGIN=ONECCL_LEGACY_CPU" in run.err
        env["CCL_PLUGIN"] = "ONECCL_LEGACY_CPU"
        assert "may require" not in measure(cclmark, ONECCL, *SMALL, env=env, code=4).err

    EXPLAINED = ("all_reduce", "-b", "1K", "-e", "64K", "-f", "8", "--explain")

    def test_oneccls_log_explains_it(self, cclmark) -> None:
        run = measure(cclmark, ONECCL, *self.EXPLAINED)
        found = [result.explanation for result in run.journal.results if not result.case.in_place]
        assert [(one.source, one.kernel, one.algorithm, one.reason) for one in found] == [
            *[("log", "recursive doubling", "recursive_doubling", "")] * 2,
            ("log", "ring", "ring", ""),
        ]
        assert "what ran (the library's log)" in run.out
        assert "CCL_DEBUG" not in run.out + run.err

    @pytest.mark.parametrize(
        ("name", "value", "reason"),
        [
            (
                *("ODD_ALGORITHM", "2"),
                "rank 2 ran allreduce by ring, rank 0 allreduce by recursive doubling",
            ),
            (
                *("BROKEN_LOG", "0"),
                "rank 0 reported no operation: the log of oneccl contains no line about the "
                "algorithm; CCL_ALLREDUCE is not set: the library decides",
            ),
        ],
    )
    def test_a_rank_whose_log_differs_is_named(self, cclmark, name, value, reason) -> None:
        env = ONECCL.env(**{f"CCLMARK_FAKE_{name}": value})
        run = measure(cclmark, ONECCL, *self.EXPLAINED, env=env, code=3)
        found = run.journal.results[0].explanation
        assert (found.source, found.reason) == ("log", reason)

    def test_oneccl_beside_shm(self, cclmark) -> None:
        arguments = ("all_reduce", "--devices", "host:2", "--ccl", "shm,oneccl", *ONE_KIB)
        run = cclmark(*arguments, "-n", "2", "-w", "1", env=ONECCL.env())
        found = {(result.case.ccl, result.status) for result in run.journal.results}
        assert found == {("shm", "ok"), ("oneccl", "ok")}


def test_islands_of_two_vendors(cclmark) -> None:
    run = cclmark(
        *("collectives", "--devices", "hip:0-1+musa:0-1", "--ccl", "bridge"),
        *("-b", "6K", "-e", "6K", "-n", "2", "-w", "1"),
        env=RCCL.env() | MUSA.env(),
    )
    assert {"bridge", "rccl"} <= {library.name for library in run.journal.header.libraries}
    assert {result.status for result in run.journal.results} == {"ok"}


@pytest.mark.parametrize("processes", ("0", "1"), ids=("one process", "a process each"))
def test_transfers_by_the_copy_engine(cclmark, processes) -> None:
    run = cclmark(
        *("p2p", "--devices", "hip:0,1", "-b", "64K", "-p", "uniBw,latency", "-m", processes),
        *("--max-time", "0.02"),
        env=RCCL.env(),
    )
    measured = [one for one in run.journal.transfers if one.transfer.engine == "CE"]
    assert [one.status for one in measured] == ["ok"] * 4
    for result in run.journal.transfers:
        if result not in measured:
            assert result.status == "skipped"
            if result.transfer.method == "ping-pong":
                assert "kernels of hip devices have no clock" in result.reason
            else:
                assert "hipRTC was not found." in result.reason
                assert "Set CCLMARK_HIPRTC_LIBRARY to the path of the library" in result.reason


@pytest.mark.parametrize(
    ("runtime", "file", "copy", "order", "timed", "without"),
    [
        ("cnrt", "libcnrt.so", "cnrtMemcpyAsync_V2", "stream,1", True, "for cnrt devices"),
        ("hip", "libamdhip64.so.6", "hipMemcpyAsync", "3,stream", True, "hipRTC was not found"),
        ("musa", "libmusart.so", "musaMemcpyAsync", "3,stream", False, "MTRTC was not found"),
    ],
)
def test_a_lone_rank(tag, tmp_path, runtime, file, copy, order, timed, without) -> None:
    """A runtime without a library of its own, and two with one, seen from a session."""
    path = fake_library(f"{runtime}/{file}")
    environment = {**os.environ, f"CCLMARK_{runtime.upper()}_LIBRARY": str(path)}
    run = completed(
        [sys.executable, str(LONE_RANK), runtime, copy, order], env=environment, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["devices"], found["pci_bus_id"]) == (4, "0000:02:00.0")
    assert found["name"].startswith("CCLMark Fake ")
    assert found["memory_bytes"] == 1 << 30
    assert 0 < found["free_bytes"] < found["memory_bytes"]
    assert found["reach"] is True
    assert without in found["checked_on_host"]
    assert "out of" in found["too much"]
    for place in ("out of place", "in place"):
        result = found[place]
        assert (result["wrong"], result["caught"]) == ([0], [1])
        if timed:
            # One operation is one copy: the events' unit is right when both clocks tell alike.
            assert 0 < result["device_s"] < 3 * result["host_s"]
            assert result["device_s"] > result["host_s"] / 300
        else:
            assert result["device_s"] is None
    assert found["in place"]["route"] == "copy aside, then a copy for alltoall"


class TestChoice:
    """Which library and which devices are taken."""

    @pytest.mark.parametrize(
        ("vendor", "named"),
        [
            *((vendor, ()) for vendor in (RCCL, MACA, MUSA, ECCL, CNCL)),
            *((vendor, ("--ccl", "mccl")) for vendor in (MACA, MUSA)),
        ],
        ids=lambda value: getattr(value, "ccl", "named" if value else ""),
    )
    def test_the_devices_bring_their_library(self, cclmark, vendor, named) -> None:
        devices = ("--devices", vendor.devices(2)) if named else ("-g", "2")
        small = ("-b", "64", "-e", "64", "-n", "1", "-w", "0")
        header = cclmark("all_reduce", *devices, *named, *small, env=vendor.env()).journal.header
        assert [library.name for library in header.libraries] == [vendor.ccl]
        assert {device.runtime for device in header.devices} == {vendor.runtime}

    def test_an_unverified_library_is_measured_with_a_warning(self, cclmark, without_torch):
        run = measure(cclmark, SUNRISE, *SMALL)
        said = "sunrise-pccl is unverified: cclmark assumes that it numbers"
        assert said in run.err
        assert any(said in notice for notice in run.journal.header.notices)
        assert {result.status for result in run.journal.results} == {"ok"}
        info = cclmark("info", "--ccls", "--json", env=SUNRISE.env() | without_torch)
        reports = {report["name"]: report for report in json.loads(info.out)["ccls"]}
        assert reports["sunrise-pccl"]["verified"].startswith("unverified")
        assert "an id has 128 bytes" in reports["sunrise-pccl"]["verified"]


class TestRccl:
    """What RCCL differs in from NCCL, and from release to release."""

    def test_options_of_its_communicators_have_nccls_structure(self, cclmark) -> None:
        run = measure(cclmark, RCCL, "all_reduce", *ONE_KIB, "--config", "minCTAs=4")
        assert {result.status for result in run.journal.results} == {"ok"}

    def test_what_is_made_of_amds_runtime_is_not_taken_for_it(self, cclmark, without_torch) -> None:
        """As Hygon's may be: of a library that needs AMD's runtime."""
        file = str(RCCL.file())
        env = {"CCLMARK_DUCCL_LIBRARY": file, "CCLMARK_IXCCL_LIBRARY": file, **without_torch}
        out = cclmark("info", "--ccls", env=RCCL.env() | env).out
        assert "duccl, for devices of cudart: 2.28.3" in out
        assert "is AMD's RCCL, not Iluvatar's IXCCL: it has hipGetDeviceCount" in " ".join(
            out.split()
        )


class TestInfo:
    """What ``cclmark info`` lists on machines of one vendor."""

    @pytest.mark.parametrize("runtime", ["its own", "missing"])
    def test_on_nvidias_machine(self, cclmark, fake_cuda, tmp_path, without_torch, runtime) -> None:
        """Its libcudart drives the devices of its libcuda, and NCCL has no other vendor's name."""
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / fake_cuda.nccl.name).symlink_to(fake_cuda.nccl)
        cudart = "/none/libcudart.so" if runtime == "missing" else SHIM.env()[SHIM.runtime_variable]
        env = fake_cuda.env(
            CCLMARK_FAKE_DEVICES="2",
            CCLMARK_CUDART_LIBRARY=cudart,
            LD_LIBRARY_PATH=str(tmp_path / "lib"),
        )
        document = json.loads(cclmark("info", "--json", env=env).out)
        names = {one["name"] for one in document["libraries"]}
        assert "nccl" in names
        if runtime == "missing":
            assert all("libcudart" in document["unavailable"][one] for one in ("ixccl", "pccl"))
            return
        devices = [(one["runtime"], one["index"]) for one in document["devices"]]
        assert devices == [("cuda", 0), ("cuda", 1), ("host", 0)]
        assert document["unavailable"]["runtime cudart"] == "its devices belong to cuda"
        assert not {"ixccl", "duccl", "pccl"} & names
        run = cclmark("info", "--ccls", "--json", env=env | without_torch)
        reasons = {one["name"]: one["reason"] for one in json.loads(run.out)["ccls"]}
        assert reasons["nccl"] == ""
        for name in ("ixccl", "duccl", "pccl"):
            assert "the devices of this machine belong to cuda" in reasons[name]

    def test_on_a_machine_of_the_vendor(self, cclmark) -> None:
        env = SHIM.env(CCLMARK_CUDA_LIBRARY="/nonexistent/libcuda.so.1")
        document = json.loads(cclmark("info", "--json", env=env).out)
        assert "cudart" in [one["runtime"] for one in document["devices"]]
        assert "ixccl" in [one["name"] for one in document["libraries"]]


class TestTheWrongLibrary:
    """Files of the right name and the wrong kind."""

    def test_a_second_copy_of_the_runtime(self, cclmark, tmp_path: Path) -> None:
        env = RCCL.env()
        copy = shutil.copy(env[RCCL.runtime_variable], tmp_path / "libamdhip64.so.5")
        run = measure(cclmark, RCCL, *SMALL, env=env | {"LD_PRELOAD": str(copy)}, code=3)
        assert "two files of one runtime are loaded" in run.err
        assert f"Set CCLMARK_HIP_LIBRARY={copy}" in run.err


SMALLEST = ("-b", "64", "-e", "64", "-n", "1", "-w", "0")


class TestBrokenMachine:
    """A runtime that is installed, but does not work, or not for every device."""

    VENDORS = pytest.mark.parametrize("vendor", [MUSA, MACA, HCCL, SHIM, CNCL], ids=by_name)

    @VENDORS
    def test_a_driver_of_another_version_is_the_reason_and_no_host_is_measured(
        self, cclmark, vendor
    ):
        env = vendor.env(CCLMARK_FAKE_OTHER_DRIVER="1")
        for named in ((), ("--devices", vendor.devices(2))):
            run = cclmark("all_reduce", *named, *SMALLEST, env=env, code=3)
            assert "failed:" in run.err
            assert run.written() == []
        listed = cclmark("info", env=env)
        assert "Not usable" in listed.out

    @VENDORS
    def test_a_lost_device_is_named_and_the_others_are_measured(self, cclmark, vendor):
        env = vendor.env(CCLMARK_FAKE_LOST_DEVICE="1")
        small = ("all_reduce", "--ccl", vendor.ccl, *SMALLEST)
        run = cclmark(*small, "--devices", vendor.devices(3), env=env, code=4)
        lost = f"{vendor.runtime}:1"
        assert f"{lost} cannot be used; cclmark info lists the devices that can" in run.err
        listed = json.loads(cclmark("info", "--json", env=env).out)
        assert f"device {lost}" in listed["unavailable"]
        found = [one["index"] for one in listed["devices"] if one["runtime"] == vendor.runtime]
        assert found == [0, 2, 3]
        run = cclmark(*small, "--devices", f"{vendor.runtime}:0,2", *vendor.flags, env=env)
        assert {one.status for one in run.journal.results} == {"ok"}
