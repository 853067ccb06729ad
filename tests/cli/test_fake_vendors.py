"""Vendors' libraries and runtimes of NCCL's and CUDA's shape, through fakes that move real data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cclmark.work.operations import COLLECTIVES
from fake_libraries import fake_library
from patience import scaled
from places import TESTS

LONE_RANK = TESTS / "fakes" / "lone_rank.py"


@dataclass(frozen=True)
class Vendor:
    """A fake library, the fake runtime that it works on, and where the environment names both."""

    ccl: str
    runtime: str
    directory: str
    ccl_file: str
    runtime_file: str
    version: str

    @property
    def ccl_variable(self) -> str:
        return f"CCLMARK_{self.ccl.upper().replace('-', '_')}_LIBRARY"

    @property
    def runtime_variable(self) -> str:
        return f"CCLMARK_{self.runtime.upper()}_LIBRARY"


VENDORS = {
    vendor.ccl: vendor
    for vendor in (
        Vendor("rccl", "hip", "hip", "librccl.so.1", "libamdhip64.so.6", "2.28.3"),
        Vendor("maca-mccl", "maca", "maca", "libmccl.so", "libmcruntime.so", "2.16.5"),
        Vendor("musa-mccl", "musa", "musa", "libmccl.so.2", "libmusart.so", "2.11.4"),
        Vendor("eccl", "tops", "tops", "libeccl.so", "libtopsrt.so", "3.1.0"),
        Vendor("ixccl", "cudart", "cudart", "libnccl.so", "libcudart.so", "2.18.5"),
        Vendor("duccl", "cudart", "cudart", "libnccl.so", "libcudart.so", "2.18.5"),
        Vendor("pccl", "cudart", "cudart", "libnccl.so", "libcudart.so", "2.18.5"),
        Vendor("sunrise-pccl", "tang", "tang", "libpccl.so", "libtangrt_shared.so", "1.1.0"),
    )
}
RCCL, MACA, MUSA, ECCL = (VENDORS[name] for name in ("rccl", "maca-mccl", "musa-mccl", "eccl"))
SHIM, SUNRISE = VENDORS["ixccl"], VENDORS["sunrise-pccl"]
VERIFIED = [vendor for vendor in VENDORS.values() if vendor is not SUNRISE]
# One of each build of the fakes: the three vendors of the shim differ in their names.
SHAPES = (RCCL, MACA, MUSA, ECCL, SHIM)

EVERYTHING = ("collectives", "-b", "6K", "-e", "6K", "--pattern", "skew:4")

CLOCKS = {RCCL: "device", MUSA: "host"}  # a device without event times is timed by the host

Environment = Callable[..., dict[str, str]]


def by_name(vendor: Vendor) -> str:
    return vendor.ccl


def built(directory: str, file: str) -> Path:
    """Where the fakes of a vendor are."""
    return fake_library(f"{directory}/{file}").parent


@pytest.fixture(scope="session")
def env_of(tmp_path_factory) -> Environment:
    """The environment in which a vendor's fakes are found."""
    cache = tmp_path_factory.mktemp("kernels")

    def env(vendor: Vendor, *, ccl: Path | None = None, **extra: str) -> dict[str, str]:
        directory = built(vendor.directory, vendor.runtime_file)
        return {
            vendor.runtime_variable: str(directory / vendor.runtime_file),
            vendor.ccl_variable: str(ccl or directory / vendor.ccl_file),
            "CCLMARK_CACHE_DIR": str(cache),
            **extra,
        }

    return env


def file_of(env: dict[str, str], vendor: Vendor) -> Path:
    return Path(env[vendor.ccl_variable])


def of_all(*names: str) -> pytest.MarkDecorator:
    """Runs a test with all verified vendors; with ``names`` the others only with --all: calls of
    all of them go through one adaptor.
    """
    vendors = [
        vendor
        if not names or vendor.ccl in names
        else pytest.param(vendor, marks=pytest.mark.exhaustive)
        for vendor in VERIFIED
    ]
    return pytest.mark.parametrize("vendor", vendors, ids=by_name)


