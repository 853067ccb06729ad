"""``--debug-rank``: ranks under a debugger, or another command before theirs."""

from __future__ import annotations

import os
import select
import shutil
import stat
import subprocess
import time

import pytest

from cclmark.base.errors import UsageError
from cclmark.launch.debugging import Debugged
from commands import PROGRAM, environment
from in_process import run_here
from patience import scaled

SMALL = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64", "-n", "1", "-w", "0")


@pytest.fixture
def prefix(tmp_path):
    """A command that records its arguments and executes the rest of them, after a pause."""
    script = tmp_path / "record"
    script.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" >> record.txt\nsleep "$1"\nshift\nexec "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def test_commands_of_ranks_follow_the_prefix_and_no_deadline_ends_the_run(
    cclmark, prefix, tmp_path
):
    told = cclmark(*SMALL, "-T", "0.5", "--debug-rank", f"0,1={prefix} 2")
    words = (tmp_path / "record.txt").read_text().splitlines()
    assert words[0] == "2"
    assert words[2:4] == ["-m", "cclmark.rank_process"]
    assert len(words) == 2 * 5
    (notice,) = (one for one in told.journal.header.notices if "ranks 0, 1 under" in one)
    assert notice.endswith("deadlines (-T) are off for all ranks, and times contain the debugger")
    assert told.journal.header.settings.timeout_s == 0.5
    assert [one.status for one in told.journal.results] == ["ok"] * 2


def test_a_debugger_that_ends_before_the_rank_has_finished(cclmark):
    told = cclmark(*SMALL, "--debug-rank", "1=true", code=4)
    assert "rank 1" in told.message


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ("0='a", 2, "expected RANK[=gdb|lldb|COMMAND]"),
        ("0", 2, "needs a terminal: give a command that needs no terminal, as"),
        ("0,1", 2, "one terminal is for one rank"),
        ("2=true", 2, "--debug-rank 2: the run has ranks 0 to 1"),
        ("0=no-such-debugger -x", 3, "no-such-debugger is not installed here: install it, or"),
    ],
)
def test_what_is_refused(tag, tmp_path, given, code, message):
    told = run_here(tag, tmp_path, *SMALL, "--debug-rank", given, code=code)
    assert message in told.message


def test_what_a_run_cannot_have_is_refused(monkeypatch):
    with pytest.raises(UsageError, match="--debug-rank 1: the run has only rank 0"):
        Debugged((1,), ("true",)).require(1)
    launched = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    for name, text in (launched | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}).items():
        monkeypatch.setenv(name, text)
    with pytest.raises(UsageError, match="processes of a launcher have no terminal"):
        Debugged((0,), ("gdb", "--args"), "gdb").require_program()
    Debugged((0,), ("true",)).require_program()


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_the_debugger_gets_the_interrupt_key(tag, tmp_path):
    """Ctrl-C stops the rank for longer than the deadline, and nothing else; the run goes on."""
    large = ("all_reduce", "--devices", "host:2", "-b", "64M", "-e", "64M", "-n", "30", "-w", "0")
    ours, terminal = os.openpty()
    subprocess.run(["stty", "rows", "1000", "columns", "200"], stdin=terminal, check=True)
    process = subprocess.Popen(
        ["setsid", "--ctty", *PROGRAM, *large, "-T", "0.5", "--debug-rank", "0"],
        cwd=tmp_path,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(tag, {"TERM": "dumb"}),
    )
    os.close(terminal)
    text = ""
    for words, answer in (
        ("(gdb) ", "run\n"),
        ("busbw", "\x03"),
        ("received signal SIGINT", "continue\n"),
        ("exited normally", "quit\n"),
        ("2 of 2 cases checked, 0 wrong", ""),
    ):
        end_s = time.monotonic() + scaled(60)
        while words not in text:
            ready, _, _ = select.select([ours], [], [], max(0.0, end_s - time.monotonic()))
            assert ready, text
            text += os.read(ours, 65536).decode(errors="replace")
        if answer == "continue\n":
            time.sleep(2)
        os.write(ours, answer.encode())
    assert process.wait(scaled(20)) == 0, text
    os.close(ours)
