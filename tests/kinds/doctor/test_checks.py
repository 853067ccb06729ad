"""Every check on recorded hosts: it fails with a fault, passes without, and never raises.

The hosts are rows of ``cases/*.toml`` beside this file.
"""

import re
from pathlib import Path

import pytest
from msgspec import toml

from cclmark_fleet.hosts.check import CheckOutcome
from cclmark_fleet.hosts.checks import CHECKS, IDS
from cclmark_fleet.hosts.examination import examine
from cclmark_fleet.hosts.host_probe import _lines_of
from cclmark_fleet.hosts.shipped_data import table
from host_cases import cases, changed
from recorded_hosts import HEALTHY, h100

HERE = Path(__file__).parent
CASES = cases()
FAULTS = {}
for _case in CASES:
    if _case.state == "fail":
        FAULTS.setdefault(_case.check, []).append(_case.recording)
GPU = "0000:03:00.0"
XID = "NVRM: Xid (PCI:0000:03:00): "
#: Checks that judge nothing on a host alone, and why.
NEVER_FAILS = {
    "adaptive-routing": "the host does not show it",
    "container-ipc": "whether another container shares its memory is not visible",
}
#: What a fault may also fail, because it follows from it.
RELATED = {
    "gpu-count": {"nvlink-down", "pcie-bandwidth"},
    "pcie-width": {"pcie-bandwidth"},
    "pcie-slot": {"pcie-bandwidth"},
    "pcie-bridges": {"pcie-bandwidth"},
    "pcie-bandwidth": {"pcie-width"},
    "pcie-speed": {"pcie-bandwidth"},
    "rdma-state": {"gpu-network"},
    "rdma-width": {"rdma-rate"},
    "nccl-versions": {"nccl-version"},
    "nccl-version": {"nccl-versions"},
    "cuda-driver": {"nccl-versions"},
    "imex": {"nvlink-rate"},
}


def outcome(host, check):
    (found,) = examine(host.host(), [one for one in CHECKS if one.id == check], 0.0).outcomes
    assert isinstance(found, CheckOutcome)
    return found


def ended(host, state):
    return [one.check for one in examine(host.host(), CHECKS, 0.0).outcomes if one.state == state]


def test_every_check_has_a_failing_and_a_passing_host():
    assert {*FAULTS} | {*NEVER_FAILS} == {*IDS}
    passed = {one.check for one in CASES if one.state == "pass"}
    passed |= {check for healthy in HEALTHY.values() for check in ended(healthy(), "pass")}
    assert {*IDS} - passed == {"adaptive-routing"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}-{case.number}")
def test_a_check_ends_in_the_state_of_its_case(case):
    found = outcome(case.recording(), case.check)
    assert found.state == case.state, (found.reason, found.signals)
    texts = [f"{one.where}: {one.seen} ({one.limit})" for one in found.signals]
    for text in case.row.get("seen", ()):
        assert any(text in one for one in (*texts, found.reason)), (texts, found.reason)
    assert len(texts) == case.row.get("count", len(texts))
    assert found.needs == case.row.get("needs", found.needs)
    steps = [one.step for one in found.remedies]
    assert steps == case.row.get("steps", steps)
    assert steps == sorted(steps, key=["setting", "reset", "reboot", "service"].index)
    if case.state == "fail":
        assert texts and all(not one.is_ok for one in found.signals)
        assert found.cost and found.source and steps
        assert not found.cost.startswith("see ")


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_fails_on_a_healthy_host(name):
    found = examine(HEALTHY[name]().host(), CHECKS, 0.0).outcomes
    assert [one.check for one in found] == [*IDS]
    assert {one.check: one.signals for one in found if one.state == "fail"} == {}
    for one in found:
        assert one.reason if one.state in ("unknown", "absent") else one.signals


@pytest.mark.parametrize("check", FAULTS)
def test_a_fault_fails_little_else(check):
    assert {*ended(FAULTS[check][0](), "fail")} - {check} <= RELATED.get(check, set())


def test_innocent_values_are_not_flagged():
    """Lifetime counters, defaults of drivers and caps that load explains."""
    counters = "IB/mlx5_0/ports/1/counters"
    host = changed(
        smi={"SW Power Cap": "Active", "Aggregate/DRAM Uncorrectable": "99999"},
        files={f"{counters}/link_downed": "4000000\n", f"{counters}/symbol_error": "4294967295\n"},
        dmesg=f"{XID}31, pid=1, Ch 8, MMU Fault\n{XID}13, pid=1, Graphics Exception",
    )
    assert ended(host, "fail") == []


