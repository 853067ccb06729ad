"""Scans of several processes: a loss is a result."""

import os
import signal

import pytest

from cclmark_fleet.scan.result import ScanResult
from commands import wait_until

QUICK = ("scan", "--devices", "host", "-e", "64K", "--max-time", "0.02", "-T", "60")


@pytest.mark.started
def test_a_rank_that_dies_is_left_out_and_named(pods):
    """Its process goes on, so the others are new ranks of the same processes."""
    words = (*QUICK, "--max-time", "0.2", "--topology", "fat-tree:3x1")
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
