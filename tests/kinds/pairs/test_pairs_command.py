"""``cclmark pairs`` on host devices and on the fake CUDA path."""

import itertools
import signal

import pytest

from patience import deadline_s, waits

SHORT = ("-b", "64", "-e", "4K", "-f", "8", "-n", "2", "-w", "1")
ONE = (*SHORT, "--only", "all_reduce")
SOON_S = 20.0

pytestmark = pytest.mark.usefixtures("no_leaks")


def all_pairs(number):
    return [(a, b) for a in range(number) for b in range(a + 1, number)]


def pairs(run):
    return sorted({result.case.pair for result in run.journal.results})


def measured(run):
    return {result.case.operation for result in run.journal.results}


class TestHost:
    @pytest.fixture(scope="class")
    @staticmethod
    def whole(cclmark_in, tmp_path_factory):
        return cclmark_in(tmp_path_factory.mktemp("pairs"), "pairs", "--devices", "host:4", *SHORT)

    def test_every_operation_of_every_pair_is_measured_and_checked(self, whole):
        assert pairs(whole) == all_pairs(4)
        assert measured(whole) == {
            *("all_gather", "all_reduce", "alltoall", "alltoallv", "broadcast", "reduce"),
            *("reduce_scatter", "send", "sendrecv", "ping_pong"),
        }
        for result in whole.journal.results:
            assert result.status == "ok"
            assert result.verification.wrong == 0
            assert len(result.samples.host_s[0]) == 2
        header = whole.journal.header
        assert header.planned_cases == len(whole.journal.results)
        indices = [result.index for result in whole.journal.results]
        assert sorted(indices) == list(range(header.planned_cases)), "none twice, none left out"

    def test_both_roots_are_measured(self, whole):
        roots = {
            (result.case.operation, result.case.root)
            for result in whole.journal.results
            if result.case.root is not None
        }
        assert roots == {
            (name, root) for name in ("broadcast", "reduce", "send") for root in (0, 1)
        }

    def test_there_is_a_heat_map_of_each_operation_and_a_chart_of_all(self, whole):
        for operation in measured(whole):
            assert f"\n  {operation} · shm\n" in whole.out
        assert "Algorithm bandwidth against size" in whole.out
        assert "└───" in whole.out

    def test_fixed_iterations_have_no_interval_so_each_pair_is_measured_alone(self, whole):
        assert all(result.beside == 0 for result in whole.journal.results)
        assert "every pair was measured alone" in whole.out


# What takes 40 ms on every pair, because it is held up, takes 40 ms on all pairs at once.
HELD_UP = (
    *("--only", "all_reduce", "-b", "64", "-e", "256", "-f", "2", "--max-time", "2"),
    *("--timing", "blocking"),
    *(word for a, b in all_pairs(4) for word in ("--inject", f"delay:pair={a}-{b},ms=40")),
)


def test_pairs_are_measured_at_once_where_that_disturbs_none(cclmark):
    """A case that is wrong has a result with other pairs beside it, and one without."""
    fault = ("--inject", "corrupt:pair=0-3,index=0", "--precision", "5")
    run = cclmark("pairs", "--devices", "host:4", *HELD_UP, *fault, code=1)
    wrong = [result for result in run.journal.results if result.status == "wrong"]
    assert {result.case.pair for result in wrong} == {(0, 3)}
    assert {result.beside for result in wrong} == {0, 1}
    assert "(with 1 other pair at work)" in run.out
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


def test_in_place_and_several_types(cclmark):
    arguments = ("--placement", "both", "-d", "float32,int8", "-o", "sum,max")
    spelt = ("--only", "AllReduce,PING-PONG,pingpong")
    run = cclmark("pairs", "--devices", "host:5", *SHORT, *arguments, *spelt)
    assert pairs(run) == all_pairs(5)
    assert measured(run) == {"all_reduce", "ping_pong"}
    assert {result.case.in_place for result in run.journal.results} == {False, True}
    assert "all_reduce float32 in-place max" in run.out


