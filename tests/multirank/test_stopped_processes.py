"""A process of a run, none of its ranks, stands still: as by SIGSTOP or a debugger."""

import signal

import pytest

from commands import wait_until

SWEEP = ("all_reduce", "--devices", "host", "-b", "64", "-n", "5", "-w", "1")
SOON_S = 20.0
# The limits of a silence, 10 s and 20 s in the program.
SILENCE_S = 4.0
SHORT_SILENCES = f"""
import sys

if "cclmark.rank_process" not in sys.orig_argv:
    from cclmark.launch import attempt, coordinator, follower

    attempt.ProcessWatch.lost.__defaults__ = ({SILENCE_S},)
    coordinator.SILENCE_S, follower._SILENCE_OF_FIRST_S = {SILENCE_S}, {2 * SILENCE_S}
"""
# Ranks that mostly sleep, as they only have to last.
ENDLESS = ("-e", "64", "-N", "0", *(f"--inject=delay:rank={rank},ms=100" for rank in (0, 1)))

pytestmark = pytest.mark.usefixtures("no_leaks")


def stopped(pods, *arguments):
    """Two processes; the second one is stopped once there are results."""
    (pods.directory / "sitecustomize.py").write_text(SHORT_SILENCES)
    env = {"PYTHONPATH": str(pods.directory)}
    started = [pods.start(rank, 2, *SWEEP, *arguments, **env) for rank in (0, 1)]
    wait_until(lambda: pods.results() > 2, "there are results")
    started[1].send_signal(signal.SIGSTOP)
    return started


def goes_on(pods, process):
    """Once it runs again it is told, or notices, how the run ended."""
    process.send_signal(signal.SIGCONT)
    code, _, _ = pods.end(process)
    assert code == 4


def test_it_is_named_when_all_is_measured(pods):
    """Its rank does not need it; a launcher would wait for it for ever."""
    first, second = stopped(pods, "-e", "1K", "--inject", "delay:rank=0,ms=50")
    code, out, err = pods.end(first, SOON_S)
    assert code == 4
    assert "10 of 10 cases checked, 0 wrong" in out
    assert f"cclmark: all cases are measured, but process 1 (pid {second.pid} on " in err
    assert "is stopped (SIGSTOP or a debugger)" in err
    goes_on(pods, second)


def test_its_rank_is_not_blamed_for_it(pods):
    first, second = stopped(pods, *ENDLESS)
    code, _, err = pods.end(first, SILENCE_S + SOON_S)
    assert code == 4
    assert err.startswith(f"cclmark: process 1 (pid {second.pid} on "), err
    assert "is stopped (SIGSTOP or a debugger)" in err.splitlines()[0]
    assert "\n  rank 0 (host:0, pid " in err
    assert "\n  rank 1 (host:0" in err  # its last status may have been sent before it had a pid
    assert "did not get any further than" not in err
    assert "is stopped" not in err.partition("\n")[2]
    goes_on(pods, second)


def test_the_first_process_is_named_where_it_stood_still_itself(background):
    """Meanwhile the time of a rank that waits for the other one is over."""
    run = background(
        *("all_reduce", "--devices", "host:2", "-b", "8", "-e", "8", "-n", "2", "-w", "1"),
        *("--inject", "hang:rank=1,case=0", "-T", "5"),
    )
    run.wait_for_ranks(0)
    run.wait_for_phase(1, "timing")
    run.signal(run.process.pid, signal.SIGSTOP)
    wait_until(lambda: len(run.workers()) < 2, "a rank has given up", 120)
    run.signal(run.process.pid, signal.SIGCONT)
    ended = run.finish(SOON_S + 60, code=4)
    first, *others = ended.message.splitlines()
    assert first.startswith(f"cclmark: process 0 (pid {run.process.pid} on "), ended.err
    assert ", which supervises the run, was stopped or blocked for " in first
    assert "did not get any further than" not in ended.err
    assert [line.split(" (")[0] for line in others if line.startswith("  rank ")] == [
        *("  rank 0", "  rank 1")
    ]
