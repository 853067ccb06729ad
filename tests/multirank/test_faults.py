"""Ranks and launchers that die, stop or are interrupted: the run ends, says why, leaves nothing.

Bounds on time are wide: they tell an end from a hang, not fast from slow.
"""

import os
import re
import signal
import sys
import time
from importlib.metadata import entry_points

import pytest

from cclmark.rendezvous.board import PHASES
from cclmark.work.operations import DTYPE_BYTES
from commands import completed, default_signals, wait_until
from patience import deadline_s, scaled, waits

RANKS = 3
ENDLESS = (
    *("all_reduce", "--devices", f"host:{RANKS}", "-b", "64", "-e", "1K"),
    *("-n", "5", "-w", "1", "-N", "0"),
)
SOON_S = 15.0
SHORT = ("all_reduce", "--devices", "host:2", "-b", "64", "-e", "64")

pytestmark = pytest.mark.usefixtures("no_leaks")


def blamed(run, rank: int, pid: int, how: str) -> re.Match[str]:
    """The first line of the message: which rank, what happened to it, in which phase."""
    first = run.message.splitlines()[0]
    phases = "|".join(PHASES)
    found = re.fullmatch(
        rf"cclmark: rank {rank} \(host:{rank}, pid {pid}\) {re.escape(how)} "
        rf"({phases})( of all_reduce .+)?",
        first,
    )
    assert found, run.err
    others = run.message.splitlines()[1:]
    named = [line for line in others if re.match(r"  rank \d+ \(", line)]
    assert [line.split(" (")[0].strip() for line in named] == [
        f"rank {other}" for other in range(RANKS) if other != rank
    ]
    return found


def kept(run) -> None:
    """What was measured before is in the journal, with a footer that tells how it ended."""
    journal = run.journal
    assert journal.results
    assert all(result.status == "ok" for result in journal.results)
    assert journal.footer is not None
    assert journal.footer.exit_code == run.code
    assert journal.footer.message == run.message.removeprefix("cclmark: ")


@pytest.mark.started
def test_a_rank_that_crashes(background):
    run = background(*ENDLESS)
    pids = run.wait_for_ranks(results=1)
    run.signal(pids[1], signal.SIGSEGV)
    ended = run.finish(SOON_S, code=4)
    blamed(ended, 1, pids[1], "was killed by SIGSEGV during")
    kept(ended)


def test_a_rank_that_stops(background):
    run = background(*ENDLESS, *waits(3))
    pids = run.wait_for_ranks(results=1)
    run.signal(pids[1], signal.SIGSTOP)
    ended = run.finish(3 + SOON_S)
    assert time.monotonic() - run.killed_at_s > 1, "it was not even given its time"
    assert ended.code == 4
    found = blamed(ended, 1, pids[1], "is stopped (SIGSTOP or a debugger) in")
    assert found[2], "the case is not named"
    kept(ended)
    assert f"{deadline_s(3):g} s" in ended.message, "the message does not say what was waited for"


def test_a_rank_that_stops_for_a_moment_is_no_fault(background):
    """In a run that lasts for long enough because its ranks sleep, which takes no processor."""
    sleeps = (f"--inject=delay:rank={rank},ms=20" for rank in (0, 1))
    run = background(*SHORT, "-n", "5", "-w", "1", "-N", "20", *sleeps)
    pids = run.wait_for_ranks(results=1)
    run.signal(pids[1], signal.SIGSTOP)
    time.sleep(0.3)
    run.signal(pids[1], signal.SIGCONT)
    ended = run.finish(60, code=0)
    assert len(ended.journal.results) == 40


def wait_until_gone(run, within_s: float) -> None:
    wait_until(lambda: not run.workers(), "the ranks have ended with their launcher", within_s)


def kill_the_launcher(run) -> None:
    run.signal(run.process.pid, signal.SIGKILL)
    run.process.wait(scaled(5))
    wait_until_gone(run, 2.0)


