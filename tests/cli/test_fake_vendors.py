"""What fakes of vendors' libraries show beyond ``scenarios/``: reports, copies, and journals."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from vendors import HCCL, SHAPES, SHIM, VENDORS, by_name

from cclmark.kinds.pieces.result import PieceResult
from commands import completed
from fake_libraries import fake_library
from goldens import outline, require_golden
from places import TESTS

LONE_RANK = TESTS / "fakes" / "lone_rank.py"


@pytest.fixture(scope="module")
def reports(cclmark_in, tmp_path_factory) -> dict[str, dict]:
    """What ``info`` says of every library on a machine that has all of them."""
    env = {name: text for vendor in (*SHAPES, HCCL) for name, text in vendor.env().items()}
    run = cclmark_in(tmp_path_factory.mktemp("info"), "info", "--ccls", "--json", env=env)
    return {report["name"]: report for report in json.loads(run.out)["ccls"]}


@pytest.mark.parametrize("vendor", (*SHAPES, HCCL), ids=by_name)
def test_how_operations_are_done(reports, vendor) -> None:
    report = dict(reports[vendor.ccl])
    assert report.pop("id_bytes") == vendor.id_bytes
    report["path"] = Path(report["path"]).name
    require_golden(f"fakes/{vendor.ccl}-info.txt", outline(report))
    assert reports["sunrise-pccl"]["reason"].startswith("sunrise-pccl was not found")


def test_every_vendor_has_a_scenario_of_all_operations() -> None:
    text = Path(__file__).with_name("scenarios").joinpath("vendors.txt").read_text()
    for vendor in VENDORS:
        assert f"\n    = fakes/{vendor.ccl}.txt\n" in text, vendor.ccl


@pytest.mark.parametrize(
    ("runtime", "file", "copy", "order", "timed", "without"),
    [
        ("cnrt", "libcnrt.so", "cnrtMemcpyAsync_V2", "stream,1", True, "for cnrt devices"),
        ("hip", "libamdhip64.so.6", "hipMemcpyAsync", "3,stream", True, "hipRTC was not found"),
        ("musa", "libmusart.so", "musaMemcpyAsync", "3,stream", False, "MTRTC was not found"),
    ],
)
def test_a_lone_rank(tmp_path, runtime, file, copy, order, timed, without) -> None:
    """A runtime without a library of its own, and two with one, seen from a session."""
    path = fake_library(f"{runtime}/{file}")
    run = completed(
        [sys.executable, str(LONE_RANK), runtime, copy, order],
        env={**os.environ, f"CCLMARK_{runtime.upper()}_LIBRARY": str(path)},
        cwd=tmp_path,
        check=True,
    )
    found = json.loads(run.stdout)
    assert (found["devices"], found["pci_bus_id"]) == (4, "0000:02:00.0")
    assert found["name"].startswith("CCLMark Fake ")
    assert 0 < found["free_bytes"] < found["memory_bytes"] == 1 << 30
    assert found["reach"] is True
    assert without in found["checked_on_host"]
    assert "out of" in found["too much"]
    for place in ("out of place", "in place"):
        result = found[place]
        assert (result["wrong"], result["caught"]) == ([0], [1])
        if timed:
            # One operation is one copy: the events' unit is right when both clocks tell alike.
            assert result["host_s"] / 300 < result["device_s"] < 3 * result["host_s"]
        else:
            assert result["device_s"] is None
    assert found["in place"]["route"] == "copy aside, then a copy for alltoall"


def test_info_on_nvidias_machine(cclmark, fake_cuda, tmp_path, without_torch) -> None:
    """Its libcudart drives the devices of its libcuda, and NCCL has no other vendor's name."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / fake_cuda.nccl.name).symlink_to(fake_cuda.nccl)
    env = fake_cuda.env(
        CCLMARK_FAKE_DEVICES="2",
        CCLMARK_CUDART_LIBRARY=SHIM.env()[SHIM.runtime_variable],
        LD_LIBRARY_PATH=str(tmp_path / "lib"),
    )
    document = json.loads(cclmark("info", "--json", env=env).out)
    names = {one["name"] for one in document["libraries"]}
    assert "nccl" in names
    devices = [(one["runtime"], one["index"]) for one in document["devices"]]
    assert devices == [("cuda", 0), ("cuda", 1), ("host", 0)]
    assert document["unavailable"]["runtime cudart"] == "its devices belong to cuda"
    assert not {"ixccl", "duccl", "pccl"} & names
    run = cclmark("info", "--ccls", "--json", env=env | without_torch)
    reasons = {one["name"]: one["reason"] for one in json.loads(run.out)["ccls"]}
    assert reasons["nccl"] == ""
    for name in ("ixccl", "duccl", "pccl"):
        assert "the devices of this machine belong to cuda" in reasons[name]


ON_ASCEND = ("--devices", "acl:0,1", "-b", "64", "-e", "64", "-n", "2", "-w", "1")


