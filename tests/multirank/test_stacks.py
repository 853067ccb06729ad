"""Ranks that hang are asked where they are: real processes, in real calls."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace
from test_rendezvous import serving

from cclmark.base.signals import STACK_SIGNAL
from cclmark.launch.debugging import collect_stacks
from cclmark.launch.diagnosis import RankState, diagnose
from cclmark.launch.ranks import RankProcess, kill_ranks, start_rank
from cclmark.rendezvous.board import Board
from cclmark.rendezvous.messages import encoded_plan
from cclmark.rendezvous.server import Server
from cclmark.work.cases import Case
from commands import environment, is_alive, wait_until
from patience import scaled
from samples import usual_job, usual_settings

CASE = Case("all_reduce", "shm", 2, "float32", 4096, 1024, False, reduction="sum")
LONG_S = 60
SETTINGS = usual_settings(
    begin_bytes=4096,
    end_bytes=4096,
    timeout_s=LONG_S,
    iterations=8,
    warmup=3,
    inject=[f"delay:rank=1,ms={LONG_S * 1000}"],
)


@dataclass
class Hung:
    """A run of two ranks that will not get on: rank 1 sleeps in the engine, rank 0 waits for it."""

    pids: dict[int, int]
    files: dict[int, int]
    board: Board


@pytest.fixture(scope="module")
def hung() -> Iterator[Hung]:
    """Such a run, once it hangs."""
    rank_group_fd, board_fd = os.memfd_create("rank-group"), os.memfd_create("board")
    files = {rank: os.memfd_create(f"stack-{rank}") for rank in range(2)}
    board = Board(board_fd, 2)
    ranks: list[RankProcess] = []

    def hangs() -> bool:
        counts = board.read(0).operations
        return counts is not None and counts.entered > 0

    def sleeps() -> bool:
        """Whether it was not woken for a while, as it is again and again while it polls."""
        status = Path(f"/proc/{ranks[1].pid}/status")
        before = status.read_text()
        time.sleep(0.1)
        after = status.read_text()
        changed = re.compile(r"ctxt_switches:\s+(\d+)")
        return "State:\tS" in after and changed.findall(before) == changed.findall(after)

    with contextlib.closing(Server(ranks=2)) as server, serving(server):
        job = usual_job(
            parent_pid=os.getpid(),
            rank_group_fd=rank_group_fd,
            board_fd=board_fd,
            access=server.keys.access(server.endpoint),
            token=server.token,
            plan=encoded_plan([CASE]),
            settings=SETTINGS,
        )
        try:
            for rank, file in files.items():
                start_rank(replace(job, rank=rank, device_indices=[rank], stack_fd=file), ranks)
            wait_until(hangs, "rank 0 waits in its first operation")
            wait_until(sleeps, "rank 1 sleeps before its own")
            yield Hung({one.rank: one.pid for one in ranks}, files, board)
        finally:
            kill_ranks(ranks)
            for descriptor in (rank_group_fd, board_fd, *files.values()):
                os.close(descriptor)


def test_ranks_that_hang_in_the_engine_say_where(hung):
    """As often as they are asked."""
    collect_stacks(hung.pids, hung.files, 20.0)
    stacks = collect_stacks(hung.pids, hung.files, 20.0)
    for rank in range(2):
        text = "\n".join(stacks[rank])
        assert "no stack" not in text
        assert re.search(r"^_engine\+0x", text, re.MULTILINE), f"the call is not named: {text}"
        # None of Python's frames that started the rank.
        place = r"^python: _batch \((cclmark/)?rank/measure\.py:\d+\)$"
        assert re.search(place, text, re.MULTILINE)
        assert not re.search(r"^python: (main|<module>) ", text, re.MULTILINE)
        assert len(stacks[rank]) <= 15
    assert "nanosleep" in stacks[1][0], "rank 1 sleeps"
    assert sum(line.startswith("python: _batch ") for line in stacks[1]) == 1
    assert all(map(is_alive, hung.pids.values()))
    states = [
        RankState(
            *(rank, f"host:{rank}", pid, hung.board.read(rank)),
            **{"exit_status": None, "stopped": False, "failure": None},
            **{"in_phase_s": 2.0, "stack": stacks[rank]},
        )
        for rank, pid in hung.pids.items()
    ]
    # The report names the rank that did not enter the operation.
    text = diagnose(states, [CASE])
    assert text.startswith(f"rank 1 (host:1, pid {hung.pids[1]}) did not get any further than")
    assert "rank 1 has not entered call 1; rank 0 waits in it" in text
    assert re.search(r"_batch \((cclmark/)?rank/measure\.py", text)


def test_a_stopped_rank_is_told_by_the_kernel_and_does_not_die_of_it(hung):
    os.kill(hung.pids[1], signal.SIGSTOP)
    begin_s = time.monotonic()
    stacks = collect_stacks(hung.pids, hung.files, 20.0)
    assert time.monotonic() - begin_s < scaled(15), "waited for a rank that cannot answer"
    assert stacks[1][0] == "no stack: it is stopped (state T)"
    assert any(line.startswith("python: _batch ") for line in stacks[0])
    os.kill(hung.pids[1], signal.SIGCONT)

    def answers() -> bool:
        lines = collect_stacks(hung.pids, hung.files, 1.0)[1]
        return any(line.startswith("python: _batch ") for line in lines)

    wait_until(answers, "it answers again")


@contextlib.contextmanager
def program(body: str, tag: str) -> Iterator[tuple[int, int]]:
    """A process that answers with stacks and then does ``body``; its number and its file."""
    file = os.memfd_create("stack")
    ready, told = os.pipe()
    text = (
        "import ctypes, os, signal, sys, time\n"
        "from cclmark.rank.worker import _answer_with_stacks\n"
        "def here():\n"
        f"    os.write({told}, b'x')\n"
        f"    {body}\n"
        f"_answer_with_stacks({file})\n"
        "here()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", text], pass_fds=(file, told), env=environment(tag, None)
    )
    os.close(told)
    try:
        assert os.read(ready, 1) == b"x", "it did not even begin"
        time.sleep(0.05)
        yield process.pid, file
    finally:
        process.kill()
        process.wait()
        os.close(ready)
        os.close(file)


@pytest.mark.parametrize("library", ["CDLL", "PyDLL"], ids=["without the GIL", "with the GIL"])
def test_a_process_answers_from_wherever_it_is(tag, library):
    with program(f"ctypes.{library}(None).poll(None, 0, 60000)", tag) as (pid, file):
        (lines,) = collect_stacks({0: pid}, {0: file}, 20.0).values()
        assert is_alive(pid)
    assert any(line.startswith("python: here ") for line in lines), lines
    assert "poll" in lines[0]


def test_a_process_that_does_not_answer_is_waited_for_no_longer_than_granted(tag):
    body = f"signal.pthread_sigmask(signal.SIG_BLOCK, [{STACK_SIGNAL}]) and 0 or time.sleep(60)"
    with program(body, tag) as (pid, file):
        begin_s = time.monotonic()
        (lines,) = collect_stacks({0: pid}, {0: file}, 0.3).values()
        assert 0.3 <= time.monotonic() - begin_s < scaled(10)
        assert lines[0] == "no stack: no answer within 0.3 s, it is sleeping (state S)"


def test_what_does_not_listen_is_not_killed_by_the_question_and_what_is_gone_is_said_to_be():
    file = os.memfd_create("stack")
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            lines = collect_stacks({3: process.pid, 4: process.pid}, {3: file}, 1.0)
            assert process.poll() is None
            assert "does not handle the request" in lines[3][0]
            assert "no file" in lines[4][0]
        finally:
            process.kill()
    assert collect_stacks({0: process.pid, 1: 0}, {0: file, 1: file}, 1.0) == {
        0: ["no stack: the process has exited"],
        1: ["no stack: its process is unknown"],
    }
    os.close(file)