@pytest.mark.started
def test_killing_the_launcher_takes_the_ranks_with_it(background):
    run = background(*ENDLESS)
    run.wait_for_ranks(results=4)
    kill_the_launcher(run)
    journal = run.read()
    assert len(journal.results) >= 4
    assert journal.footer is None


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.started),
        (signal.SIGTERM, 143),  # for SIGHUP see test_signals.py
    ],
)
def test_an_interrupted_run_keeps_what_it_has(background, number, code):
    """Ctrl-C, a job scheduler's SIGTERM, a closed terminal: a footer, and no rank left.

    130 is the design's; for the others the shell's custom of 128 + signal, or death by the signal.
    """
    run = background(*ENDLESS[:-1], "100000")
    run.wait_for_ranks(results=4)
    run.signal(run.process.pid, number)
    ended = run.finish(SOON_S)
    wait_until_gone(run, SOON_S)
    assert ended.code in (code, 130, *((-number,) if number != signal.SIGINT else ()))
    journal = run.read()
    assert len(journal.results) >= 4
    assert journal.damaged_lines == 0
    assert journal.footer.exit_code == ended.code
    assert "interrupted" in ended.err
    assert str(run.journal_path) in ended.err
    assert journal.header.planned_cases == 2 * 5, "both placements of 64 to 1K"
    found = re.search(r"(\d+) of 1000000 cases measured, \1 checked, 0 wrong", ended.out)
    assert found, ended.out
    # The signal may come when a result is in the journal and not yet on the screen.
    assert len(journal.results) - int(found[1]) in (0, 1)


def test_interrupted_at_start_up(background):
    run = background(*ENDLESS)
    run.wait_for_workers(1)
    run.signal(run.process.pid, signal.SIGINT)
    ended = run.finish(SOON_S, code=130)
    assert run.journal_path.exists() == ("cclmark: journal" in ended.err)
    assert not run.journal_path.exists() or run.read().footer.exit_code == 130


@pytest.mark.parametrize(
    ("is_script", "number"),
    [(False, signal.SIGINT), (True, signal.SIGTERM)],
)
def test_interrupted_while_it_is_imported(tmp_path, is_script, number):
    """The first tenth of a second goes into imports; here one of them raises the signal."""
    (tmp_path / "click.py").write_text(
        f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(60)\n"
    )
    program = ["-m", "cclmark"]
    if is_script:  # what the installed ``cclmark`` runs
        (script,) = entry_points(group="console_scripts", name="cclmark")
        call = f"{script.value.replace(':', '.')}()"
        program = ["-c", f"import sys, {script.module}; sys.exit({call})"]
    with default_signals():
        ended = completed(
            [sys.executable, *program, "info"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            timeout_s=30,
        )
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "cclmark: interrupted\n"


def test_what_nohup_ignores_stays_ignored(background):
    """A closed terminal does not end a run that was told to go on without one."""
    run = background(*ENDLESS, prefix=["nohup"])
    run.wait_for_ranks(results=1)
    seen = len(run.read().results)
    run.signal(run.process.pid, signal.SIGHUP)
    run.wait_for_ranks(results=seen + RANKS)
    run.signal(run.process.pid, signal.SIGINT)
    run.finish(SOON_S, code=130)


def test_a_launcher_that_is_suspended_receives_why_a_rank_failed(background, fake_cuda):
    """The reason must not be lost for the exit code. The other rank's operation never completes:
    that rank must not wait for it when it releases its objects.
    """
    run = background(
        *("collectives", "--only", "broadcast,all_reduce", "-d", "all", "-g", "2"),
        *("-b", "64", "-e", "64", "-n", "20", "-w", "1"),
        env=fake_cuda.env(CCLMARK_FAKE_NCCL_FAIL="1:AllReduce"),
    )
    run.wait_for_ranks(results=1)
    run.signal(run.process.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: not run.workers(), "both ranks have ended", SOON_S)
    finally:
        run.signal(run.process.pid, signal.SIGCONT)
    ended = run.finish(SOON_S, code=4)
    first, second = ended.message.splitlines()[:2]
    assert first.startswith("cclmark: rank 1 (cuda:1, pid ")
    assert " failed during " in first, ended.err
    assert "injected failure of AllReduce on rank 1" in second
    assert len(ended.journal.results) == 2 * len(DTYPE_BYTES), "the results before it are lost"
