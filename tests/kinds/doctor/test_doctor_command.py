"""``cclmark doctor``."""

import csv
import io
import json
import os
import stat
from xml.etree import ElementTree

import pytest

from cclmark_fleet.hosts.checks import IDS
from recorded_hosts import IB, PCI, base, container, h100, roce

REFUSED = {
    "a.json": "FILE... requires --from: they are recorded hosts",
    "--from none.json": "--from none.json: No such file or directory",
    "--only pcie-with": "--only: unknown check 'pcie-with': did you mean 'pcie-width'? Choose from",
    "--skip x": "--skip: unknown check 'x'. Choose from gpu-driver",
    "--only shm --skip shm-size,shm-free": "--skip leaves none of the checks",
    "--prolog --watch 60s": "--prolog excludes --watch: a prolog has 5 s",
    "--prolog --measure": "--prolog excludes --measure",
    "--from a.json --record b.json": "--from excludes --record: they are recorded already",
    "--from a.json --watch 60s": "--from excludes --watch",
    "--from a.json --measure": "--from excludes --measure",
    "--watch soon": "soon",
    "--format xml": "xml",
}
#: One check of a host that is the same everywhere: limits of this process.
HERE = ("doctor", "--only", "open-files,shm-free,clock-source")


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(refused, words):
    refused("doctor", *words.split(), because=REFUSED[words])


def written(folder, **hosts):
    """Writes recorded hosts, and returns the arguments that name them."""
    for name, host in hosts.items():
        (folder / f"{name}.json").write_bytes(host.content())
    return ["doctor", "--from", *(str(folder / f"{name}.json") for name in hosts)]


def faulty():
    host = h100().set(f"{PCI}/0000:03:00.0/current_link_width", "8\n")
    host.environment["NCCL_P2P_DISABLE"] = "1"
    return host.grow(f"{IB}/mlx5_0/ports/1/counters/link_downed", "2\n")


def test_failed_checks_come_first_and_the_verdict_last(cclmark, tmp_path):
    run = cclmark(*written(tmp_path, gpu17=faulty()), env={"COLUMNS": "100"}, code=1)
    lines = run.out.splitlines()
    assert max(map(len, lines)) <= 100
    at = [
        next(place for place, line in enumerate(lines) if word in line)
        for word in (
            "failed checks",
            "pcie-width",
            "cannot tell",
            "other checks",
            "verdict",
            "notable",
            "next",
        )
    ]
    assert at[0] < at[1] < at[3] < at[4] < at[5] < at[6]
    assert "critical  pcie-width" in run.out
    assert "fix 1  setting:" in run.out
    assert lines[at[4]].startswith("  verdict    not healthy: pcie-width: 0000:03:00.0: x8")
    assert lines[at[6]].startswith("  next       cclmark doctor --only ")


def test_differences_between_hosts_come_first(cclmark, tmp_path):
    older = h100().set(
        "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1.05\n"
    )
    hosts = {"node1": h100(), "node2": h100(), "node3": faulty(), "node4": older}
    run = cclmark(*written(tmp_path, **hosts), code=1)
    assert run.out.index("differences between hosts") < run.out.index("failed checks")
    rows = [line.split() for line in run.out.splitlines()]
    assert ["pcie-width", "passed", "(3)", "node3:", "failed"] in rows
    assert ["driver", "550.127.05", "(3)", "node4:", "535.1.05"] in rows
    assert ["NCCL_P2P_DISABLE", "not", "set", "(3)", "node3:", "1"] in rows
    assert "critical  pcie-width" in run.out and "node3" in run.out


def older(host):
    return host.set("/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9", None).set(
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.3", ""
    )


def without_dcb(host):
    host.run = {name: text for name, text in host.run.items() if not name.startswith("dcb")}
    return host


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (older, "hosts differ in NCCL: 2.28.9 on 2 hosts, 2.28.3"),
        (
            lambda host: [
                host.set(f"{IB}/mlx5_{number}/ports/1/rate", "200 Gb/sec (4X HDR)\n")
                for number in range(8)
            ],
            "hosts differ in RDMA: 8 × ",
        ),
    ],
)
def test_a_difference_that_costs_communication_is_the_verdict(cclmark, tmp_path, changed, words):
    """No check fails on any of the hosts alone."""
    kind = base if words.startswith("hosts differ in NCCL:") else h100
    hosts, last = {"one": kind(), "two": kind()}, kind()
    changed(last)
    run = cclmark(*written(tmp_path, **hosts, last=last), env={"COLUMNS": "200"}, code=1)
    (verdict,) = [line for line in run.out.splitlines() if line.startswith("  verdict")]
    assert verdict.startswith(f"  verdict    to fix: {words}")
    assert "no fault found" not in run.out
    line = cclmark(*written(tmp_path, **hosts, last=last), "--prolog", code=1).out
    assert line.startswith("cclmark doctor: FAILED hosts differ in ")


