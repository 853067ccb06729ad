"""Scans of four hosts in network namespaces: what is slow is named, and losses are results.

These tests run one after another, and late: what compiles beside others makes every host slow.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from cclmark.kinds.registry import read_journal
from cclmark_fleet.scan.plan import VERDICT
from commands import PROGRAM, environment, wait_until
from patience import deadline_s, scaled

pytestmark = [pytest.mark.started, pytest.mark.program, pytest.mark.xdist_group("networks")]


_PATIENT = ("-T", f"{deadline_s(60):g}")


def run(*words):
    """Runs a program of the system; returns whether it succeeds."""
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


class Networks:
    """Four network namespaces, each with a shaped link to a bridge, as four hosts."""

    def __init__(self, tag, directory):
        self.tag, self.directory = tag, directory
        self.bridge = f"cm{os.getpid() % 10000}"
        self.names = [f"{self.bridge}-{number}" for number in range(4)]
        self.started = []

    def make(self, slow):
        """Creates them; the links of the namespaces in ``slow`` have 40 % of the rate."""
        shape = ("root", "tbf", "burst", "16kb", "latency", "50ms", "rate")
        bridge = self.bridge
        steps = [
            ("ip", "link", "add", bridge, "type", "bridge"),
            ("ip", "link", "set", bridge, "up"),
        ]
        for number, name in enumerate(self.names):
            rate = "40mbit" if number in slow else "100mbit"
            inside = ("ip", "netns", "exec", name)
            steps += [
                ("ip", "netns", "add", name),
                ("ip", "link", "add", name, "type", "veth", "peer", "e0", "netns", name),
                ("ip", "link", "set", name, "master", bridge, "up"),
                (*inside, "ip", "link", "set", "lo", "up"),
                (*inside, "ip", "addr", "add", f"10.97.0.{number + 1}/24", "dev", "e0"),
                (*inside, "ip", "link", "set", "e0", "up"),
                ("tc", "qdisc", "add", "dev", name, *shape, rate),
                (*inside, "tc", "qdisc", "add", "dev", "e0", *shape, rate),
            ]
        if not all(run(*words) for words in steps):
            pytest.skip("this kernel does not permit namespaces with shaped links")

    def start(self, *words):
        """Starts a process in each, the first one last."""
        for number, name in reversed([*enumerate(self.names)]):
            own = {"RANK": str(number), "WORLD_SIZE": "4", "MASTER_ADDR": "10.97.0.1"}
            own |= {"MASTER_PORT": "29577", "NODE": f"node{number}"}
            # Not by ip netns exec, which hides the control groups below /sys.
            inside = ("nsenter", f"--net=/run/netns/{name}", "unshare", "-u", "sh", "-c")
            process = subprocess.Popen(
                [*inside, 'hostname "$NODE"; exec "$@"', "sh", *PROGRAM, *words, *_PATIENT],
                cwd=self.directory,
                env=environment(self.tag, own),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            self.started.insert(0, process)

    def ends(self):
        """The exit code, stdout and stderr of each, in one line."""
        texts = [one.communicate(timeout=scaled(120)) for one in self.started]
        codes = [one.returncode for one in self.started]
        return [
            (code, *(" ".join(text.decode().split()) for text in own))
            for code, own in zip(codes, texts, strict=True)
        ]

    def wait_for_ranks(self):
        wait_until(
            lambda: self.journal_path() or any(one.poll() is not None for one in self.started),
            "all ranks are there",
            timeout_s=90,
        )
        assert self.journal_path(), self.ends()

    def journal_path(self):
        """The journal, or None before the ranks have introduced themselves."""
        found = self.directory.glob("cclmark-runs/*.jsonl")
        return next((one for one in found if one.stat().st_size), None)

    def journal(self):
        return read_journal(self.journal_path())

    def remove(self):
        """Ends the processes, and removes the networks."""
        for one in self.started:
            one.kill()
            one.wait()
        for name in self.names:
            run("ip", "netns", "del", name)
        run("ip", "link", "del", self.bridge)


@pytest.fixture
def networks(tag, tmp_path):
    """Four hosts, not created yet."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("tc", "ip", "nsenter", "unshare"))):
        pytest.skip("network namespaces require root, ip, tc, nsenter and unshare")
    pytest.importorskip("torch")
    made = Networks(tag, tmp_path)
    try:
        yield made
    finally:
        made.remove()


def test_a_host_with_a_slow_link_is_named_within_half_a_minute(networks):
    networks.make(slow={2})
    networks.start("scan")
    ends = networks.ends()
    code, out, _ = ends[0]
    assert code == 1, ends
    assert "verdict slow: NODE node2 (-" in out
    journal = networks.journal()
    began_s = min(one.started_at_s for one in journal.results)
    last = next(one for one in journal.results if one.scanned.purpose == VERDICT)
    assert last.started_at_s + last.duration_s - began_s < scaled(30)
    # Certain after the rounds of levels and the second pass: the others are left out.
    assert "--complete measures all" in out


def test_a_lost_worker_of_the_first_host_is_left_out_and_named(networks):
    """Its process goes on, and another host has the first rank."""
    networks.make(slow=())
    networks.start("scan")
    networks.wait_for_ranks()
    first = networks.started[0].pid
    for pid in Path(f"/proc/{first}/task/{first}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    ends = networks.ends()
    code, out, _ = ends[0]
    assert code == 1, ends
    assert "NODE node0: stopped answering: rank 0 (host:0 of node0" in out
    rounds = [one for one in networks.journal().results if one.tests]
    assert rounds
    assert all(0 not in test.devices for test in rounds[-1].tests)


def test_without_the_first_host_the_others_end_and_name_it(networks):
    networks.make(slow=())
    networks.start("scan", "--complete")
    networks.wait_for_ranks()
    run("ip", "link", "set", networks.names[0], "down")
    networks.started[0].kill()
    ends = networks.ends()
    for code, _, err in ends[1:]:
        assert code == 4, ends
        assert "the connection to the first process is lost: that of host node0 has not" in err
    # Its journal is complete up to the loss: every reader accepts it.
    assert networks.journal().footer is None
