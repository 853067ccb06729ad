"""``-O`` to named pipes: opened once, and no wait that a signal does not end."""

import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from cclmark.base.errors import UsageError
from cclmark.recording import output
from commands import wait_until
from places import RUNS

TWO = (str(RUNS / "default-1.jsonl"), str(RUNS / "ctas8.jsonl"))
HOST = ("--devices", "host:2", "-b", "8", "-e", "64", "-n", "1", "-w", "0")
# Ranks that mostly sleep, as they only have to last.
ENDLESS = ("-N", "0", *(f"--inject=delay:rank={rank},ms=5" for rank in (0, 1)))
SOON_S = 10.0

pytestmark = pytest.mark.started


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def is_waiting(pid):
    """Whether a process looks again and again for its reader: it sleeps often and computes little.

    A state at one moment does not say it: on a loaded machine a process that wakes every 20 ms is
    found runnable as often as asleep.
    """

    def sleeps_and_cpu_ticks():
        status = Path(f"/proc/{pid}/status").read_text()
        sleeps = next(line for line in status.splitlines() if line.startswith("voluntary"))
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(sleeps.split()[1]), int(after_name[11]) + int(after_name[12])

    sleeps, ticks = sleeps_and_cpu_ticks()
    time.sleep(0.4)
    later_sleeps, later_ticks = sleeps_and_cpu_ticks()
    return later_sleeps - sleeps >= 5 and later_ticks - ticks <= 4  # of 20 sleeps and 40 ticks


def test_a_signal_ends_the_wait_for_a_reader(background, pipe):
    run = background("all_reduce", *HOST, "-O", "pipe")
    wait_until(lambda: is_waiting(run.process.pid), "the command waits for a reader")
    assert not run.ended()
    run.process.send_signal(signal.SIGTERM)
    run.finish(SOON_S, code=130)
    assert not run.journal_path.exists()


def test_a_pipe_without_a_reader_is_refused(monkeypatch, pipe):
    monkeypatch.setattr(output, "_READER_S", 0.1)
    with pytest.raises(UsageError, match="no process reads this pipe"):
        output.write_whole(pipe, b"x")


def test_a_reader_that_leaves_is_told_of_nothing(cclmark, pipe):
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)  # less than a page: it is never written at once
    os.set_blocking(reading, True)
    first_byte = "import os, sys, select; select.select([0], [], [], 60); os.read(0, 1)"
    with subprocess.Popen([sys.executable, "-S", "-c", first_byte], stdin=reading):
        os.close(reading)
        page = ("compare", *TWO, "--format", "html", "-O", "pipe")
        assert cclmark(*page, code=141).err == ""


def test_a_reader_that_stands_still_holds_up_no_signal(background, pipe, no_leaks, request):
    """The pipe is full, so the run waits; when it is ended, nothing more is written there."""
    known = []
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)
    run = background("all_reduce", *HOST, *ENDLESS, "--format", "csv", "-O", "pipe")
    request.node.kept_files = {run.journal_path.name, "pipe"}

    def is_full():
        """No line more goes into it."""
        held = array.array("i", [0])
        fcntl.ioctl(reading, termios.FIONREAD, held)
        known.append(held[0])
        time.sleep(0.05)
        return held[0] > 0 and known[-10:].count(held[0]) == 10

    try:
        run.wait_for_ranks(results=1)
        wait_until(is_full, "the pipe is full")
        run.process.send_signal(signal.SIGTERM)
        # A run that was slow to fill the pipe still writes its end, for which it waits 10 s.
        ended = run.finish(2 * SOON_S)
    finally:
        os.close(reading)
    assert ended.code == 130
    assert "the reader of the output does not read" in ended.message
    assert ended.journal.footer.exit_code == 130