@pytest.mark.parametrize("lines", toml.decode((HERE / "harmless.toml").read_text())["lines"])
def test_lines_of_the_kernel_that_are_harmless(lines):
    for name in ("h100", "amd"):
        assert ended(changed(name, dmesg=lines), "fail") == []


def test_a_live_probe_keeps_every_line_that_a_check_judges():
    keeps = _lines_of("dmesg")
    for check in ("kernel-hangs", "network-log", "pcie-log", "gpu-log", "memory-log", "gpu-xid"):
        for recording in FAULTS[check]:
            last = recording().run["dmesg"].splitlines()[-1]
            assert keeps.search(last), last
    for line in ("eno1: NIC Link is Down", "nfs: server fs1 OK", "eno1: Lost carrier"):
        assert keeps.search(line)


def test_a_gpu_of_which_no_value_or_a_part_is_read():
    """The name and the modes are read, three sections are not: the driver lost the GPU."""
    host = changed(unread="ERR!")
    assert outcome(host, "gpu-driver").signals[0].where == "0000:05:00.0"
    for check in ("gpu-ecc-errors", "gpu-temperature", "gpu-power", "gpu-ecc-mode", "gpu-mig"):
        found = outcome(host, check)
        assert (found.state, found.reason[:12]) == ("unknown", "0000:05:00.0")
    names = ("GPU Current Temp", "DRAM Uncorrectable", "Current Power Limit")
    host = changed(smi=dict.fromkeys(names, "Unknown Error"))
    found = outcome(host, "gpu-driver")
    assert (found.signals[0].where, found.remedies[0].step) == (GPU, "reset")
    assert outcome(host, "gpu-persistence").state == "pass"
    host = changed(smi={"ECC Mode/Pending": "Unknown Error"})
    assert outcome(host, "gpu-ecc-mode").state == "unknown"


def test_a_tool_that_hangs_or_is_missing_is_no_fault():
    for error in ("no answer within 20 s", "permission denied", "missing"):
        host = h100()
        host.run = {command: {"error": error} for command in host.run}
        assert ended(host, "fail") == [], error
        assert outcome(host, "nvlink-down").state == "unknown"


def test_files_without_permission_and_a_partial_sysfs_fail_nothing():
    for keep in ("class", "vendor"):
        host = h100()
        host.read = {
            path: (value if path.endswith(keep) else {"error": "permission denied"})
            for path, value in host.read.items()
        }
        assert {*ended(host, "fail")} <= {"gpu-driver"}


@pytest.mark.parametrize("rule", table("xids"), ids=lambda rule: rule.code)
def test_every_xid_of_the_catalogue(rule):
    """A code that asks for a reset or more fails, others are of programs or for information."""
    found = outcome(changed(dmesg=f"{XID}{rule.code}, pid=1, name=x, {rule.text}"), "gpu-xid")
    asks = rule.action.startswith(("RESET_GPU", "RESTART_BM", "RESTART_VM", "WORKFLOW_NV"))
    asks = asks or rule.action in ("WORKFLOW_XID_48", "CHECK_MECHANICALS", "UPDATE_SWFW")
    asks = asks or rule.code in (92, 167, 168, 169, 171, 172)
    assert (found.state == "fail") == asks, rule
    if asks:
        assert f"Xid {rule.code}" in found.signals[0].seen
        assert rule.text[:40] in found.signals[0].seen


def test_the_catalogue_has_no_code_twice():
    codes = [rule.code for rule in table("xids")]
    assert len(codes) == len({*codes}) >= 60


def test_every_row_of_a_table_belongs_to_a_check_and_has_a_source():
    for name in ("counters", "variables", "kernel_lines"):
        assert {row.family for row in table(name)} <= {*IDS}
    for name in ("counters", "variables", "machines", "versions", "kernel_lines"):
        assert all(row.source for row in table(name))


@pytest.mark.parametrize("rule", table("variables"), ids=lambda rule: f"{rule.name}={rule.value}")
def test_no_variable_is_flagged_by_its_default(rule):
    """Empty values and 0 of switches are never flagged, but where 0 is what turns off."""
    assert not re.fullmatch(rule.value, "")
    for name in rule.name.split("|"):
        usual = "compute" if name == "NVIDIA_DRIVER_CAPABILITIES" else "usual-value"
        if not rule.value.endswith(".+"):
            assert outcome(changed(env={name: usual}), rule.family).state == "pass"