def measure(
    cclmark, vendor: Vendor, *arguments: str, env: dict[str, str], code: int = 0, ranks: int = 3
):
    devices = f"{vendor.runtime}:0-{ranks - 1}"
    return cclmark(
        *arguments,
        *("--devices", devices, "--ccl", vendor.ccl, "-n", "2", "-w", "1"),
        env=env,
        code=code,
    )


class TestEveryVendor:
    """What all of them do, on three ranks."""

    @of_all()
    def test_all_operations_are_right_and_checked(self, cclmark, env_of, vendor) -> None:
        run = measure(cclmark, vendor, *EVERYTHING, env=env_of(vendor))
        journal = run.journal
        assert {result.case.operation for result in journal.results} == set(COLLECTIVES)
        for result in journal.results:
            assert result.status == "ok", result
            if result.case.operation != "barrier":
                assert result.verification.where == "host"
            if result.case.operation == "alltoallv" and vendor in (RCCL, ECCL):
                assert "native" in result.route
            if result.case.operation == "all_reduce" and vendor in CLOCKS:
                assert result.summary.clock == CLOCKS[vendor]
        (library,) = journal.header.libraries
        assert (library.name, library.version) == (vendor.ccl, vendor.version)
        assert Path(library.path).name == vendor.ccl_file
        assert [device.index for device in journal.header.devices] == [0, 1, 2]
        for device in journal.header.devices:
            assert device.runtime == vendor.runtime
            assert device.name.startswith("CCLMark Fake ")
            assert Path(device.runtime_path).name == vendor.runtime_file
        # In the header if the notice comes before it, else behind it.
        assert f"kernels are compiled for CUDA only, not for {vendor.runtime}" in run.out + run.err

    @of_all("rccl", "eccl")
    def test_corrupt_data_is_caught(self, cclmark, env_of, vendor) -> None:
        env = env_of(vendor, CCLMARK_FAKE_NCCL_CORRUPT="1:AllReduce:7")
        run = measure(cclmark, vendor, "all_reduce", "-b", "1K", "-e", "1K", env=env, code=1)
        for result in run.journal.results:
            assert result.status == "wrong"
            (finding,) = result.verification.findings
            assert (finding.rank, finding.wrong, finding.first_element) == (1, 1, 7)

    @of_all(*(vendor.ccl for vendor in SHAPES))
    def test_a_failing_call_is_named_with_the_vendors_words(self, cclmark, env_of, vendor) -> None:
        env = env_of(vendor, CCLMARK_FAKE_NCCL_FAIL="1:AllReduce")
        run = measure(cclmark, vendor, "all_reduce", "-e", "64", env=env, code=4)
        assert "AllReduce failed: internal error" in run.err
        assert "injected failure of AllReduce on rank 1" in run.err

    @of_all("maca-mccl", "musa-mccl", "ixccl")
    def test_ranks_with_different_versions_do_not_join(self, cclmark, env_of, vendor) -> None:
        env = env_of(vendor, CCLMARK_FAKE_ODD_DEVICE="1", CCLMARK_FAKE_ODD_VERSION="22001")
        run = measure(cclmark, vendor, "all_reduce", "-e", "64", env=env, code=3)
        assert f"rank 1 loaded {vendor.ccl} 2.20.1 from " in run.err
        assert f"rank 0 {vendor.version} from " in run.err
        assert "mixed versions can hang or crash" in run.err


