"""Signals that arrive at a bad moment, and standard streams that are closed or full."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cclmark.kinds.registry import read_journal
from commands import PROGRAM, completed, environment, wait_until
from holding import held
from patience import scaled

SWEEP = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-n", "1", "-w", "0")
SOON_S = 60.0
# In the first process alone: signals raised where Python discards an exception of their handler, as
# pyzmq does in Frame.__dealloc__, once there are results.
SWALLOWED = """
import os, sys

if "cclmark.rank_process" not in sys.orig_argv and "all_reduce" in sys.orig_argv:
    from cclmark.rendezvous.server import Server

    class Frame:
        def __del__(self):
            for number in (15, 2, 2):
                os.kill(os.getpid(), number)
            for _ in range(1000):
                pass

    receive, heard = Server.receive, [0]

    def receive_and_drop(server, timeout_s):
        messages = receive(server, timeout_s)
        before = heard[0]
        heard[0] += sum(type(message).__name__ == "Measured" for message in messages)
        if before < 20 <= heard[0]:
            Frame()
        return messages

    Server.receive = receive_and_drop
"""


pytestmark = pytest.mark.usefixtures("no_leaks")


def test_a_signal_whose_exception_is_discarded_ends_the_run(background, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SWALLOWED)
    run = background(*SWEEP, "-N", "0", env={"PYTHONPATH": str(tmp_path)})
    ended = run.finish(SOON_S, code=130)
    assert ended.message.splitlines()[-1] == "cclmark: ended by SIGTERM"
    journal = ended.journal
    assert (journal.footer.exit_code, journal.footer.message) == (130, "ended by SIGTERM")
    # What had been received when the signal came is there, each result once.
    places = [(result.index, result.cycle) for result in journal.results]
    assert len(places) >= 20
    assert len(places) == len(set(places))


def test_closed_standard_descriptors(tag, tmp_path):
    def run(closed, *arguments):
        return completed(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, *arguments],
            cwd=tmp_path,
            env=environment(tag, None),
            stdin=subprocess.DEVNULL,
        )

    done = run("<&- >&- 2>&-", *SWEEP, "--journal", "run.jsonl")
    assert done.returncode == 0
    journal = read_journal(tmp_path / "run.jsonl")
    assert journal.footer.exit_code == 0
    assert {result.status for result in journal.results} == {"ok"}
    done = run("<&-", "import", "-")  # it is empty
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("option", "code", "is_full"),
    [(("--inject", "corrupt:rank=1,index=5"), 1, True), (("--timing", "sometimes"), 2, False)],
    ids=["full", "without a reader"],
)
def test_messages_that_cannot_be_written_change_no_exit_code(tag, tmp_path, option, code, is_full):
    reading, descriptor = os.pipe()
    os.close(reading)
    if is_full:
        os.close(descriptor)
        descriptor = os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run(
        [*PROGRAM, *SWEEP, *option],
        cwd=tmp_path,
        env=environment(tag, None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=descriptor,
        timeout=scaled(SOON_S),
        check=False,
    )
    os.close(descriptor)
    assert done.returncode == code, done.stdout
    assert [read_journal(path).footer.exit_code for path in tmp_path.rglob("*.jsonl")] == [1] * (
        code == 1
    )


def waits_to_write(pid):
    """Whether it sleeps and takes no time of a processor: it has started and does nothing else."""

    def state():
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return words[0], words[11:13]

    before = state()
    time.sleep(0.5)
    return before[0] == "S" and state() == before


def test_messages_that_are_not_read_hold_up_no_signal(tag, tmp_path):
    """Standard error is a full pipe whose reader stands still."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    process = subprocess.Popen(
        [*PROGRAM, "all_reduce", "--devices", "host:2", "-p", "1", "-N", "0"],
        cwd=tmp_path,
        env=environment(tag, None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=writing,
    )
    os.close(writing)
    try:
        wait_until(lambda: waits_to_write(process.pid), "it waits for the reader")
        process.send_signal(signal.SIGTERM)
        assert process.wait(scaled(SOON_S)) == 130
    finally:
        process.kill()
        process.wait()
        os.close(reading)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_a_rank_is_not_up_leaves_no_file(background, tmp_path, number):
    run = background(*SWEEP, "-N", "0", env=held(tmp_path, 1, "start-up"))
    pids = run.wait_for_workers(2)
    run.signal(pids[1], signal.SIGSTOP)
    wait_until(run.journal_path.exists, "the journal is created")
    run.signal(run.process.pid, number)
    run.finish(SOON_S, code=130)
    assert not run.journal_path.exists()


def test_a_signal_to_all_processes_of_a_run_ends_it_like_one_to_the_first(background):
    """As the kernel sends it when a terminal closes, to one process after the other."""
    run = background(*SWEEP, "-N", "0")
    pids = run.wait_for_ranks(1)
    for pid in [*pids, run.process.pid]:
        run.signal(pid, signal.SIGHUP)
        time.sleep(0.03)
    run.finish(SOON_S, code=130)
    footer = run.read().footer
    assert footer.exit_code == 130
    assert "SIGHUP" in footer.message


WRITES = """
import sys
from cclmark.base.signals import note, on_ending_signals
from cclmark.base.streams import prepare_streams
on_ending_signals(note)
prepare_streams()
sys.stderr.write("begun\\n")
line = "x" * 5003 + "\\n"
try:
    while True:
        sys.stdout.write(line)
        sys.stdout.flush()
except OSError as error:
    sys.stderr.write(f"ended: {error}")
"""


def test_writing_ends_soon_after_a_signal():
    reader, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", WRITES],
        stdout=terminal,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(terminal)
        try:
            assert process.stderr.readline() == b"begun\n"
            wait_until(lambda: waits_to_write(process.pid), "the terminal is full")
            process.send_signal(signal.SIGTERM)
            said = (
                process.stderr.read()
                if select.select([process.stderr], [], [], scaled(20))[0]
                else b""
            )
        finally:
            process.kill()
            os.close(reader)
    assert b"the reader of the output does not read" in said


def test_all_of_a_long_text_arrives():
    reader, terminal = pty.openpty()
    text = WRITES.partition("line =")[0] + "sys.stdout.write('x' * 100_000 + '.'); sys.exit(0)"
    with subprocess.Popen([sys.executable, "-c", text], stdout=terminal, stderr=subprocess.DEVNULL):
        os.close(terminal)
        found = b""
        while select.select([reader], [], [], scaled(20))[0]:
            try:
                found += os.read(reader, 1000)
            except OSError:  # the other end is closed
                break
    os.close(reader)
    assert found == b"x" * 100_000 + b"."
