"""Cases that hang: given up with a report, and fresh ranks go on; by the drill on host devices."""

import re

from commands import PROGRAM, completed, environment
from patience import waits

SWEEP = ("all_reduce", "--devices", "host:3", "-b", "64", "-e", "256", "-n", "10", "-w", "2")


def statuses(journal):
    return {result.index: result.status for result in journal.results}


def test_a_rank_that_fails_at_its_start_reports_the_reason(tag, tmp_path):
    """Its memory is larger than the limit on the size of files."""
    done = completed(
        ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *PROGRAM, *SWEEP],
        cwd=tmp_path,
        env=environment(tag, None),
    )
    assert done.returncode == 4
    assert "fallocate(rank group memory) failed: File too large" in done.stderr
    assert "refused" not in done.stderr


def test_a_case_that_hangs_is_given_up_and_the_others_are_measured(cclmark, no_leaks):
    run = cclmark(*SWEEP, *waits(2), "--inject", "hang:rank=2,case=3", code=4)
    assert f"a phase may take {waits(2)[1]} s (-T, --timeout): raise it if" in run.err
    journal = run.journal
    assert statuses(journal) == {i: "timeout" if i == 3 else "ok" for i in range(6)}
    assert all(one.verification.wrong == 0 for one in journal.results if one.status == "ok")
    report = journal.results[[one.index for one in journal.results].index(3)].report
    assert report.startswith("rank 2 (host:2, pid ")
    assert re.search(r"rank 2 has not entered call \d+; the others wait in it", report)
    assert "python: hang (" in report
    assert report.splitlines()[0] in run.err
    assert "new ranks continue with the next case" in run.err
    assert journal.footer.exit_code == 4
    assert "timeout" in run.out


def test_ranks_that_hang_again_and_again_are_given_up(cclmark, no_leaks):
    faults = [f"--inject=hang:rank=1,case={case}" for case in range(6)]
    run = cclmark(*SWEEP, *waits(1), *faults, code=4)
    assert statuses(run.journal) == dict.fromkeys(range(3), "timeout")
    assert (
        "3 consecutive cases hung: the remaining cases are not measured"
    ) in run.journal.footer.message


def test_what_hung_is_measured_by_the_resumed_run(cclmark, no_leaks):
    first = cclmark(*SWEEP, *waits(1), "--inject", "hang:rank=0,case=5", code=4)
    # The last case is reported as the others are, although no ranks continue.
    assert first.err.count(first.journal.results[-1].report) == 1
    assert "new ranks continue" not in first.err
    path = str(first.journal_path)
    again = cclmark(*SWEEP, *waits(1), "--resume", path)
    assert statuses(again.journal) == dict.fromkeys(range(6), "ok")
    kept = [one for one in first.journal.results if one.status == "ok"]
    assert [one for one in again.journal.results if one.index != 5] == kept


def test_a_sweep_that_is_repeated_ends_with_the_case_that_hangs(cclmark, no_leaks):
    run = cclmark(*SWEEP, "-N", "2", *waits(1), "--inject", "hang:rank=0,case=1", code=4)
    assert statuses(run.journal) == {0: "ok"}
    assert "rank 0 has not entered call" in run.journal.footer.message
