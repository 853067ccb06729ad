"""``cclmark tune`` on fakes; tests/kinds/tune/test_tuning.py has simulated devices with gains."""

import fcntl
import os
import signal

import pytest

from cclmark.kinds.experiment.plan import PROOF, SEARCH
from cclmark.kinds.experiment.result import TrialResult
from cclmark.kinds.registry import read_journal
from cclmark.kinds.tune.result import result_of
from commands import completed
from examples import exhaustive
from mpis import mpi_environment

SMALL = ("-g", "2", "-b", "4K", "-e", "4K", "-n", "1", "-w", "0", "--budget", "1s")


@pytest.fixture
def fakes(fake_cuda, tmp_path):
    """The environment of a run; its own directory for the lock against other runs."""
    return lambda **variables: fake_cuda.env(TMPDIR=str(tmp_path), **variables)


def test_a_run_ends_with_a_result(cclmark, fakes):
    run = cclmark("tune", "all_reduce,alltoall", *SMALL, "-O", "t", env=fakes())
    journal = run.journal
    trials = journal.of(TrialResult)
    assert {one.trial.stage for one in trials} >= {SEARCH}
    assert [one.index for one in trials] == list(range(len(trials)))
    assert all(one.is_checked for one in trials)
    assert "all_reduce float32 sum out-of-place · nccl, 2 ranks" in run.out
    assert "nothing can be selected for this operation by size" in run.out
    variants = {one.trial.variant.describe() for one in trials}
    assert any(one.endswith("/t/candidates/ring-ll-32.table") for one in variants)
    kept = (run.directory / "t" / "candidates").exists()
    # By chance, the proof may find a size that an artifact would slow down.
    ends = (
        "  nothing beats the default\n",
        "  no gain was proven within the budget\n",
        "  no artifact is written: see above\n",
    )
    assert kept != any(text in run.out for text in ends)
    assert result_of(journal.footer).is_complete
    # The plug-in of the ranks leaves no log where nothing is recorded.
    assert list(run.directory.glob("*.cclmlog")) == []


def test_an_interrupted_run_continues(cclmark, background, fakes):
    arguments = ("tune", "all_reduce", *SMALL, "-O", "t")
    run = background(*arguments, env=fakes())
    run.wait_for_ranks(results=4)
    run.signal(run.process.pid, signal.SIGINT)
    assert run.finish().code == 130
    done = read_journal(run.journal_path).of(TrialResult)
    resumed = cclmark(*arguments, "--resume", run.journal_path, env=fakes())
    trials = resumed.journal.of(TrialResult)
    assert [one.started_at_s for one in trials[: len(done)]] == [one.started_at_s for one in done]
    assert [one.index for one in trials] == list(range(len(trials)))
    assert len({one.trial for one in trials}) == len(trials)


def test_two_runs_at_once_are_refused(cclmark, fakes, tmp_path):
    with (tmp_path / f"cclmark-tune-{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = cclmark("tune", "all_reduce", *SMALL, env=fakes(), code=2)
    assert "another cclmark tune runs on this host" in refused.message


def test_invalid_requests(refusals, fakes, flagcx_env, tmp_path):
    refusals("refused.txt", {**flagcx_env(), **fakes()})


@pytest.mark.parametrize(
    ("name", "operation", "files"),
    [
        # Open MPI's mpirun takes a second to start, and the search starts it some fifty times.
        exhaustive("openmpi", "all_reduce", ["ring.rules"]),
        exhaustive("mpich", "all_reduce", ["ring-mpich_coll.json", "ring-mpich_posix_coll.json"]),
        # Of these, MPICH has the fewest algorithms.
        ("mpich", "reduce", ["binomial-mpich_coll.json", "binomial-mpich_posix_coll.json"]),
    ],
)
def test_an_mpi_is_tuned_by_its_own_files(cclmark, tmp_path, name, operation, files):
    """Every candidate runs with its files; tests/kinds/tune/test_tuning.py has gains."""
    run = cclmark(
        *("tune", operation, "--ccl", "mpi", "--devices", "host:2", "-b", "1K", "-e", "1K"),
        *("-n", "1", "-w", "0", "--budget", "1s", "-O", "t"),
        env={**mpi_environment(name), "TMPDIR": str(tmp_path)},
    )
    trials = run.journal.of(TrialResult)
    assert all(one.status == "ok" and one.is_checked for one in trials)
    paths = {one.value for trial in trials for one in trial.trial.variant.assignments}
    assert {str(run.directory / "t" / "candidates" / file) for file in files} <= paths


WAITS_US = "100000"  # more than ranks wait for a processor on a busy machine


def test_a_variable_that_is_faster_is_found_proven_and_deployed(cclmark, fakes):
    """NCCL asks a tuner for collectives: variables are tuned for its sends and receives."""
    name = "NCCL_NVB_DISABLE"
    slow = {"NCCL_IB_DISABLE": "1", "CCLMARK_FAKE_SLOW_UNLESS": f"{name}=1:{WAITS_US}"}
    run = cclmark(
        *("tune", "sendrecv", "--ccl", "nccl", "-g", "2", "-b", "4K", "-e", "4K", "-n", "1"),
        *("-w", "0", "--settings", name, "-O", "t"),
        env=fakes(**slow),
        timeout_s=200,
    )
    file = run.directory / "t" / "environment.sh"
    assert f"{name}=1  default 0" in run.out
    assert f"use: . {file.relative_to(run.directory)}    which sets {name}=1" in run.out
    done = completed(["sh", "-c", f'. "{file}"; printf "%s" "${name}"'], check=True)
    assert done.stdout == "1"
    comments = [line for line in file.read_text().splitlines() if line.startswith("#")]
    assert "# nccl " in comments[0]
    assert "2 ranks on one host" in comments[0]
    assert "# measured with NCCL_IB_DISABLE=1, which this file does not set" in comments
    trials = run.journal.of(TrialResult)
    assert all(one.is_checked for one in trials)
    proofs = [one.trial for one in trials if one.trial.stage == PROOF]
    assert {one.round for one in proofs} == set(range(7))
    variants = {one.variant.describe() for one in proofs}
    assert variants == {"default", "default again", f"{name}=1"}