@pytest.mark.parametrize(
    "changed",
    [
        lambda host: host.environment.update(NCCL_HOSTID="7", NCCL_DEBUG_FILE="/tmp/a"),
        without_dcb,
    ],
)
def test_a_difference_that_costs_nothing_is_only_noted(cclmark, tmp_path, changed):
    last = roce()
    changed(last)
    run = cclmark(*written(tmp_path, one=roce(), two=roce(), last=last))
    assert "verdict    no fault found: " in run.out


def test_hosts_of_one_name_are_told_apart(cclmark, tmp_path):
    words = written(tmp_path, host=h100())
    out = cclmark(*words, words[-1], "--format", "csv").out
    assert {row["host"] for row in csv.DictReader(io.StringIO(out))} == {"host#1", "host#2"}


def test_other_formats(cclmark, tmp_path):
    words = written(tmp_path, gpu17=faulty(), cpu=container())
    rows = [*csv.DictReader(io.StringIO(cclmark(*words, "--format", "csv", code=1).out))]
    assert len(rows) == 2 * len(IDS)
    failed = {(row["host"], row["check"]) for row in rows if row["state"] == "fail"}
    assert ("gpu17", "pcie-width") in failed and not any(host == "cpu" for host, _ in failed)
    suites = ElementTree.fromstring(cclmark(*words, "--format", "junit", code=1).out)
    gpu, cpu = suites.findall("testsuite")
    assert int(gpu.get("failures")) == len(failed) == len(gpu.findall("testcase/failure"))
    assert int(cpu.get("failures")) == 0
    assert int(cpu.get("skipped")) == len(cpu.findall("testcase/skipped"))
    text = cclmark(*words, "--format", "prometheus", code=1).out
    assert 'cclmark_doctor_check_failed{host="gpu17",check="pcie-width"} 1' in text
    assert 'cclmark_doctor_check_failed{host="cpu",check="shm-size"} 0' in text
    assert text.endswith("# EOF\n")
    hosts = json.loads(cclmark(*words, "--format", "json", code=1).out)["hosts"]
    assert [len(one["outcomes"]) for one in hosts] == [len(IDS)] * 2


def test_a_prolog_is_a_line_without_a_journal(cclmark, tmp_path):
    run = cclmark(*written(tmp_path, gpu17=faulty()), "--prolog", code=1)
    assert run.out.count("\n") == 1
    assert run.out.startswith("cclmark doctor: FAILED pcie-width: 0000:03:00.0: x8 (limit ≥ x16)")
    assert run.written() == ["gpu17.json"]
    healthy = cclmark(*written(tmp_path, host=base()), "--prolog")
    assert healthy.out.startswith("cclmark doctor: OK, ")


def test_names_from_a_host_control_no_terminal(cclmark, tmp_path):
    host = base()
    host.environment["NCCL_P2P_DISABLE"] = "1\x1b[2J\n\u202e"
    host.environment["NCCL_SOCKET_IFNAME"] = "eth\x1b[31m"
    host.set("/proc/sys/kernel/osrelease", "6.1\x1b]0;x\x07\n")
    for format in ("table", "markdown", "junit", "csv", "prometheus"):
        out = cclmark(*written(tmp_path, host=host), "--format", format, code=1).out
        assert "\x1b" not in out and "\u202e" not in out
    out = cclmark(*written(tmp_path, host=host), "--prolog", code=1).out
    assert "\x1b" not in out


def test_this_host_is_examined_and_recorded(cclmark, tmp_path):
    path = tmp_path / "host.json.gz"
    run = cclmark(*HERE, "--record", str(path))
    assert "3 passed" in run.out
    assert f"recorded host {path}" in run.err
    again = cclmark("doctor", "--from", str(path), "--only", "open-files,shm-free,clock-source")
    assert "3 passed" in again.out


def test_counters_are_read_twice(cclmark):
    run = cclmark(*HERE, "--only", "net-errors,open-files", "--watch", "1s")
    (result,) = run.journal.results
    assert result.interval_s == 0 or 0.9 < result.interval_s < 30


def test_the_cost_of_a_variable_is_measured(cclmark):
    env = {"NCCL_MAX_NCHANNELS": "2"}
    run = cclmark("doctor", "--only", "variable-choice", "--measure", env=env, code=1)
    ((outcome,),) = [one.outcomes for one in run.journal.results]
    assert "GB/s without NCCL_MAX_NCHANNELS" in outcome.measured
    assert "measured: all_reduce 64 MiB" in run.out


def test_a_tool_that_hangs_ends_in_a_state_within_a_prolog(cclmark, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("nvidia-smi", "dmesg", "lspci"):
        (tools / name).write_text("#!/bin/sh\nexec sleep 600\n")
        (tools / name).chmod(stat.S_IRWXU)
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    run = cclmark("doctor", "--prolog", "--only", "kernel-hangs,gpu", env=env)
    assert run.out.startswith("cclmark doctor: OK, ")
