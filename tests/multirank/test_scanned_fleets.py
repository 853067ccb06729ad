"""Scans of several processes and of several hosts: a loss is a result, and a slow link is named."""

import os
import shutil
import signal
import subprocess

import pytest

from cclmark.kinds.scan.result import ScanResult
from commands import PROGRAM, environment, wait_until

QUICK = ("scan", "--devices", "host", "-e", "64K", "--max-time", "0.02", "-T", "60")


@pytest.mark.started
def test_a_rank_that_dies_is_left_out_and_named(pods):
    """Its process goes on, so the others are new ranks of the same processes."""
    words = (*QUICK, "--max-time", "0.5", "--topology", "fat-tree:3x1")
    started = [pods.start(rank, 3, *words) for rank in (2, 1, 0)]
    wait_until(lambda: pods.results() > 1, "the first round is measured")
    os.kill(started[0].pid, signal.SIGKILL)
    started[0].wait()
    ends = [pods.end(process, 240) for process in started[1:]]
    code, out, _ = ends[-1]
    assert code == 1, ends
    assert "stopped answering: process 2" in " ".join(out.split())
    journal = pods.journal()
    results = [one for one in journal.results if isinstance(one, ScanResult)]
    assert len({one.index for one in results}) == len(results) == journal.header.planned_cases
    late = [one for one in results if one.failed]
    assert all(2 not in test.devices for one in late for test in one.tests)
    assert {one.device for one in late[-1].failed} == {2}


def run(*words):
    """Runs a program of the system; returns whether it succeeds."""
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture
def networks():
    """Four network namespaces, each with a shaped link to a bridge; the third link is slow."""
    if os.geteuid() != 0 or not shutil.which("tc") or not shutil.which("ip"):
        pytest.skip("network namespaces require root, ip and tc")
    pytest.importorskip("torch")
    tag = f"cm{os.getpid() % 10000}"
    names = [f"{tag}-{number}" for number in range(4)]
    shape = ("root", "tbf", "burst", "16kb", "latency", "50ms", "rate")
    try:
        steps = [
            ("ip", "link", "add", tag, "type", "bridge"),
            ("ip", "link", "set", tag, "up"),
        ]
        for number, name in enumerate(names):
            rate, inside = "40mbit" if number == 2 else "100mbit", ("ip", "netns", "exec", name)
            steps += [
                ("ip", "netns", "add", name),
                ("ip", "link", "add", name, "type", "veth", "peer", "e0", "netns", name),
                ("ip", "link", "set", name, "master", tag, "up"),
                (*inside, "ip", "link", "set", "lo", "up"),
                (*inside, "ip", "addr", "add", f"10.97.0.{number + 1}/24", "dev", "e0"),
                (*inside, "ip", "link", "set", "e0", "up"),
                ("tc", "qdisc", "add", "dev", name, *shape, rate),
                (*inside, "tc", "qdisc", "add", "dev", "e0", *shape, rate),
            ]
        made = all(run(*words) for words in steps)
        if not made:
            pytest.skip("this kernel does not permit namespaces with shaped links")
        yield names
    finally:
        for name in names:
            run("ip", "netns", "del", name)
        run("ip", "link", "del", tag)


@pytest.mark.started
def test_a_host_with_a_slow_link_is_named(networks, tag, tmp_path):
    words = ("scan", "--devices", "host", "-e", "256K", "--max-time", "0.05", "-c", "0")
    started = []
    for number, name in reversed([*enumerate(networks)]):
        variables = {"RANK": str(number), "WORLD_SIZE": "4", "MASTER_ADDR": "10.97.0.1"}
        variables |= {"MASTER_PORT": "29577", "NODE": f"node{number}"}
        inside = ("ip", "netns", "exec", name, "unshare", "-u", "sh", "-c")
        script = 'hostname "$NODE"; exec "$@"'
        started.append(
            subprocess.Popen(
                [*inside, script, "sh", *PROGRAM, *words],
                cwd=tmp_path,
                env=environment(tag, variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    ends = [process.communicate(timeout=300) for process in started]
    out = " ".join(ends[-1][0].decode().split())
    assert started[-1].returncode == 1, ends
    assert "verdict slow: NODE node2 (-" in out