@pytest.mark.parametrize("vendor", SHAPES, ids=by_name)
class TestTypesAndReductions:
    """The numbers in the tables, seen in data: every type and reduction that a vendor says."""

    def test_all_of_them(self, cclmark, env_of, vendor) -> None:
        run = measure(
            cclmark,
            vendor,
            *("all_reduce", "-b", "384", "-e", "384", "-d", "all", "-o", "all"),
            *("--placement", "out-of-place"),
            env=env_of(vendor),
            ranks=2,
        )
        status = {(one.case.dtype, one.case.reduction): one for one in run.journal.results}
        fp8 = {key for key in status if key[0].startswith("fp8")}
        shorts = {key for key in status if key[0] in ("int16", "uint16")}
        for key, result in status.items():
            if key in shorts or (vendor is not RCCL and key in fp8):
                assert result.status == "skipped"
                assert f"{vendor.ccl} {vendor.version} does not support {key[0]}" in result.reason
            elif key in fp8 and key[1] == "prod":
                assert result.status == "skipped"
            else:
                assert result.status == "ok", (key, result.reason)
        assert len(status) - len(fp8) - len(shorts) >= 40

    @pytest.mark.parametrize(
        ("shift", "arguments"),
        [
            # max becomes min, float16 becomes bfloat16: of one size, so only the data tell.
            ("REDUCTIONS=1", ("-o", "max")),
            ("DTYPES=3", ("-d", "float16")),
        ],
    )
    def test_a_wrong_table_is_caught(self, cclmark, env_of, vendor, shift, arguments) -> None:
        setting, _, value = shift.partition("=")
        env = env_of(vendor, **{f"CCLMARK_FAKE_SHIFT_{setting}": value})
        run = measure(
            cclmark, vendor, "all_reduce", "-b", "1K", "-e", "1K", *arguments, env=env, code=1
        )
        for result in run.journal.results:
            assert result.status == "wrong"
            assert {finding.rank for finding in result.verification.findings} == {0, 1, 2}

    def test_a_number_that_is_none_is_refused_by_the_library(self, cclmark, env_of, vendor) -> None:
        env = env_of(vendor, CCLMARK_FAKE_SHIFT_DTYPES="12")
        run = measure(cclmark, vendor, "all_reduce", "-e", "64", env=env, code=3)
        assert {result.status for result in run.journal.results} == {"skipped"}
        assert "invalid argument" in run.out
        assert "the data type is not one" in run.out


@pytest.fixture(scope="module")
def reports(cclmark_in, env_of, tmp_path_factory) -> dict[str, dict]:
    """What ``info`` says of every library on a machine with the devices of all vendors."""
    env = {name: text for vendor in SHAPES for name, text in env_of(vendor).items()}
    run = cclmark_in(tmp_path_factory.mktemp("info"), "info", "--ccls", "--json", env=env)
    return {report["name"]: report for report in json.loads(run.out)["ccls"]}


class TestWhatDiffers:
    """Spellings, signatures and abilities."""

    ROUTES = {
        "rccl": {"alltoall": "native", "alltoallv": "native", "gather": "native"},
        "maca-mccl": {"alltoall": "native", "alltoallv": "native", "gather": "native"},
        "eccl": {"alltoall": "native", "alltoallv": "native", "scatter": "native"},
        "musa-mccl": dict.fromkeys(("alltoall", "alltoallv", "gather"), "grouped send/recv"),
        "ixccl": dict.fromkeys(("alltoall", "alltoallv", "scatter"), "grouped send/recv"),
    }

    @pytest.mark.parametrize("vendor", SHAPES, ids=by_name)
    def test_what_is_native(self, reports, vendor) -> None:
        report = reports[vendor.ccl]
        assert report["reason"] == ""
        assert (report["version"], report["id_bytes"]) == (vendor.version, 128)
        assert report["runtimes"] == [vendor.runtime]
        assert report["verified"] == "measured through a fake, never on hardware"
        assert report["routes"] | self.ROUTES[vendor.ccl] == report["routes"]
        assert reports["sunrise-pccl"]["reason"].startswith("sunrise-pccl was not found")

    def test_graphs_where_the_runtime_has_them(self, cclmark, env_of) -> None:
        arguments = ("all_reduce", "-b", "64", "-e", "64", "--timing", "graph")
        run = measure(cclmark, RCCL, *arguments, env=env_of(RCCL))
        assert {result.status for result in run.journal.results} == {"ok"}
        run = measure(cclmark, MUSA, *arguments, env=env_of(MUSA), code=3)
        for result in run.journal.results:
            assert result.status == "skipped"
            assert "musa's runtime does not support graphs" in result.reason

    def test_pairs(self, cclmark, env_of) -> None:
        run = cclmark(
            *("pairs", "--devices", "maca:0-2", "-b", "64", "-e", "64", "-n", "2", "-w", "1"),
            *("--only", "all_reduce"),
            env=env_of(MACA),
        )
        assert len(run.journal.results) == 3
        assert {result.status for result in run.journal.results} == {"ok"}

    def test_pairs_name_different_versions(self, cclmark, env_of) -> None:
        env = env_of(RCCL, CCLMARK_FAKE_ODD_DEVICE="2", CCLMARK_FAKE_ODD_VERSION="22001")
        run = cclmark("pairs", "--devices", "hip:0,2", "-e", "64", env=env, code=3)
        assert "rank 1 loaded rccl 2.20.1 from " in run.err


