"""A rank that is killed or stopped, in each phase that ranks go through.

Where a phase is too short to be hit, the rank is held in it; where it can be long, it is: there the
rank is in the engine's hands. Bounds on time tell an end from a hang, not fast from slow.
"""

import signal
import time

import pytest

from examples import exhaustive
from holding import held
from patience import scaled, waits

RANKS = 3
SWEEP = ("all_reduce", "--devices", f"host:{RANKS}", "-b", "64", "-e", "64")
TIMEOUT_S = 2
AT_MOST_S = TIMEOUT_S + 10.0
MANY = "100000000"  # operations; nobody waits for their end
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
# The last rank is tried in these, and rank 0, which speaks for all, in one; all others are left to
# --all. Here a death is found in the same way in every phase, but a stop by the others or a
# deadline.
KILLED = ("start-up", "communicator creation", "preparing", "timing", "finished")
STOPPED = ("start-up", "opening the device", "timing", "verification", "finished")

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
def struck(background, tmp_path):
    """A run of which ``rank`` has got a signal in ``phase``, its end, and the rank's process."""

    def strike(rank, phase, number, *more, timeout_s=60):
        if phase in HELD:
            env = held(tmp_path, rank, phase)
            run = background(*SWEEP, *SHORT, *waits(timeout_s), *more, env=env)
        else:
            run = background(*SWEEP, *LONG.get(phase, SHORT), *waits(timeout_s), *more)
        # Behind all results the others may have ended.
        pids = run.wait_for_ranks() if phase in BEHIND else run.wait_for_workers(RANKS)
        pid = pids[rank]
        run.wait_for_phase(rank, phase)
        run.signal(pid, number)
        return run, run.finish(AT_MOST_S), pid

    return strike


def check(run, ended, phase, says):
    """Told who it was and where; what was measured before is there; nothing is damaged."""
    assert ended.code == 4, ended.err
    first = ended.message.splitlines()[0]
    assert first.startswith(f"cclmark: {says} {phase}"), ended.err
    if not run.journal_path.exists():
        return
    journal = run.read()
    assert journal.damaged_lines == 0
    assert journal.footer.exit_code == 4
    assert len(journal.results) == (6 if phase in BEHIND else 0)


def struck_ranks(of_rank_0, of_last_rank):
    """Every rank in every phase, of which few are tried without --all."""
    tried = {(of_rank_0, 0), *((phase, RANKS - 1) for phase in of_last_rank)}
    return [
        (phase, rank) if (phase, rank) in tried else exhaustive(phase, rank)
        for phase in (*HELD, *LONG)
        for rank in range(RANKS)
    ]


@pytest.mark.parametrize(("phase", "rank"), struck_ranks("timing", KILLED))
def test_a_rank_that_is_killed(struck, rank, phase):
    run, ended, pid = struck(rank, phase, signal.SIGKILL)
    says = f"rank {rank} (host:{rank}, pid {pid}) was killed by SIGKILL during"
    check(run, ended, phase, says)


@pytest.mark.parametrize(("phase", "rank"), struck_ranks("communicator creation", STOPPED))
def test_a_rank_that_is_stopped(struck, rank, phase):
    run, ended, pid = struck(rank, phase, signal.SIGSTOP, timeout_s=TIMEOUT_S)
    assert time.monotonic() - run.killed_at_s < scaled(AT_MOST_S)
    says = f"rank {rank} (host:{rank}, pid {pid}) is stopped (SIGSTOP or a debugger) in"
    check(run, ended, phase, says)


RAISED = {"loading the library": 2, "timing": 0, "shutdown": 2}


@pytest.mark.parametrize(("phase", "rank"), RAISED.items())
def test_a_rank_that_raises_an_unexpected_error(background, tmp_path, rank, phase):
    env = held(tmp_path, rank, phase) | {"RAISED_IN_TEST": ""}
    run = background(*SWEEP, *SHORT, env=env)
    ended = run.finish(code=4, traceback=True)
    first, second = ended.message.splitlines()[:2]
    assert first.startswith(f"cclmark: rank {rank} (host:{rank}, pid ")
    assert f" failed during {phase}" in first
    assert second == "  ArithmeticError: of all things"
    if run.journal_path.exists():
        assert run.read().damaged_lines == 0
        assert run.read().footer.exit_code == 4


@pytest.mark.parametrize(
    ("rank", "number"),
    [(0, signal.SIGKILL), (2, signal.SIGSTOP)],
)
def test_a_rank_that_waits_for_the_others_times(background, rank, number):
    """All times are gathered after each batch; the next rank is held up before its own."""
    late = (rank + 1) % RANKS
    run = background(*SWEEP, *SHORT, "--inject", f"delay:rank={late},ms=1000000", *waits(4))
    pid = run.wait_for_workers(RANKS)[rank]
    run.wait_for_phase(rank, "timing")
    run.signal(pid, number)
    ended = run.finish(4 + AT_MOST_S)
    how = "was killed by" if number == signal.SIGKILL else "is stopped"
    check(run, ended, "", f"rank {rank} (host:{rank}, pid {pid}) {how}".removesuffix(" "))