def test_the_check_of_the_host_names_the_values_of_16_bit_integers(cclmark):
    fault = ("--inject", "corrupt:rank=1,index=5")
    run = cclmark("all_gather", *ON_ASCEND, "-d", "int16,uint16", *fault, code=1, env=HCCL.env())
    found = {it.case.dtype: it.verification.findings[0] for it in run.journal.results}
    assert 0 <= int(found["uint16"].expected) < 1 << 16
    assert -(1 << 15) <= int(found["int16"].expected) < 1 << 15


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


SHORT = ("-n", "2", "-w", "1")
TWO = ("-g", "2", "-b", "64", "-e", "64", *SHORT)


def keys(value):
    """The shape of a document: the names at every depth."""
    if isinstance(value, dict):
        return {(name, *below) for name, inner in value.items() for below in keys(inner) or [()]}
    if isinstance(value, list):
        return {below for inner in value for below in keys(inner)}
    return set()


def test_a_journal_has_one_schema_on_host_and_accelerators(cclmark, fake_cuda, tmp_path):
    on_host = cclmark("all_reduce", "--devices", "host:2", "-b", "64", "-e", "128", *SHORT)
    on_cuda = cclmark(
        *("all_reduce", "-g", "2", "-b", "64", "-e", "128", *SHORT, "--timing", "throughput"),
        env=fake_cuda.env(),
    )
    shapes = []
    for run in (on_host, on_cuda):
        assert {result.status for result in run.journal.results} == {"ok"}
        cases = [json.loads(line) for line in run.journal_path.read_text().splitlines()][1:-1]
        shapes.append([keys(case) - {("summary", "late_rank")} for case in cases])
        assert len(cases) == 4
    assert shapes[0] == shapes[1]
    header = on_cuda.journal.header
    assert [device.index for device in header.devices] == [0, 1]
    assert {device.runtime for device in header.devices} == {"cuda"}
    assert [library.path for library in header.libraries] == [str(fake_cuda.nccl.resolve())]


def test_the_host_sees_a_batch_of_per_op_as_one(cclmark, fake_cuda):
    five = ("--timing", "per-op", "-n", "5", "-w", "1")
    for clock, samples in (("device", 5), ("host", 1)):
        run = cclmark("all_reduce", *TWO, *five, "--clock", clock, env=fake_cuda.env())
        for result in run.journal.results:
            assert result.summary.clock == clock
            assert result.summary.samples == len(result.samples.host_s) == samples
            assert len(result.samples.device_s) == len(result.samples.enqueue_s) == samples
            assert result.samples.operations_per_sample == 5 // samples


@pytest.mark.parametrize("operation", ["all_reduce", "sendrecv"])
def test_pieces_are_also_one_group(cclmark, fake_cuda, operation):
    sizes = ("-g", "2", "-b", "1000", "-e", "1000", "--max-time", "0.02")
    run = cclmark(operation, *sizes, "--pieces", "7", env=fake_cuda.env())
    for result in run.journal.of(PieceResult):
        found = {
            row.division.form: (row.status, row.verification.wrong, row.summary.clock)
            for row in result.rows
        }
        assert found == dict.fromkeys(("one", "separate", "grouped"), ("ok", 0, "device"))


def flagcx_env(fake_cuda, **more):
    library = fake_cuda.nccl.parent / "libflagcx.so"
    return fake_cuda.env(CCLMARK_FLAGCX_LIBRARY=str(library), **more)


def test_a_rank_that_dies_ends_the_run(background, fake_cuda, no_leaks):
    run = background(
        *("all_reduce", "--ccl", "bridge", "-g", "3", "--islands", "0-1,2", "-b", "16K"),
        *("-e", "16K", "-n", "2", "-w", "1", "-N", "0", "--timeout", "20"),
        env=flagcx_env(fake_cuda),
    )
    ranks = run.wait_for_ranks(1)
    run.signal(ranks[2], signal.SIGKILL)
    assert "rank 2" in run.finish(code=4).message


def test_an_explanation_has_a_log_of_its_own(cclmark, fake_cuda, tmp_path):
    """The user's log is of the measurement: the second pass neither adds to it nor replaces it."""
    log = tmp_path / "flagcx.log"
    run = cclmark(
        *("all_reduce", "--ccl", "flagcx", "-g", "2", "-b", "64", "-e", "64", "-n", "2"),
        *("-w", "1", "--explain", "--format", "json"),
        env=flagcx_env(fake_cuda, FLAGCX_DEBUG="INFO", FLAGCX_DEBUG_FILE=str(log)),
    )
    assert "FLAGCX INFO rank = " in log.read_text()
    assert run.journal.header.environment["FLAGCX_DEBUG_FILE"] == str(log)
    assert run.journal.paths  # of the second pass
    assert len(json.loads(run.out)["cases"]) == len(run.journal.results)