class TestBridge:
    """Devices of several vendors as one group, each with its own library."""

    def test_between_vendors(self, cclmark, env_of) -> None:
        run = cclmark(
            *("collectives", "--devices", "hip:0-1+musa:0-1", "--ccl", "bridge"),
            *("-b", "6K", "-e", "6K", "-n", "2", "-w", "1"),
            env=env_of(RCCL) | env_of(MUSA),
        )
        named = [library.name for library in run.journal.header.libraries]
        assert {"bridge", "rccl"} <= set(named)
        assert {result.status for result in run.journal.results} == {"ok"}

    def test_an_unverified_library_is_not_used_unasked(self, cclmark, env_of) -> None:
        arguments = ("all_reduce", "--devices", "hip:0-1+tang:0-1", "--ccl", "bridge", "-e", "64")
        run = cclmark(*arguments, env=env_of(RCCL) | env_of(SUNRISE), code=3)
        assert "--allow-unverified" in run.err


class TestTransfers:
    """Copies between devices, by the copy engine: there are no kernels."""

    @pytest.mark.parametrize("processes", ("0", "1"), ids=("one process", "a process each"))
    def test_of_hip(self, cclmark, env_of, processes) -> None:
        run = cclmark(
            *("p2p", "--devices", "hip:0,1", "-b", "64K", "-p", "uniBw,latency", "-m", processes),
            *("--max-time", "0.02"),
            env=env_of(RCCL),
        )
        measured = [one for one in run.journal.transfers if one.transfer.engine == "CE"]
        assert [one.status for one in measured] == ["ok"] * 4
        for result in run.journal.transfers:
            if result not in measured:
                assert result.status == "skipped"
                assert "kernels are compiled for CUDA only, not for hip" in result.reason

    def test_of_a_runtime_that_cannot_hold_a_stream_up(self, cclmark, env_of) -> None:
        arguments = ("p2p", "--devices", "maca:0,1", "-b", "64K", "-p", "uniBw", "--engine", "CE")
        run = cclmark(*arguments, env=env_of(MACA), code=3)
        results = run.journal.transfers
        assert len(results) == 2
        for result in results:
            assert result.status == "skipped"
            assert "this runtime has no mcStreamWaitValue32" in result.reason


