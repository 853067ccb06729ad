"""How measured values are judged: at the boundary, over runs, with wrong data and without any."""

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.kinds.check.plan import Check
from cclmark.kinds.check.result import CheckResult
from cclmark.plan.cases import Case
from cclmark.plan.transfers import Transfer
from cclmark.results.item_results import CaseResult, TransferResult
from cclmark.results.journal import Journal
from cclmark.results.schema import (
    SCHEMA_VERSION,
    DeviceTime,
    Footer,
    Header,
    Link,
    Machine,
    Relation,
    Samples,
    Summary,
    TransferSummary,
    Verification,
    WrongOutput,
)
from cclmark.suites.checks import (
    CommandRun,
    CommandVerdict,
    Verdict,
    judge,
    suite_exit_code,
)
from cclmark.suites.suite import parse_suite
from samples import usual_settings

CASE = Case("all_reduce", "nccl", 2, "float32", 1 << 20, 1 << 18, False, "sum")
RIGHT = Verification(wrong=0)
WRONG = Verification(1, [WrongOutput(1, 1, 5, "2", "3")])


def command(threshold="", run="all_reduce", repeats=1, optional=False):
    text = f"[[command]]\nrun = '{run}'\nrepeats = {repeats}\noptional = {str(optional).lower()}\n"
    text += f"[[command.threshold]]\n{threshold}\n" if threshold else ""
    return parse_suite(text.encode(), "x.toml", Path()).commands[0]


def journal(*results, links=(), relations=(), check=1, exit_code=0):
    settings = usual_settings(timeout_s=1, check=check)
    header = Header(
        SCHEMA_VERSION,
        "",
        "",
        [],
        Machine("", "", "", "", 1, 1),
        [],
        list(links),
        [],
        {},
        settings,
        relations=list(relations),
    )
    return Journal(header, [*results], footer=Footer("", exit_code, 1.0))


def measured(busbw=100e9, case=CASE, status="ok", time_s=1e-3):
    summary = Summary("device", time_s, time_s, time_s, time_s, time_s, 0, 9, busbw, busbw)
    checked = WRONG if status == "wrong" else RIGHT
    return CaseResult(0, case, status, summary=summary, verification=checked)


def launch_bound(call_s, device_s):
    """A case whose calls cost more than the devices need."""
    found = measured(time_s=call_s)
    summary = measured(time_s=device_s).summary
    return msgspec.structs.replace(found, device=DeviceTime(Samples([], [], [], 1), summary))


def timed_by(timing, *results):
    made = journal(*results)
    made.header.settings.timing = timing
    return made


def copied(rates, flows=((0, 1),), scope="pairs", measure="unidirectional", **others):
    transfer = Transfer(measure, scope, "CE", "write", flows, 1 << 20, **others)
    if measure == "latency":
        summary = TransferSummary(rates, rates, rates, 9)
    else:
        summary = TransferSummary(1e-3, 1e-3, 1e-3, 9, None, sum(rates), list(rates))
    return TransferResult(0, transfer, "ok", summary=summary, verification=RIGHT)


def verdicts(wanted, *journals, baseline=None, code=0):
    attempts = [CommandRun(code, one) for one in journals]
    return judge(wanted, attempts, baseline)


def verdict_on(threshold, *journals, baseline=None, run="all_reduce"):
    wanted = command(threshold, run, repeats=len(journals))
    found = verdicts(wanted, *journals, baseline=baseline)
    assert [one.status for one in found[:1]] == ["pass"]
    return found[2]


@pytest.mark.parametrize(
    ("threshold", "status"),
    [
        ('busbw_at_least = "100 GB/s"', "pass"),
        ('busbw_at_least = "100.0001 GB/s"', "fail"),
        ('algbw_at_least = "100 GB/s"', "pass"),
        ('time_at_most = "1 ms"', "pass"),
        ('time_at_most = "999.999 us"', "fail"),
    ],
)
def test_the_bound_itself_passes_and_what_is_beyond_it_fails(threshold, status):
    verdict = verdict_on(threshold, journal(measured()))
    assert verdict.status == status
    assert verdict.exit_code == (0 if status == "pass" else 1)
    (judgement,) = verdict.judgements
    assert judgement.passed == (status == "pass")
    assert (judgement.margin >= 0) == judgement.passed


