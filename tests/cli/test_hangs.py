"""Cases that hang: given up with a report, and fresh ranks go on; by the drill on host devices.

Also in ``scenarios/runs.txt``.
"""

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