@pytest.mark.parametrize(
    ("runtime", "file", "copy", "order", "timed"),
    [
        ("cnrt", "libcnrt.so", "cnrtMemcpyAsync_V2", "stream,1", True),
        ("hip", "libamdhip64.so.6", "hipMemcpyAsync", "3,stream", True),
        ("musa", "libmusart.so", "musaMemcpyAsync", "3,stream", False),
    ],
)
def test_a_lone_rank(tag, tmp_path, runtime, file, copy, order, timed) -> None:
    """A runtime without a library of its own, and two with one, seen from a session."""
    path = built(runtime, file) / file
    environment = {**os.environ, f"CCLMARK_{runtime.upper()}_LIBRARY": str(path)}
    run = subprocess.run(
        [sys.executable, str(LONE_RANK), runtime, copy, order],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=scaled(60),
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert (found["devices"], found["pci_bus_id"]) == (4, "0000:02:00.0")
    assert found["name"].startswith("CCLMark Fake ")
    assert found["memory_bytes"] == 1 << 30
    assert 0 < found["free_bytes"] < found["memory_bytes"]
    assert found["reach"] is True
    assert f"not for {runtime}" in found["checked_on_host"]
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

    def test_the_devices_bring_their_library(self, cclmark, env_of) -> None:
        for vendor in (RCCL, MACA, MUSA, ECCL):
            small = ("-b", "64", "-e", "64", "-g", "2", "-n", "1", "-w", "0")
            run = cclmark("all_reduce", *small, env=env_of(vendor))
            header = run.journal.header
            assert [library.name for library in header.libraries] == [vendor.ccl]
            assert {device.runtime for device in header.devices} == {vendor.runtime}

    def test_one_name_for_both_mccls(self, cclmark, env_of) -> None:
        for vendor in (MACA, MUSA):
            arguments = ("--devices", f"{vendor.runtime}:0,1", "--ccl", "mccl", "-b", "64")
            small = ("-e", "64", "-n", "1", "-w", "0")
            run = cclmark("all_reduce", *arguments, *small, env=env_of(vendor))
            assert [library.name for library in run.journal.header.libraries] == [vendor.ccl]

    def test_devices_with_several_libraries_want_a_name(self, cclmark, env_of) -> None:
        run = cclmark("all_reduce", "--devices", "cudart", "-e", "64", env=env_of(SHIM), code=2)
        assert "ixccl (Iluvatar), duccl (Hygon), pccl (T-Head), flagcx, bkcl (Kunlunxin)" in run.err

    def test_a_library_of_other_devices_is_refused(self, cclmark, env_of) -> None:
        arguments = ("--devices", "hip", "--ccl", "nccl", "-e", "64")
        run = cclmark("all_reduce", *arguments, env=env_of(RCCL), code=2)
        assert "nccl supports cuda devices, not hip" in run.err

    def test_a_runtime_without_devices(self, cclmark, env_of) -> None:
        env = env_of(RCCL, CCLMARK_FAKE_DEVICES="0")
        run = cclmark("all_reduce", "--devices", "hip", "-e", "64", env=env, code=3)
        assert "the runtime hip found no device" in run.err

    @pytest.mark.parametrize("number", [(), ("-g", "2")])
    def test_the_host_does_not_take_the_place_of_broken_devices(
        self, cclmark, tmp_path: Path, number
    ) -> None:
        nothing = {"CCLMARK_HIP_LIBRARY": str(tmp_path / "libamdhip64.so.6")}
        run = cclmark("all_reduce", *number, "-e", "64", env=nothing, code=3)
        assert "the AMD devices of this machine cannot be used" in run.err
        assert "AMD's runtime (libamdhip64) was not found" in run.err


class TestRccl:
    """What RCCL differs in from NCCL, and from release to release."""

    @pytest.mark.parametrize(
        ("directory", "version"), [(".", "2.28.3"), ("old", "2.24.7")], ids=("new", "old")
    )
    def test_either_spelling_of_its_exchanges(self, cclmark, env_of, directory, version) -> None:
        file = file_of(env_of(RCCL), RCCL)
        env = env_of(RCCL, ccl=file.parent / directory / file.name)
        only = ("collectives", "--only", "alltoall,alltoallv", "--pattern", "skew:3")
        run = measure(cclmark, RCCL, *only, "-b", "96", "-e", "6K", "-f", "64", env=env)
        assert run.journal.header.libraries[0].version == version
        assert {it.status for it in run.journal.results} == {"ok"}
        routes = {it.route for it in run.journal.results}
        assert routes == {"native", "copy aside, then native"}

    def test_options_of_its_communicators_have_nccls_structure(self, cclmark, env_of) -> None:
        small = ("all_reduce", "-b", "1K", "-e", "1K", "--config", "minCTAs=4")
        run = measure(cclmark, VENDORS["rccl"], *small, env=env_of(VENDORS["rccl"]))
        assert {result.status for result in run.journal.results} == {"ok"}
        old = built("hip/old", "librccl.so.1") / "librccl.so.1"
        env = env_of(VENDORS["rccl"], ccl=old)
        run = measure(cclmark, VENDORS["rccl"], *small, env=env, code=3)
        assert "rccl 2.24.7 has no CommInitRankConfig" in run.err

    def test_products_of_eight_bit_floats_are_not_judged(self, cclmark, env_of) -> None:
        arguments = ("-b", "64", "-e", "64", "-d", "fp8e4m3", "-o", "sum,prod")
        run = measure(cclmark, RCCL, "all_reduce", *arguments, env=env_of(RCCL))
        found = {it.case.reduction: (it.status, it.reason) for it in run.journal.results}
        assert found["sum"] == ("ok", "")
        assert found["prod"][0] == "skipped"
        assert "OCP or FNUZ" in found["prod"][1]

    def test_what_is_made_of_amds_runtime_is_not_taken_for_it(
        self, cclmark, env_of, without_torch
    ) -> None:
        """As Hygon's may be: of a library that needs AMD's runtime."""
        file = str(file_of(env_of(RCCL), RCCL))
        env = {"CCLMARK_DUCCL_LIBRARY": file, "CCLMARK_IXCCL_LIBRARY": file, **without_torch}
        out = cclmark("info", "--ccls", env=env_of(RCCL) | env).out
        assert "duccl, for devices of cudart: 2.28.3" in out
        assert "is AMD's RCCL, not Iluvatar's IXCCL: it has hipGetDeviceCount" in " ".join(
            out.split()
        )


class TestInfo:
    """What ``cclmark info`` lists on machines of one vendor."""

    @pytest.fixture
    def of_nvidia(self, fake_cuda, tmp_path) -> Environment:
        """The environment of such a machine, where the loader finds NCCL."""
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / fake_cuda.nccl.name).symlink_to(fake_cuda.nccl)

        def env(cudart: str) -> dict[str, str]:
            return fake_cuda.env(
                CCLMARK_FAKE_DEVICES="2",
                CCLMARK_CUDART_LIBRARY=cudart,
                LD_LIBRARY_PATH=str(tmp_path / "lib"),
            )

        return env

    def test_on_nvidias_machine(self, cclmark, env_of, of_nvidia, without_torch) -> None:
        """Its libcudart drives the devices of its libcuda, and NCCL has no other vendor's name."""
        env = of_nvidia(env_of(SHIM)["CCLMARK_CUDART_LIBRARY"])
        document = json.loads(cclmark("info", "--json", env=env).out)
        devices = [(one["runtime"], one["index"]) for one in document["devices"]]
        assert devices == [("cuda", 0), ("cuda", 1), ("host", 0)]
        assert document["unavailable"]["runtime cudart"] == "its devices belong to cuda"
        names = [one["name"] for one in document["libraries"]]
        assert "nccl" in names
        assert not {"ixccl", "duccl", "pccl"} & set(names)
        run = cclmark("info", "--ccls", "--json", env=env | without_torch)
        ccls = json.loads(run.out)["ccls"]
        reasons = {one["name"]: one["reason"] for one in ccls}
        assert reasons["nccl"] == ""
        for name in ("ixccl", "duccl", "pccl"):
            assert "the devices of this machine belong to cuda" in reasons[name]

    def test_on_a_machine_without_their_runtime(self, cclmark, of_nvidia) -> None:
        env = of_nvidia("/nonexistent/libcudart.so")
        document = json.loads(cclmark("info", "--json", env=env).out)
        assert "nccl" in [one["name"] for one in document["libraries"]]
        for name in ("ixccl", "duccl", "pccl"):
            assert "libcudart" in document["unavailable"][name]

    def test_on_a_machine_of_the_vendor(self, cclmark, env_of) -> None:
        env = env_of(SHIM, CCLMARK_CUDA_LIBRARY="/nonexistent/libcuda.so.1")
        document = json.loads(cclmark("info", "--json", env=env).out)
        assert "cudart" in [one["runtime"] for one in document["devices"]]
        assert "ixccl" in [one["name"] for one in document["libraries"]]