@given(
    st.lists(st.floats(min_value=1.0, max_value=1e12), min_size=1, max_size=7),
    st.floats(min_value=1.0, max_value=1e12),
)
def test_the_median_decides_and_the_worst_is_told(values, bound):
    threshold = f'busbw_at_least = "{bound:.17g} B/s"'
    verdict = verdict_on(threshold, *(journal(measured(value)) for value in values))
    (judgement,) = verdict.judgements
    ordered = sorted(values)
    middle = (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2
    assert judgement.value == pytest.approx(middle)
    assert judgement.worst == ordered[0]
    assert judgement.passed == (judgement.value >= bound)
    assert (verdict.status == "pass") == judgement.passed


def test_of_times_the_longest_is_the_worst():
    runs = [journal(measured(time_s=time_s)) for time_s in (1e-3, 5e-3, 2e-3)]
    (judgement,) = verdict_on('time_at_most = "2 ms"', *runs).judgements
    assert (judgement.value, judgement.worst, judgement.passed) == (2e-3, 5e-3, True)
    assert judgement.values == [1e-3, 5e-3, 2e-3]


def test_cycles_of_one_run_count_like_runs():
    results = [msgspec.structs.replace(measured(rate), cycle=rate) for rate in (1, 2, 9)]
    (judgement,) = verdict_on('busbw_at_least = "2 B/s"', journal(*results)).judgements
    assert (judgement.value, judgement.worst) == (2, 1)


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
@pytest.mark.parametrize("runs", [1, 3])
def test_what_is_no_number_passes_nothing(value, runs):
    good = [journal(measured()) for _ in range(runs - 1)]
    for threshold in ('busbw_at_least = "1 B/s"', 'time_at_most = "99 s"'):
        verdict = verdict_on(threshold, *good, journal(measured(value, time_s=value)))
        assert verdict.status == "fail"
        assert math.isnan(verdict.missed[0].margin)


def test_a_share_of_the_limit_is_one_of_the_links():
    links = [Link(0, "NVLink", 18, 25e9), Link(0, "PCIe", 16, 4e9)]
    (judgement,) = verdict_on(
        'busbw_at_least = "0.2 of limit"', journal(measured(), links=links)
    ).judgements
    assert judgement.bound == pytest.approx(90e9)


def test_of_a_pair_the_limit_is_that_of_its_connection():
    pair = msgspec.structs.replace(CASE, pair=(0, 2))
    relations = [Relation(0, 2, "NV4", 1, 100e9), Relation(2, 0, "NV4", 1, 100e9)]
    made = journal(measured(90e9, pair), links=[Link(0, "NVLink", 18, 25e9)], relations=relations)
    verdict = verdict_on('pair = "2-0"\nbusbw_at_least = "0.9 of limit"', made, run="pairs")
    assert verdict.status == "pass"
    assert verdict.judgements[0].bound == pytest.approx(90e9)


def test_without_a_known_limit_the_threshold_is_skipped_and_that_is_no_pass():
    verdict = verdict_on('busbw_at_least = "0.2 of limit"', journal(measured()))
    assert (verdict.status, verdict.exit_code) == ("skipped", 3)
    assert not verdict.judgements


def test_a_share_of_the_baseline_is_one_of_the_same_case():
    other = msgspec.structs.replace(CASE, in_place=True)
    threshold = 'busbw_at_least = "0.95 of baseline"'
    baseline = journal(measured(100e9), measured(200e9, other))
    verdict = verdict_on(
        threshold, journal(measured(96e9), measured(180e9, other)), baseline=baseline
    )
    assert verdict.status == "fail"
    assert [one.bound for one in verdict.judgements] == [pytest.approx(95e9), pytest.approx(190e9)]
    assert [one.case for one in verdict.missed] == [f"{other.describe()}, nccl"]


@pytest.mark.parametrize("status", ["absent", "wrong", "zero"])
def test_a_baseline_without_the_case_is_the_suites_mistake(status):
    held = {"absent": [], "wrong": [measured(status="wrong")], "zero": [measured(0.0)]}[status]
    threshold = 'busbw_at_least = "0.95 of baseline"'
    verdict = verdict_on(threshold, journal(measured()), baseline=journal(*held))
    assert (verdict.status, verdict.exit_code) == ("error", 2)
    assert "baseline has no figure for all_reduce 1 MiB" in verdict.reason


@pytest.mark.parametrize(
    "selector",
    ['size = "2M"', 'dtype = "int8"', 'reduction = "max"', 'placement = "in-place"', 'ccl = "shm"'],
)
def test_a_threshold_for_no_case_is_an_error_and_no_pass(selector):
    verdict = verdict_on(f'{selector}\nbusbw_at_least = "1 B/s"', journal(measured()))
    assert (verdict.status, verdict.exit_code) == ("error", 2)


def test_each_of_what_a_threshold_names_must_have_been_measured():
    pair = msgspec.structs.replace(CASE, pair=(0, 1))
    for selector, words in (
        ('dtype = ["float32", "int8"]', "with int8, to"),
        ('pair = ["0-1", "1-2"]', "with pair 1-2, to"),
    ):
        threshold = f'{selector}\nbusbw_at_least = "1 B/s"'
        verdict = verdict_on(threshold, journal(measured(case=pair)), run="pairs")
        assert (verdict.status, verdict.exit_code) == ("error", 2)
        assert words in verdict.reason
        died = judge(
            command(threshold, "pairs"), [CommandRun(4, journal(measured(case=pair)))], None
        )
        assert [one.status for one in died] == ["error", "pass", "pass"]


def test_sizes_are_meant_as_they_were_asked_for():
    # 1 MiB between three ranks is rounded down to parts of whole 16 bytes.
    case = Case("all_gather", "shm", 3, "float32", 1048560, 87380, False)
    for sizes in ("1M", "1M-2M", "64K-1M", "-1M", "1M-"):
        verdict = verdict_on(
            f'size = "{sizes}"\nbusbw_at_least = "1 B/s"',
            journal(measured(1e9, case)),
            run="all_gather",
        )
        assert verdict.status == "pass", sizes
    barrier = Case("barrier", "shm", 3, "float32", 0, 0, False)
    made = journal(measured(0.0, barrier), measured())
    assert len(verdict_on('busbw_at_least = "1 B/s"', made, run="collectives").judgements) == 1
    assert (
        len(verdict_on('size = "-1M"\ntime_at_most = "1 s"', made, run="collectives").judgements)
        == 1
    )
    assert len(verdict_on('time_at_most = "1 s"', made, run="collectives").judgements) == 2


def test_skipped_cases_are_told_and_where_all_are_nothing_passes():
    skipped = CaseResult(0, msgspec.structs.replace(CASE, dtype="int8"), "skipped", "no int8 here")
    threshold = 'busbw_at_least = "1 B/s"'
    some = verdict_on(threshold, journal(measured(), skipped))
    assert some.status == "pass"
    assert "1 not judged" in some.reason
    assert "no int8 here" in some.reason
    none = verdict_on(threshold, journal(skipped))
    assert (none.status, none.exit_code) == ("skipped", 3)
    assert "no int8 here" in none.reason
    allowed = verdicts(command(threshold, optional=True), journal(skipped))
    assert (allowed[2].status, allowed[2].exit_code) == ("skipped", 0)


def test_wrong_data_fails_however_fast_it_was():
    ran, data, held = verdicts(
        command('busbw_at_least = "1 B/s"'), journal(measured(status="wrong"))
    )
    assert ran.status == "pass"
    assert (data.status, data.exit_code) == ("fail", 1)
    assert "rank 1: 1 wrong, the first at element 5" in data.reason
    assert (held.status, held.exit_code) == ("fail", 1)
    _, data = verdicts(command(repeats=2), journal(measured()), journal(measured(status="wrong")))
    assert data.status == "fail"


def test_what_was_not_checked_is_not_right():
    _, data = verdicts(command(), journal(measured(), check=0))
    assert (data.status, data.exit_code) == ("error", 2)


def test_checks_of_a_framework_must_not_fail():
    check = Check("barrier", "gloo")
    wanted = command(run="torch check")
    assert verdicts(wanted, journal(CheckResult(0, check, "ok")))[1].status == "pass"
    assert verdicts(wanted, journal(CheckResult(0, check, "unsupported", "x")))[1].status == "pass"
    failed = verdicts(wanted, journal(CheckResult(0, check, "failed", "rank 1: hm")))[1]
    assert failed.status == "fail"
    assert "barrier with gloo: rank 1: hm" in failed.reason


def test_transfers_are_judged_by_pair_and_way():
    made = journal(copied([10e9]), copied([20e9], ((1, 0),)), copied(2e-6, measure="latency"))

    def on(threshold):
        return verdict_on(threshold, made, run="p2p")

    assert on('bandwidth_at_least = "10 GB/s"').status == "pass"
    failed = on('bandwidth_at_least = "15 GB/s"')
    assert [one.case for one in failed.missed] == ["unidirectional write CE 1 MiB device 0 to 1"]
    assert on('pair = "1-0"\nbandwidth_at_least = "15 GB/s"').status == "pass"
    assert on('pair = "0-1"\nbandwidth_at_least = "15 GB/s"').status == "fail"
    assert on('direction = "read"\nbandwidth_at_least = "1 GB/s"').status == "error"
    assert on('latency_at_most = "2 us"').status == "pass"
    assert on('latency_at_most = "1.9 us"').status == "fail"


def test_of_both_ways_the_sum_is_judged_and_of_rounds_each_flow():
    relations = [Relation(0, 1, "NV", 1, 20e9), Relation(1, 0, "NV", 1, 20e9)]
    both = copied([10e9, 12e9], ((0, 1), (1, 0)), measure="bidirectional")
    verdict = verdict_on(
        'bandwidth_at_least = "0.5 of limit"', journal(both, relations=relations), run="p2p"
    )
    (judgement,) = verdict.judgements
    assert (judgement.value, judgement.bound) == (22e9, 20e9)
    rounds = copied([10e9, 12e9], ((0, 1), (1, 0)), scope="all-pairs")
    verdict = verdict_on(
        'bandwidth_at_least = "0.55 of limit"', journal(rounds, relations=relations), run="p2p"
    )
    assert [(one.value, one.passed) for one in verdict.judgements] == [(10e9, False), (12e9, True)]


def test_copies_to_and_from_the_host_are_told_apart():
    up = copied([10e9], ((0, 0),), "host", host_memory="pinned", to_host=True, numa="near")
    down = copied([5e9], ((0, 0),), "host", host_memory="pinned", to_host=False, numa="near")
    made = journal(up, down)
    threshold = 'to_host = {}\nhost_memory = "pinned"\nbandwidth_at_least = "10 GB/s"'
    assert verdict_on(threshold.format("true"), made, run="p2p").status == "pass"
    assert verdict_on(threshold.format("false"), made, run="p2p").status == "fail"


@pytest.mark.parametrize(
    ("attempt", "status", "code", "words"),
    [
        (CommandRun(0, journal(measured())), "pass", 0, ""),
        (CommandRun(2, None, "no such flag"), "error", 2, "exit code 2: no such flag"),
        (CommandRun(3, None, "no driver"), "skipped", 3, "no driver"),
        (CommandRun(4, journal(), "rank 1 died"), "error", 4, "exit code 4: rank 1 died"),
        (CommandRun(-9, journal()), "error", 4, "killed by signal 9"),
        (CommandRun(139, None), "error", 4, "exit code 139"),
        (CommandRun(1, None, "Traceback"), "error", 4, "no journal: Traceback"),
        (CommandRun(0, None), "error", 2, "no journal"),
        (CommandRun(143, journal(), timed_out=True), "error", 4, "did not end within 3600 s"),
        (CommandRun(130, journal(), interrupted=True), "skipped", 0, "interrupted"),
    ],
)
def test_how_a_run_ended(attempt, status, code, words):
    verdict = judge(command(), [attempt], None)[0]
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert words in verdict.reason


def test_a_run_that_lost_a_result_is_not_trusted():
    torn = journal(measured())
    torn.damaged_lines = 1
    cut = journal(measured())
    cut.footer = None
    for one in (torn, cut):
        assert judge(command(), [CommandRun(0, one)], None)[0].exit_code == 4


def test_what_was_measured_before_a_rank_died_is_judged_and_the_rest_skipped():
    threshold = 'size = "1M"\nbusbw_at_least = "1 B/s"'
    dead = CommandRun(4, journal(measured(), exit_code=4), "rank 1 died")
    assert [one.status for one in judge(command(threshold), [dead], None)] == [
        "error",
        "pass",
        "pass",
    ]
    early = judge(command(threshold), [CommandRun(4, journal(), "rank 1 died")], None)
    assert [one.status for one in early] == ["error", "skipped", "skipped"]


def test_runs_that_were_not_begun_leave_nothing_passed():
    found = judge(command('busbw_at_least = "1 B/s"', repeats=3), [], None)
    assert [one.status for one in found] == ["skipped", "skipped"]
    half = judge(command(repeats=3), [CommandRun(0, journal(measured()))], None)
    assert half[0].reason == "interrupted after 1 run"


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0], 0),
        ([0, 1], 1),
        ([3, 1], 1),
        ([2, 1], 1),
        ([1, 4], 4),
        ([3, 2], 2),
        ([0, 3], 3),
    ],
)
def test_the_suites_exit_code_is_the_one_that_says_most(codes, expected):
    tests = [Verdict("x", "fail" if code else "pass", exit_code=code) for code in codes]
    commands = [CommandVerdict("c", [], [], 1, 1.0, [], tests)]
    assert suite_exit_code(commands, interrupted=False) == expected
    assert suite_exit_code(commands, interrupted=True) == 130


