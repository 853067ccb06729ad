"""``cclmark doctor``."""

import csv
import io
import json
import os
import stat
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cclmark_fleet.hosts.checks import IDS
from in_process import run_here
from recorded_hosts import IB, PCI, base, container, h100, roce
from refusals import require_refusals

#: One check of a host that is the same everywhere: limits of this process.
HERE = ("doctor", "--only", "open-files,shm-free,clock-source")


def test_what_is_refused(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, ["doctor"])


@pytest.fixture
def examined(tag, tmp_path):
    """Judges recorded hosts in the process of the tests: ``examined("--prolog", gpu17=host)``."""
    numbers = count()

    def judged(*options, code=0, columns=200, **hosts):
        paths = [tmp_path / f"{name}.json" for name in hosts]
        for path, host in zip(paths, hosts.values(), strict=True):
            path.write_bytes(host.content())
        journal = ("--journal", f"{next(numbers)}.jsonl") * ("--prolog" not in options)
        words = ("doctor", "--from", *paths, *options, *journal)
        return run_here(tag, tmp_path, *words, code=code, env={"COLUMNS": str(columns)})

    return judged


def faulty():
    host = h100().set(f"{PCI}/0000:03:00.0/current_link_width", "8\n")
    host.environment["NCCL_P2P_DISABLE"] = "1"
    return host.grow(f"{IB}/mlx5_0/ports/1/counters/link_downed", "2\n")


def test_failed_checks_come_first_and_the_verdict_last(examined):
    text = examined(gpu17=faulty(), columns=100, code=1).out
    assert max(map(len, text.splitlines())) <= 100
    titles = ("failed checks", "pcie-width", "\n  passed  ", "verdict", "notable", "next")
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    assert "critical  pcie-width" in text
    assert "fix 1  setting:" in text
    assert "\n  verdict    not healthy: pcie-width: 0000:03:00.0: x8" in text
    assert "\n  next       cclmark doctor --only " in text


def test_differences_between_hosts_come_first(examined):
    older = h100().set(
        "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1.05\n"
    )
    run = examined(node1=h100(), node2=h100(), node3=faulty(), node4=older, columns=80, code=1)
    assert run.out.index("differences between hosts") < run.out.index("failed checks")
    rows = [line.split() for line in run.out.splitlines()]
    assert ["pcie-width", "passed", "(3)", "node3:", "failed"] in rows
    assert ["driver", "550.127.05", "(3)", "node4:", "535.1.05"] in rows
    assert ["NCCL_P2P_DISABLE", "not", "set", "(3)", "node3:", "1"] in rows


def older_nccl(host):
    library = "/usr/lib/x86_64-linux-gnu/libnccl.so.2.28"
    host.set(f"{library}.9", None).set(f"{library}.3", "")


def slower_ports(host):
    for number in range(8):
        host.set(f"{IB}/mlx5_{number}/ports/1/rate", "200 Gb/sec (4X HDR)\n")


def without_dcb(host):
    host.run = {name: text for name, text in host.run.items() if not name.startswith("dcb")}


@pytest.mark.parametrize(
    ("kind", "changed", "verdict"),
    [
        (base, older_nccl, "to fix: hosts differ in NCCL: 2.28.9 on 2 hosts, 2.28.3"),
        (h100, slower_ports, "to fix: hosts differ in RDMA: 8 × "),
        # What costs no communication is only noted.
        (roce, lambda host: host.environment.update(NCCL_HOSTID="7"), "no fault found: "),
        (roce, without_dcb, "no fault found: "),
    ],
)
def test_a_difference_that_costs_communication_is_the_verdict(examined, kind, changed, verdict):
    """No check fails on any of the hosts alone."""
    hosts = {"one": kind(), "two": kind(), "last": kind()}
    changed(hosts["last"])
    code = int("differ" in verdict)
    assert f"\n  verdict    {verdict}" in examined(**hosts, code=code).out
    line = examined("--prolog", **hosts, code=code).out
    assert line.startswith("cclmark doctor: " + ("FAILED hosts differ in " if code else "OK, "))


def test_hosts_of_one_name_are_told_apart(examined, tmp_path):
    out = examined(str(tmp_path / "host.json"), "--format", "csv", host=h100()).out
    assert {row["host"] for row in csv.DictReader(io.StringIO(out))} == {"host#1", "host#2"}


def test_other_formats(examined):
    def text(form):
        return examined("--format", form, gpu17=faulty(), cpu=container(), code=1).out

    rows = [*csv.DictReader(io.StringIO(text("csv")))]
    assert len(rows) == 2 * len(IDS)
    failed = {(row["host"], row["check"]) for row in rows if row["state"] == "fail"}
    assert ("gpu17", "pcie-width") in failed and not any(host == "cpu" for host, _ in failed)
    suites = ElementTree.fromstring(text("junit"))
    gpu, cpu = suites.findall("testsuite")
    assert int(gpu.get("failures")) == len(failed) == len(gpu.findall("testcase/failure"))
    assert int(cpu.get("failures")) == 0
    assert int(cpu.get("skipped")) == len(cpu.findall("testcase/skipped"))
    metrics = text("prometheus")
    assert 'cclmark_doctor_check_failed{host="gpu17",check="pcie-width"} 1' in metrics
    assert 'cclmark_doctor_check_failed{host="cpu",check="shm-size"} 0' in metrics
    assert metrics.endswith("# EOF\n")
    assert [len(one["outcomes"]) for one in json.loads(text("json"))["hosts"]] == [len(IDS)] * 2


def test_a_prolog_is_a_line_without_a_journal(examined):
    run = examined("--prolog", gpu17=faulty(), code=1)
    assert run.out.count("\n") == 1
    assert run.out.startswith("cclmark doctor: FAILED pcie-width: 0000:03:00.0: x8 (limit ≥ x16)")
    assert run.written() == ["gpu17.json"]


def test_names_from_a_host_control_no_terminal(examined):
    host = base()
    host.environment["NCCL_P2P_DISABLE"] = "1\x1b[2J\n\u202e"
    host.environment["NCCL_SOCKET_IFNAME"] = "eth\x1b[31m"
    host.set("/proc/sys/kernel/osrelease", "6.1\x1b]0;x\x07\n")
    formats = (("--format", form) for form in ("table", "markdown", "junit", "csv", "prometheus"))
    for options in (*formats, ["--prolog"]):
        out = examined(*options, host=host, code=1).out
        assert "\x1b" not in out and "\u202e" not in out


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