class TestTheWrongLibrary:
    """Files of the right name and the wrong kind."""

    @pytest.mark.parametrize(
        ("wanted", "given", "words"),
        [
            (MACA, MUSA, "is Moore Threads' MCCL, not MetaX's MCCL: it has mcclCommMuDevice"),
            (MUSA, MACA, "is MetaX's MCCL, not Moore Threads' MCCL: it has mcclCommMcDevice"),
            (RCCL, SHIM, "is not AMD's RCCL: it has no hipGetDeviceCount; it may be NVIDIA's NCCL"),
        ],
        ids=("musa's for maca", "maca's for musa", "nccl's for rccl"),
    )
    def test_another_vendors(self, cclmark, env_of, wanted, given, words) -> None:
        file = file_of(env_of(given), given)
        env = env_of(wanted, ccl=file)
        run = measure(cclmark, wanted, "all_reduce", "-e", "64", env=env, code=3)
        assert str(file) in run.err
        assert words in run.err
        assert f"--ccl-path or {wanted.ccl_variable}" in run.err

    @pytest.mark.parametrize("vendor", (MACA, ECCL), ids=by_name)
    def test_one_without_its_functions(self, cclmark, env_of, vendor) -> None:
        runtime = Path(env_of(vendor)[vendor.runtime_variable])
        env = env_of(vendor, ccl=runtime)
        run = measure(cclmark, vendor, "all_reduce", "-e", "64", env=env, code=3)
        if vendor is MACA:
            assert "is not MetaX's MCCL: it has no mcclCommMcDevice" in run.err
        else:
            assert "has no symbol ecclGetVersion" in run.err

    def test_a_runtime_without_its_functions(self, cclmark, env_of) -> None:
        env = env_of(MACA)
        env[MACA.runtime_variable] = env[MACA.ccl_variable]
        run = measure(cclmark, MACA, "all_reduce", "-e", "64", env=env, code=3)
        assert "has no symbol mcGetDeviceCount" in run.err

    def test_a_second_copy_of_the_runtime(self, cclmark, env_of, tmp_path: Path) -> None:
        env = env_of(RCCL)
        copy = shutil.copy(env[RCCL.runtime_variable], tmp_path / "libamdhip64.so.5")
        env["LD_PRELOAD"] = str(copy)
        run = measure(cclmark, RCCL, "all_reduce", "-e", "64", env=env, code=3)
        assert "two files of one runtime are loaded" in run.err
        assert f"Set CCLMARK_HIP_LIBRARY={copy}" in run.err

    def test_one_that_is_too_old(self, cclmark, env_of) -> None:
        env = env_of(MACA, CCLMARK_FAKE_NCCL_VERSION="20605")
        run = measure(cclmark, MACA, "all_reduce", "-e", "64", env=env, code=3)
        assert "is version 2.6.5; 2.7 or newer is required" in run.err