def test_corruption_is_found_at_its_pair_and_device_only(cclmark):
    fault = ("--inject", "corrupt:pair=2-1,index=3")
    run = cclmark("pairs", "--devices", "host:3", *ONE, *fault, code=1)
    wrong = {result.case.pair for result in run.journal.results if result.status == "wrong"}
    assert wrong == {(1, 2)}
    assert "DEV1 got 1 wrong, first at index 3" in run.out
    assert "WRONG" in run.out


def test_a_slow_pair_is_named(cclmark):
    fault = ("--inject", "delay:pair=1-3,ms=300", "-n", "2", "-w", "1", "-e", "64")
    run = cclmark("pairs", "--devices", "host:4", *HELD_UP, *fault)
    named = [line for line in run.out.splitlines() if "usual for" in line]
    assert "DEV1–DEV3" in named[0]
    assert "all_reduce, 64 B" in named[0]


def test_the_journal_has_each_case_as_soon_as_it_is_measured(background):
    run = background(
        *("pairs", "--devices", "host:2", "--only", "all_reduce,broadcast", "-b", "64"),
        *("-e", "1K", "--inject", "delay:pair=0-1,ms=30", "-n", "20", "-w", "1"),
    )
    run.wait_for_ranks(results=2)
    run.signal(run.process.pid, signal.SIGINT)
    ended = run.finish(SOON_S)
    assert ended.code == 130
    results = ended.journal.results
    assert 2 <= len(results) < ended.journal.header.planned_cases
    # What the interruption fell into is in the journal already and may not be on the screen.
    planned = ended.journal.header.planned_cases
    counts = [f"{len(results) - late} of {planned} cases measured" for late in (0, 1)]
    assert any(count in ended.out for count in counts)
    assert "all_reduce · shm" in ended.out
    advice = f"the same command with --resume {run.journal_path}, and "
    assert ended.err.count(advice) == 1


def test_waiting_pairs_grant_those_that_measure_their_time(cclmark):
    one = ("pairs", "--devices", "host:3", "--only", "all_reduce", "-b", "64", "-e", "64")
    # Whoever waits for a late rank for so long leaves its processor to others.
    late = [word for a, b in all_pairs(3) for word in ("--inject", f"delay:pair={a}-{b},ms=300")]
    limits = ("--timeout", "2", "--max-time", "1.5", "--precision", "0.0001")
    run = cclmark(*one, *limits, *late, "-w", "1")
    assert len(run.journal.results) == 3


def test_in_a_group_no_ping_waits_for_its_answer(cclmark):
    run = cclmark("pairs", "--devices", "host:2", *SHORT, "-m", "2", code=3)
    assert "ping_pong is omitted" in run.err
    assert "ping_pong" not in measured(run)


def test_what_does_not_fit_is_left_out_with_the_reason(cclmark):
    sizes = ("-b", "1K", "-e", "1T", "-f", str(1 << 30), "-n", "1", "-w", "0")
    run = cclmark("pairs", "--devices", "host:3", *sizes, "--only", "sendrecv")
    by_size = {result.case.size_bytes: result.status for result in run.journal.results}
    assert by_size == {1 << 10: "ok", 1 << 40: "skipped"}
    assert "n/a  1 TiB: requires 2 TiB of memory per rank" in run.out
    assert "time [µs] at 1 KiB" in run.out


BAD_INPUT = {
    "--devices host:1": "a pair requires two devices, but there is only 1",
    "--only all_reduces": "unknown operation 'all_reduces'",
    "--only gather": "unknown operation 'gather'",
    "-r 0": "No such option",
    "--inject corrupt:rank=1,index=5": "pair=0-1",
    "--inject delay:pair=0-2,ms=5": "numbered 0 to 1",
    "--inject delay:pair=1-1,ms=5": "requires two devices",
    "--only ping-pong -m 2": "-m groups operations",
    "-e 64 --inject corrupt:pair=0-1,index=16": "device 1's largest output has 8 elements",
    "--only sendrecv --pattern skew:4": "alltoallv",
    "--format nccl-tests": "--format",
}


@pytest.mark.parametrize("arguments", BAD_INPUT)
def test_bad_input_is_refused_before_anything_starts(refused, arguments):
    devices = () if "--devices" in arguments else ("--devices", "host:2")
    refused("pairs", *devices, *arguments.split(), because=BAD_INPUT[arguments])


