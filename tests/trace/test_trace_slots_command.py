"""``cclmark trace``: what shm and bridge do with slots, and what ranks wait for there."""

import re

import pytest

from timeline_files import within

BRIDGE = ("all_reduce", "--ccl", "bridge", "-b", "64K", "-n", "2", "--islands")
# A rank that is killed by a timer while it traces.
_KILLED = """
import os, signal, sys

if "cclmark.rank_process" in sys.orig_argv:
    from cclmark.rendezvous.board import Board

    enter = Board.enter

    def enter_and_die(board, rank, phase, *rest):
        enter(board, rank, phase, *rest)
        if rank == 1 and phase == "tracing":
            signal.setitimer(signal.ITIMER_REAL, 0.02)

    Board.enter = enter_and_die
"""


def test_slots_of_shm(timeline):
    run, found = timeline("all_reduce", "--devices", "host:3", "-b", "48K", "-n", "4")
    for rank in range(3):
        slots = found.slices[rank, "slots"]
        assert [one["name"] for one in slots] == ["publish 48 KiB", "reduce from all ranks"] * 4
        assert [one["args"]["bytes"] for one in slots] == [49152, 16384] * 4
        for call, published in zip(found.slices[rank, "calls"], slots[::2], strict=True):
            assert within({**published, "dur": 0}, call)
        assert found.counted(rank, "bytes published") == [49152 * n for n in range(5)]
        others = "|".join(str(other) for other in range(3) if other != rank)
        cause = (
            rf"rank ({others}) has not (published|finished with the buffers of this rank)"
            rf"|slot not yet read by rank ({others})"
        )
        waits = found.slices.get((rank, "waits"), [])
        assert all(re.fullmatch(cause, one["name"]) for one in waits)
    # Each publication is read by both other ranks.
    pairs = sorted([(a, b) for a in range(3) for b in range(3) if a != b] * 4)
    assert found.arrows(in_order=True) == pairs
    assert "the trace has no events" not in run.out
    assert re.search(r"longest wait: [\d.]+ µs on rank [012] \(", run.out)
    assert re.search(r"rank [012] waits [\d.]+% of the time of its calls, most for rank", run.out)
    assert re.search(r"\d+ events of slots, 0 lost", run.out)


def test_slots_of_a_bridge_and_of_its_islands(timeline):
    _, found = timeline(*BRIDGE, "0-1=shm,2-3=shm", "--devices", "host:4")
    for rank in range(4):
        slots = found.slices[rank, "slots"]
        of_islands = {one["args"]["island"] for one in slots if "island" in one["args"]}
        assert of_islands == {rank // 2}
        names = {one["name"] for one in slots if "island" not in one["args"]}
        assert "work within the island" in names
        other = {0: 2, 1: 3, 2: 0, 3: 1}[rank]
        assert f"reduce from rank {other}" in names
    assert {(0, 2), (2, 0), (1, 3), (3, 1), (0, 1), (3, 2)} <= {*found.arrows()}


def test_slots_of_devices_are_enqueued(timeline, fake_cuda):
    devices = ("--devices", "cuda:0-1")
    run, found = timeline(*BRIDGE, "0=nccl,1=nccl", *devices, env=fake_cuda.env())
    assert "enqueue: publish 64 KiB" in {one["name"] for one in found.slices[0, "slots"]}
    assert [one["name"] for one in found.slices[0, "waits"]] == ["the device has not completed"]
    assert "its waits on the devices' streams have no times" in run.out


def test_events_that_do_not_fit_are_counted(cclmark, tmp_path):
    path = tmp_path / "t.pftrace"
    run = cclmark(
        *("trace", "barrier", "--devices", "host:2", "-n", "40", "-O", path),
        env={"CCLMARK_TRACE_EVENTS": "15"},
        code=3,
    )
    lost = int(re.search(r"30 events of slots, (\d+) lost", run.out)[1])
    by_rank = re.findall(r"rank \d: (\d+) events of slots did not fit: lower -n", run.err)
    assert sum(map(int, by_rank)) == lost
    assert lost >= 2 * 40 - 30
    assert "of the time of its calls" not in run.out
    assert path.exists()


def test_an_invalid_limit_is_refused(cclmark):
    trace = ("trace", "barrier", "--devices", "host:2")
    run = cclmark(*trace, env={"CCLMARK_TRACE_EVENTS": "0"}, code=2)
    assert "CCLMARK_TRACE_EVENTS=0: choose from 1 to" in run.err


# Rank 1 runs until the end in both: it reduces its slices, or it reads.
@pytest.mark.parametrize(
    "what", [("all_reduce", "-b", "256K"), ("p2p", "-b", "4M", "--direction", "read")]
)
def test_a_rank_that_is_killed_leaves_no_file(cclmark, tmp_path, what):
    (tmp_path / "sitecustomize.py").write_text(_KILLED)
    path = tmp_path / "t.pftrace"
    run = cclmark(
        *("trace", *what, "--devices", "host:2", "-n", "100000", "-O", path),
        env={"PYTHONPATH": str(tmp_path)},
        code=4,
    )
    assert "rank 1" in run.err
    assert "during tracing of" in run.err
    assert "no trace was written" in run.err
    assert not path.exists()
    assert not path.with_name("t.pftrace.part").exists()