class TestUnverified:
    """A library of whose interface too little is known."""

    def test_it_is_not_used_unasked(self, cclmark, env_of) -> None:
        run = measure(cclmark, SUNRISE, "all_reduce", "-e", "64", env=env_of(SUNRISE), code=3)
        assert "it numbers element types and reductions as NCCL does" in run.err
        assert "--allow-unverified" in run.err
        assert not run.written()

    def test_nor_as_the_devices_own(self, cclmark, env_of) -> None:
        run = cclmark("all_reduce", "--devices", "tang", env=env_of(SUNRISE), code=3)
        assert "--allow-unverified" in run.err

    def test_it_is_measured_with_a_warning(self, cclmark, env_of) -> None:
        run = measure(
            cclmark,
            SUNRISE,
            *("all_reduce", "-b", "64", "-e", "64", "--allow-unverified"),
            env=env_of(SUNRISE),
        )
        said = "sunrise-pccl is unverified: cclmark assumes that it numbers"
        assert said in run.err
        assert any(said in notice for notice in run.journal.header.notices)
        assert {result.status for result in run.journal.results} == {"ok"}

    def test_what_is_assumed_is_listed(self, cclmark, env_of, without_torch) -> None:
        run = cclmark("info", "--ccls", "--json", env=env_of(SUNRISE) | without_torch)
        reports = {report["name"]: report for report in json.loads(run.out)["ccls"]}
        verified = reports["sunrise-pccl"]["verified"]
        assert verified.startswith("unverified")
        assert "an id has 128 bytes" in verified
