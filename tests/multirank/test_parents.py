"""What started cclmark dies: a shell, its terminal, or the program that a launcher left behind."""

import fcntl
import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
import time
import uuid

import pytest
from pods import SWEEP

from cclmark.kinds.registry import read_journal
from commands import PROGRAM, default_signals, environment, tagged_processes, wait_until
from patience import scaled

SOON_S = 20.0
ENDLESS = (*SWEEP, "-N", "0")
PARENT = [
    *(sys.executable, "-c"),
    "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:]).wait())",
]

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
def terminal(tag, tmp_path):
    """A shell that runs cclmark on a terminal: the shell, the terminal's other end, the tag."""
    own = f"{tag}-{uuid.uuid4().hex}"
    outside, inside = pty.openpty()
    command = [*PROGRAM, *ENDLESS[:2], "host:2", *ENDLESS[3:], "--journal", "run.jsonl"]
    with default_signals():
        shell = subprocess.Popen(
            ["/bin/sh", "-c", f"{shlex.join(command)}; exit $?"],
            cwd=tmp_path,
            env=environment(own, None),
            stdin=inside,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
    os.close(inside)
    yield shell, outside, own
    for pid in tagged_processes(own):
        os.kill(pid, signal.SIGKILL)
    shell.wait(scaled(10))


def test_a_shell_above_that_is_killed(terminal, tmp_path):
    """The kernel hangs up on all that the terminal had in its foreground."""
    shell, outside, own = terminal
    path = tmp_path / "run.jsonl"
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") > 3, "there are results")
    shell.kill()
    wait_until(lambda: not tagged_processes(own), "all of it is gone", SOON_S)
    journal = read_journal(path)
    assert journal.damaged_lines == 0
    assert len(journal.results) >= 3
    assert journal.footer.exit_code == 130
    assert "SIGHUP" in journal.footer.message
    os.close(outside)


def test_the_parent_of_a_launched_process_is_killed(pods):
    """Nobody tells the process itself, as when a launcher is killed by force."""
    started = [pods.start(one, 2, *ENDLESS, prefix=PARENT) for one in range(2)]
    wait_until(lambda: pods.results() > 3, "there are results")
    begin_s = time.monotonic()
    started[0].kill()
    ended = [pods.end(process, SOON_S) for process in started]  # their output is open until then
    wait_until(lambda: not tagged_processes(pods.tag), "all of it is gone")
    assert time.monotonic() - begin_s < scaled(SOON_S)
    footer = pods.journal().footer
    assert "the launcher of this process has exited" in footer.message
    assert footer.exit_code == ended[1][0] == 130


def test_the_parent_is_killed_before_the_first_process_has_come(pods):
    second = pods.start(1, 2, *ENDLESS, "-T", "100", prefix=PARENT)
    wait_until(lambda: len(tagged_processes(pods.tag)) == 2, "the process was started")
    time.sleep(2.0)  # until it waits for the note
    second.kill()
    pods.end(second, SOON_S)
    wait_until(lambda: not tagged_processes(pods.tag), "it is gone", SOON_S)