def test_a_suite_of_which_nothing_could_be_tried_is_not_passed():
    skipped = [CommandVerdict("c", [], [], 1, 1.0, [], [Verdict("ran", "skipped")])]
    assert suite_exit_code(skipped, interrupted=False) == 3


def test_the_device_is_judged_where_launches_determine_the_time():
    """Calls cost what the process that launches them costs; the devices are to be accepted."""
    run = timed_by("auto", launch_bound(9e-6, 5.7e-6))
    verdict = verdict_on('time_at_most = "6 us"', run)
    assert verdict.status == "pass"
    assert verdict.judgements[0].value == pytest.approx(5.7e-6)
    assert "(device time)" in verdict.judgements[0].case


@pytest.mark.parametrize(
    ("timing", "before_s", "status"), [("auto", 5.7e-6, "fail"), ("throughput", 9e-6, "pass")]
)
def test_a_baseline_is_judged_by_the_same_figure(timing, before_s, status):
    """Of an older baseline, which has no device times, the cost of a call."""
    was = launch_bound(9e-6, before_s) if timing == "auto" else measured(time_s=before_s)
    run = timed_by("auto", launch_bound(9e-6, 6.5e-6))
    verdict = verdict_on('time_at_most = "1.05 of baseline"', run, baseline=timed_by(timing, was))
    assert verdict.status == status
