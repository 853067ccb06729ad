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
from examples import exhaustive
from holding import held
from patience import deadline_s, scaled, waits

RANKS = 3
ENDLESS = (
    *("all_reduce", "--devices", f"host:{RANKS}", "-b", "64", "-e", "1K"),
    *("-n", "5", "-w", "1", "-N", "0"),
)
SWEEP = ("all_reduce", "--devices", f"host:{RANKS}", "-b", "64", "-e", "64")
SOON_S = 15.0

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.mark.parametrize(
    ("number", "how"),
    [
        pytest.param(
            signal.SIGSEGV, "was killed by SIGSEGV during", marks=pytest.mark.started, id="crashes"
        ),
        pytest.param(signal.SIGSTOP, "is stopped (SIGSTOP or a debugger) in", id="stops"),
    ],
)
def test_a_rank_that_does_not_go_on(background, number, how):
    run = background(*ENDLESS, *waits(3))
    pids = run.wait_for_ranks(results=1)
    run.signal(pids[1], number)
    ended = run.finish(3 + SOON_S, code=4)
    # Which rank, what happened to it, in which phase.
    found = re.match(
        rf"cclmark: rank 1 \(host:1, pid {pids[1]}\) {re.escape(how)} "
        rf"({'|'.join(PHASES)})( of all_reduce .+)?\n",
        ended.message,
    )
    assert found, ended.err
    assert re.findall(r"^  rank (\d) \(", ended.message, re.MULTILINE) == ["0", "2"]
    if number == signal.SIGSTOP:
        assert time.monotonic() - run.killed_at_s > 1, "it was not even given its time"
        assert found[2], "the case is not named"
        assert f"{deadline_s(3):g} s" in ended.message, "what was waited for is not said"
    # What was measured before is in the journal, with a footer that tells how it ended.
    journal = ended.journal
    assert {result.status for result in journal.results} == {"ok"}
    assert journal.footer.exit_code == 4
    assert journal.footer.message == ended.message.removeprefix("cclmark: ")


def test_a_rank_that_stops_for_a_moment_is_no_fault(background):
    """In a run that lasts for long enough because its ranks sleep, which takes no processor."""
    sleeps = (f"--inject=delay:rank={rank},ms=20" for rank in range(RANKS))
    run = background(*SWEEP, "-n", "5", "-w", "1", "-N", "12", *sleeps)
    pids = run.wait_for_ranks(results=1)
    run.signal(pids[1], signal.SIGSTOP)
    time.sleep(0.3)
    run.signal(pids[1], signal.SIGCONT)
    ended = run.finish(60, code=0)
    assert len(ended.journal.results) == 24


def wait_until_gone(run) -> None:
    wait_until(lambda: not run.workers(), "the ranks have ended with their launcher", SOON_S)


@pytest.mark.started
def test_killing_the_launcher_takes_the_ranks_with_it(background):
    run = background(*ENDLESS)
    run.wait_for_ranks(results=4)
    run.signal(run.process.pid, signal.SIGKILL)
    run.process.wait(scaled(5))
    wait_until_gone(run)
    journal = run.read()
    assert len(journal.results) >= 4
    assert journal.footer is None


@pytest.mark.started
def test_an_interrupted_run_keeps_what_it_has(background):
    """Ctrl-C; for other signals see test_signals.py."""
    run = background(*ENDLESS[:-1], "100000")
    run.wait_for_ranks(results=4)
    run.signal(run.process.pid, signal.SIGINT)
    ended = run.finish(SOON_S, code=130)
    wait_until_gone(run)
    journal = ended.journal
    assert len(journal.results) >= 4
    assert journal.footer.exit_code == 130
    assert "interrupted" in ended.err
    assert str(run.journal_path) in ended.err
    assert journal.header.planned_cases == 2 * 5, "both placements of 64 to 1K"
    found = re.search(r"(\d+) of 1000000 cases measured, \1 checked, 0 wrong", ended.out)
    assert found, ended.out
    # The signal may come when a result is in the journal and not yet on the screen.
    assert len(journal.results) - int(found[1]) in (0, 1)


