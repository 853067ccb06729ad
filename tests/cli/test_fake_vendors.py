"""What fakes of vendors' libraries show beyond ``scenarios/``: reports, copies, and journals."""

import json
import os
import sys
from pathlib import Path

import pytest
from vendors import HCCL, SHAPES, VENDORS, by_name

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


def test_the_check_of_the_host_names_the_values_of_16_bit_integers(cclmark):
    sizes = ("--devices", "acl:0,1", "-b", "64", "-e", "64", "-n", "2", "-d", "int16,uint16")
    fault = ("--inject", "corrupt:rank=1,index=5")
    run = cclmark("all_gather", *sizes, *fault, code=1, env=HCCL.env())
    found = {it.case.dtype: it.verification.findings[0] for it in run.journal.results}
    assert 0 <= int(found["uint16"].expected) < 1 << 16
    assert -(1 << 15) <= int(found["int16"].expected) < 1 << 15
