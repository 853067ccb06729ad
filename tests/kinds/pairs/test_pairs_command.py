"""``cclmark pairs`` on host devices and on the fake CUDA path."""

import itertools
from pathlib import Path

import pytest

from patience import deadline_s, waits
from refusals import require_refusals

SHORT = ("-b", "64", "-e", "4K", "-f", "8", "-n", "2", "-w", "1")
ONE = (*SHORT, "--only", "all_reduce")
pytestmark = pytest.mark.usefixtures("no_leaks")


def all_pairs(number):
    return [*itertools.combinations(range(number), 2)]


def pairs(run):
    return sorted({result.case.pair for result in run.journal.results})


def measured(run):
    return {result.case.operation for result in run.journal.results}


def delays(number, ms):
    """A fault of every pair."""
    faults = [f"delay:pair={a}-{b},ms={ms}" for a, b in all_pairs(number)]
    return [word for one in faults for word in ("--inject", one)]


def test_every_operation_of_every_pair_is_measured_and_checked(cclmark):
    run = cclmark("pairs", "--devices", "host:4", *SHORT)
    results = run.journal.results
    assert pairs(run) == all_pairs(4)
    assert measured(run) == {
        *("all_gather", "all_reduce", "alltoall", "alltoallv", "broadcast", "reduce"),
        *("reduce_scatter", "send", "sendrecv", "ping_pong"),
    }
    assert {one.status for one in results} == {"ok"}
    assert {one.verification.wrong for one in results} == {0}
    assert {len(one.samples.host_s[0]) for one in results} == {2}
    planned = run.journal.header.planned_cases
    assert sorted(one.index for one in results) == list(range(planned))
    roots = {(one.case.operation, one.case.root) for one in results if one.case.root is not None}
    assert roots == {*itertools.product(("broadcast", "reduce", "send"), (0, 1))}
    # A heat map of each operation and a chart of all.
    for operation in measured(run):
        assert f"\n  {operation} · shm\n" in run.out
    assert "Algorithm bandwidth against size" in run.out
    assert "└───" in run.out
    # Fixed iterations have no interval, so each pair is measured alone.
    assert {one.beside for one in results} == {0}
    assert "every pair was measured alone" in run.out


# What takes 40 ms on every pair, because it is held up, takes 40 ms on all pairs at once.
HELD_UP = (
    *("--only", "all_reduce", "-b", "64", "-e", "256", "-f", "2", "--max-time", "2"),
    *("--timing", "blocking"),
    *delays(4, 40),
)


def test_pairs_are_measured_at_once_where_that_disturbs_none(cclmark):
    """A case that is wrong has a result with other pairs beside it, and one without."""
    fault = ("--inject", "corrupt:pair=3-0,index=3", "--precision", "5")
    run = cclmark("pairs", "--devices", "host:4", *HELD_UP, *fault, code=1)
    wrong = [result for result in run.journal.results if result.status == "wrong"]
    assert {result.case.pair for result in wrong} == {(0, 3)}
    assert {result.beside for result in wrong} == {0, 1}
    for text in ("(with 1 other pair at work)", "DEV0 got 1 wrong, first at index 3", "WRONG"):
        assert text in run.out
    beside = [result for result in run.journal.results if result.beside]
    spans = {}
    for result in beside:
        assert result.beside == 1
        spans.setdefault(result.case.size_bytes, []).append(result)
        if result.status == "ok":
            assert result.case.size_bytes != 128, "the probe is measured alone"
            assert result.at_once_ratio <= 1.02
            assert result.verification.wrong == 0
    assert any(result.status == "ok" for result in beside), "nothing was measured at once"
    for one, other in itertools.chain(*(itertools.combinations(own, 2) for own in spans.values())):
        if not set(one.case.pair) & set(other.case.pair):
            ends = [entry.started_at_s + entry.duration_s for entry in (one, other)]
            assert max(one.started_at_s, other.started_at_s) < min(ends)
            assert len(one.samples.host_s) == len(other.samples.host_s), "batches not in step"
    indices = {result.index for result in run.journal.results}
    assert indices == {*range(run.journal.header.planned_cases)}


def test_one_by_one_measures_no_pair_beside_another(cclmark):
    run = cclmark("pairs", "--devices", "host:4", *ONE, "--one-by-one")
    assert pairs(run) == all_pairs(4)
    assert all(result.beside == 0 for result in run.journal.results)
    assert "other pairs at work" not in run.out
    times = sorted(
        (result.started_at_s, result.started_at_s + result.duration_s, result.case.pair)
        for result in run.journal.results
    )
    for (_, end_s, pair), (begin_s, _, other) in itertools.pairwise(times):
        assert pair == other or begin_s >= end_s - 0.01, "two pairs measured at the same time"


def test_bad_input_is_refused_before_anything_starts(tag, tmp_path):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, ["pairs"])


@pytest.mark.parametrize(
    ("fault", "status", "sign", "words"),
    [
        ("HANG", "timeout", "hung", f"waited {deadline_s(2):g} s for the device"),
        ("FAIL", "died", "died", "AllReduce"),
    ],
)
def test_what_hangs_or_fails_on_accelerators_is_given_up_and_the_rest_goes_on(
    cclmark, fake_cuda, fault, status, sign, words
):
    sizes = ("-b", "64K", "-e", "128K", "-f", "2", "-n", "2", "-w", "1", *waits(2))
    env = fake_cuda.env(**{f"CCLMARK_FAKE_NCCL_{fault}": "1:AllReduce"})
    only = ("--only", "sendrecv,all_reduce")
    run = cclmark("pairs", "--devices", "cuda:0-2", *sizes, *only, env=env, code=4)
    results = run.journal.results
    assert len(results) == run.journal.header.planned_cases
    found = {(one.case.operation, one.case.pair): one.status for one in results}
    for pair in all_pairs(3):
        assert (found["sendrecv", pair], found["all_reduce", pair]) == ("ok", status)
    assert f"{sign}  DEV0–DEV1: " in run.out
    assert words in run.err
    assert f", 6 {status}\n" in run.out
    assert run.out.count("library    nccl") == 1, "the header is printed once"


def test_skipped_cases_are_measured_beside_nobody(cclmark, fake_cuda):
    sizes = ("-b", "64K", "-e", "16M", "-f", "16", "--timing", "blocking", "--max-time", "2")
    run = cclmark(
        *("pairs", "--devices", "cuda:0-3", *sizes, "--only", "all_reduce", *delays(4, 20)),
        *("--precision", "10", "-w", "1"),
        env=fake_cuda.env(CCLMARK_FAKE_MEMORY=str(24 << 20)),
    )
    skipped = [result for result in run.journal.results if result.status == "skipped"]
    assert skipped, "everything fitted"
    assert all(result.beside == 0 for result in skipped)