class TestFakeCuda:
    def test_every_pair_with_a_communicator_of_its_own(self, cclmark, fake_cuda):
        run = cclmark("pairs", "--devices", "cuda:0-2", *SHORT, env=fake_cuda.env())
        assert pairs(run) == all_pairs(3)
        assert {result.status for result in run.journal.results} == {"ok"}
        routes = {result.route for result in run.journal.results}
        assert "send and recv in turn" in routes

    def test_a_rank_that_dies_ends_the_run_for_those_who_rest_too(self, background, fake_cuda):
        run = background(
            *("pairs", "--devices", "cuda:0-2", "--one-by-one", "-b", "64", "-e", "1M"),
            *("-f", "2", "-n", "50"),
            env=fake_cuda.env(),
        )
        pids = run.wait_for_ranks()
        run.signal(pids[1], signal.SIGKILL)
        ended = run.finish(SOON_S)
        assert ended.code == 4
        assert f"pid {pids[1]}) was killed by SIGKILL" in ended.message


def test_a_rank_that_stops_while_it_rests_is_waited_for_in_vain(background):
    """Only those that work look at the clock closely: they find out when they are done."""
    run = background(
        *("pairs", "--devices", "host:3", "--one-by-one", *waits(3)),
        *("-b", "64", "-e", "64K", "-n", "5", "-w", "1"),
    )
    pids = run.wait_for_ranks()
    run.signal(pids[2], signal.SIGSTOP)
    ended = run.finish(3 + SOON_S)
    assert ended.code == 4
    assert f"rank 2 (host:2, pid {pids[2]}) is stopped" in ended.message


class TestWhatGoesWrongOnAccelerators:
    @pytest.mark.parametrize(
        ("fault", "status", "sign", "words"),
        [
            ("HANG", "timeout", "hung", f"waited {deadline_s(2):g} s for the device"),
            ("FAIL", "died", "died", "AllReduce"),
        ],
    )
    def test_what_hangs_or_fails_is_given_up_and_the_rest_goes_on(
        self, cclmark, fake_cuda, fault, status, sign, words
    ):
        sizes = ("-b", "64K", "-e", "128K", "-f", "2", "-n", "2", "-w", "1", *waits(2))
        run = cclmark(
            *("pairs", "--devices", "cuda:0-2", *sizes, "--only", "sendrecv,all_reduce"),
            env=fake_cuda.env(**{f"CCLMARK_FAKE_NCCL_{fault}": "1:AllReduce"}),
            code=4,
        )
        journal = run.journal
        assert len(journal.results) == journal.header.planned_cases
        by_status = {
            (result.case.operation, result.case.pair): result.status for result in journal.results
        }
        for pair in all_pairs(3):
            assert by_status["sendrecv", pair] == "ok"
            assert by_status["all_reduce", pair] == status
        assert f"{sign}  DEV0–DEV1: " in run.out
        assert words in run.err
        assert f", 6 {status}\n" in run.out
        assert run.out.count("library    nccl") == 1, "the header is printed once"

    def test_skipped_cases_are_measured_beside_nobody(self, cclmark, fake_cuda):
        sizes = ("-b", "64K", "-e", "16M", "-f", "16", "--timing", "blocking", "--max-time", "2")
        held_up = [
            word for a, b in all_pairs(4) for word in ("--inject", f"delay:pair={a}-{b},ms=20")
        ]
        run = cclmark(
            *("pairs", "--devices", "cuda:0-3", *sizes, "--only", "all_reduce", *held_up),
            *("--precision", "10", "-w", "1"),
            env=fake_cuda.env(CCLMARK_FAKE_MEMORY=str(24 << 20)),
        )
        skipped = [result for result in run.journal.results if result.status == "skipped"]
        assert skipped, "everything fitted"
        assert all(result.beside == 0 for result in skipped)

    def test_the_late_rank_is_one_of_the_run(self, cclmark):
        run = cclmark(
            *("pairs", "--devices", "host:3", "-b", "64", "-e", "64", "--only", "all_reduce"),
            *("--inject", "delay:pair=2-1,ms=100", "--max-time", "0.6"),
        )
        late = {result.case.pair: result.summary.late_rank for result in run.journal.results}
        assert late[1, 2] == 2