def test_interrupted_while_it_is_imported(tmp_path):
    """The first tenth of a second goes into imports; here one of them raises the signal."""
    (tmp_path / "click.py").write_text(
        f"import os, time\nos.kill(os.getpid(), {int(signal.SIGTERM)})\ntime.sleep(60)\n"
    )
    # What the installed ``cclmark`` runs.
    (script,) = entry_points(group="console_scripts", name="cclmark")
    call = f"{script.value.replace(':', '.')}()"
    with default_signals():
        ended = completed(
            [sys.executable, "-c", f"import sys, {script.module}; sys.exit({call})", "info"],
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


# A rank in each phase that ranks go through. Where a phase is too short to be hit, the rank is held
# in it; where it can be long, it is: there the rank is in the engine's hands.
TIMEOUT_S = 2
AT_MOST_S = TIMEOUT_S + 10.0
MANY = "100000000"  # operations; the test does not wait for their end
SHORT = ("-n", "5", "-w", "0", "-N", "3")
HELD = (
    *("start-up", "opening the device", "loading the library", "communicator creation"),
    *("allocating buffers", "preparing", "shutdown", "finished"),
)
LONG = {
    "warm-up": ("-n", "1", "-w", MANY),
    "timing": ("-n", MANY, "-w", "0"),
    "verification": ("-n", "1", "-w", "0", "-c", MANY),
}
BEHIND = ("shutdown", "finished")  # all results
# All others are left to --all: a death is found in the same way in every phase, but a stop by the
# others or a deadline.
KILLED = {("start-up", 2), ("preparing", 0), ("finished", 2)}
STOPPED = {("start-up", 2), ("communicator creation", 0), ("finished", 2)}


@pytest.fixture
def strike(background, tmp_path):
    """Sends a signal to a rank in a phase of a run, and checks how the run ends."""

    def strike(rank, phase, number, how, timeout_s=60):
        env = held(tmp_path, rank, phase) if phase in HELD else None
        run = background(*SWEEP, *LONG.get(phase, SHORT), *waits(timeout_s), env=env)
        # Behind all results the others may have ended.
        pids = run.wait_for_ranks() if phase in BEHIND else run.wait_for_workers(RANKS)
        run.wait_for_phase(rank, phase)
        run.signal(pids[rank], number)
        ended = run.finish(AT_MOST_S, code=4)
        check(run, ended, f"rank {rank} (host:{rank}, pid {pids[rank]}) {how} {phase}")
        assert not run.journal_path.exists() or len(run.read().results) == 6 * (phase in BEHIND)

    return strike


def check(run, ended, says):
    """Told who it was and where; nothing is damaged."""
    assert ended.message.startswith(f"cclmark: {says}"), ended.err
    if run.journal_path.exists():
        assert run.read().damaged_lines == 0
        assert run.read().footer.exit_code == 4


def ranks_in_phases(tried):
    return [
        (phase, rank) if (phase, rank) in tried else exhaustive(phase, rank)
        for phase in (*HELD, *LONG)
        for rank in range(RANKS)
    ]


@pytest.mark.parametrize(("phase", "rank"), ranks_in_phases(KILLED))
def test_a_rank_that_is_killed(strike, rank, phase):
    strike(rank, phase, signal.SIGKILL, "was killed by SIGKILL during")


@pytest.mark.parametrize(("phase", "rank"), ranks_in_phases(STOPPED))
def test_a_rank_that_is_stopped(strike, rank, phase):
    how = "is stopped (SIGSTOP or a debugger) in"
    strike(rank, phase, signal.SIGSTOP, how, timeout_s=TIMEOUT_S)


@pytest.mark.parametrize(("phase", "rank"), [("timing", 0), ("shutdown", 2)])
def test_a_rank_that_raises_an_unexpected_error(background, tmp_path, rank, phase):
    env = held(tmp_path, rank, phase) | {"RAISED_IN_TEST": ""}
    run = background(*SWEEP, *SHORT, env=env)
    ended = run.finish(code=4, traceback=True)
    check(run, ended, f"rank {rank} (host:{rank}, pid ")
    first, second = ended.message.splitlines()[:2]
    assert f" failed during {phase}" in first
    assert second == "  ArithmeticError: of all things"


def test_a_rank_that_waits_for_the_others_times(background):
    """All times are gathered after each batch; the next rank is held up before its own."""
    run = background(*SWEEP, *SHORT, "--inject", "delay:rank=1,ms=1000000", *waits(4))
    pid = run.wait_for_workers(RANKS)[0]
    run.wait_for_phase(0, "timing")
    run.signal(pid, signal.SIGKILL)
    ended = run.finish(4 + AT_MOST_S, code=4)
    check(run, ended, f"rank 0 (host:0, pid {pid}) was killed by SIGKILL")
