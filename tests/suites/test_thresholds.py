import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.journal.item_results import CaseResult, TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    DeviceTime,
    Footer,
    Link,
    Relation,
    Samples,
    Summary,
    TransferSummary,
    Verification,
    WrongOutput,
)
from cclmark.suites.checks import CommandRun, CommandVerdict, Verdict, judge, suite_exit_code
from cclmark.suites.suite import parse_suite
from cclmark.suites.words import details
from cclmark.work.cases import Case
from cclmark.work.transfers import Transfer
from cclmark_training.check.plan import Check
from cclmark_training.check.result import CheckResult
from goldens import outline, require_golden
from samples import header_of, usual_settings

CASE = Case("all_reduce", "nccl", 2, "float32", 1 << 20, 1 << 18, False, "sum")
RIGHT = Verification(wrong=0)
WRONG = Verification(1, [WrongOutput(1, 1, 5, "2", "3")])


def command(threshold="", run="all_reduce", repeats=1, optional=False):
    text = f"[[command]]\nrun = '{run}'\nrepeats = {repeats}\noptional = {str(optional).lower()}\n"
    text += f"[[command.threshold]]\n{threshold}\n" if threshold else ""
    return parse_suite(text.encode(), "x.toml", Path()).commands[0]


def journal(*results, links=(), relations=(), check=1, exit_code=0):
    settings = usual_settings(timeout_s=1, check=check)
    header = header_of(settings, links=list(links), relations=list(relations))
    return Journal(header, [*results], footer=Footer("", exit_code, 1.0))


def measured(busbw=100e9, case=CASE, status="ok", time_s=1e-3):
    summary = Summary("device", time_s, time_s, time_s, time_s, time_s, 9, busbw, busbw)
    checked = WRONG if status == "wrong" else RIGHT
    return CaseResult(0, case, status, summary=summary, verification=checked)


def launch_bound(call_s, device_s):
    """A case whose calls cost more than the devices need."""
    found = measured(time_s=call_s)
    summary = measured(time_s=device_s).summary
    return replace(found, device=DeviceTime(Samples([], [], [], 1), summary))


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


def judged(threshold, *journals, baseline=None, run="all_reduce", **options):
    wanted = command(threshold, run, repeats=len(journals), **options)
    return judge(wanted, [CommandRun(0, one) for one in journals], baseline)


def ended(code, found=None, message="", threshold="", run="all_reduce", **how):
    """The verdicts on a run that ended otherwise."""
    return judge(command(threshold, run), [CommandRun(code, found, message, **how)], None)


def changed(made, **fields):
    for name, value in fields.items():
        setattr(made, name, value)
    return made


IN_PLACE = replace(CASE, in_place=True)
OF_PAIR = measured(90e9, replace(CASE, pair=(0, 2)))
FIRST_PAIR = journal(measured(case=replace(CASE, pair=(0, 1))))
SKIPPED = CaseResult(0, replace(CASE, dtype="int8"), "skipped", "no int8 here")
NVLINK, PCIE = Link(0, "NVLink", 18, 25e9), Link(0, "PCIe", 16, 4e9)
NV4 = [Relation(0, 2, "NV4", 1, 100e9), Relation(2, 0, "NV4", 1, 100e9)]
NV = [Relation(0, 1, "NV", 1, 20e9), Relation(1, 0, "NV", 1, 20e9)]
BOTH_WAYS = ((0, 1), (1, 0))
COPIES = journal(copied([10e9]), copied([20e9], ((1, 0),)), copied(2e-6, measure="latency"))
# 1 MiB between three ranks is rounded down to parts of whole 16 bytes.
GATHERED = journal(measured(1e9, Case("all_gather", "shm", 3, "float32", 1048560, 87380, False)))
MIXED = journal(measured(0.0, Case("barrier", "shm", 3, "float32", 0, 0, False)), measured())
TO_HOST = {"host_memory": "pinned", "numa": "near"}
HOST = journal(
    copied([10e9], ((0, 0),), "host", to_host=True, **TO_HOST),
    copied([5e9], ((0, 0),), "host", to_host=False, **TO_HOST),
)
LEAST = 'busbw_at_least = "1 B/s"'
OF_BASELINE = 'busbw_at_least = "0.95 of baseline"'
OF_LIMIT = 'busbw_at_least = "0.2 of limit"'
AT_1M = f'size = "1M"\n{LEAST}'


def of_call(timing, before_s):
    """Of an older baseline, which has no device times, the cost of a call."""
    was = launch_bound(9e-6, before_s) if timing == "auto" else measured(time_s=before_s)
    run = timed_by("auto", launch_bound(9e-6, 6.5e-6))
    return judged('time_at_most = "1.05 of baseline"', run, baseline=timed_by(timing, was))


CHECK = Check("barrier", "gloo")
VERDICTS = {
    # The bound itself passes, and what is beyond it fails.
    **{
        threshold: judged(threshold, journal(measured()))
        for threshold in (
            *('busbw_at_least = "100 GB/s"', 'busbw_at_least = "100.0001 GB/s"'),
            *('algbw_at_least = "100 GB/s"', 'time_at_most = "1 ms"'),
            'time_at_most = "999.999 us"',
        )
    },
    "the longest time": judged(
        'time_at_most = "2 ms"', *(journal(measured(time_s=one)) for one in (1e-3, 5e-3, 2e-3))
    ),
    **{
        f"no number, {threshold}": judged(
            threshold, *[journal(measured())] * 2, journal(measured(math.nan, time_s=math.nan))
        )
        for threshold in (LEAST, 'time_at_most = "99 s"')
    },
    "limit of links": judged(OF_LIMIT, journal(measured(), links=[NVLINK, PCIE])),
    "limit of a pair": judged(
        'pair = "2-0"\nbusbw_at_least = "0.9 of limit"',
        journal(OF_PAIR, links=[NVLINK], relations=NV4),
        run="pairs",
    ),
    "no limit": judged(OF_LIMIT, journal(measured())),
    "baseline": judged(
        OF_BASELINE,
        journal(measured(96e9), measured(180e9, IN_PLACE)),
        baseline=journal(measured(100e9), measured(200e9, IN_PLACE)),
    ),
    **{
        f"baseline {name}": judged(OF_BASELINE, journal(measured()), baseline=journal(*held))
        for name, held in (("absent", []), ("wrong", [measured(status="wrong")]))
    },
    "no case": judged(f'dtype = "int8"\n{LEAST}', journal(measured())),
    **{
        f"one pair lacks, exit code {code}": judge(
            command(f'pair = ["0-1", "1-2"]\n{LEAST}', "pairs"),
            [CommandRun(code, FIRST_PAIR)],
            None,
        )
        for code in (0, 4)
    },
    "sizes": judged(AT_1M, GATHERED, run="all_gather"),
    "barrier": judged(LEAST, MIXED, run="collectives"),
    "one skipped": judged(LEAST, journal(measured(), SKIPPED)),
    "all skipped, optional": judged(LEAST, journal(SKIPPED), optional=True),
    "wrong": judged(LEAST, journal(measured(status="wrong"))),
    "not checked": judged("", journal(measured(), check=0)),
    **{
        f"check {status}": judged(
            "", journal(CheckResult(0, CHECK, status, "rank 1: hm")), run="torch check"
        )
        for status in ("unsupported", "failed")
    },
    **{
        f"copies, {threshold}": judged(threshold, COPIES, run="p2p")
        for threshold in (
            *('bandwidth_at_least = "15 GB/s"', 'pair = "1-0"\nbandwidth_at_least = "15 GB/s"'),
            *('latency_at_most = "2 us"', 'latency_at_most = "1.9 us"'),
        )
    },
    "the sum of both ways": judged(
        'bandwidth_at_least = "0.5 of limit"',
        journal(copied([10e9, 12e9], BOTH_WAYS, measure="bidirectional"), relations=NV),
        run="p2p",
    ),
    "each flow of a round": judged(
        'bandwidth_at_least = "0.55 of limit"',
        journal(copied([10e9, 12e9], BOTH_WAYS, scope="all-pairs"), relations=NV),
        run="p2p",
    ),
    "from host": judged('to_host = false\nbandwidth_at_least = "10 GB/s"', HOST, run="p2p"),
    "exit code 3": ended(3, None, "no driver"),
    "exit code 4": ended(4, journal(), "rank 1 died"),
    "signal": ended(-9, journal()),
    "traceback": ended(1, None, "Traceback"),
    "no journal": ended(0),
    "time-out": ended(143, journal(), timed_out=True),
    "interrupted": ended(130, journal(), interrupted=True),
    "damaged": ended(0, changed(journal(measured()), damaged_lines=1)),
    "cut": ended(0, changed(journal(measured()), footer=None)),
    # What was measured before a rank died is judged, and the rest skipped.
    "died": ended(4, journal(measured(), exit_code=4), "rank 1 died", AT_1M),
    "not begun": judge(command(LEAST, repeats=3), [], None),
    # Calls cost what the process that launches them costs; the devices are to be accepted.
    "device time": judged('time_at_most = "6 us"', timed_by("auto", launch_bound(9e-6, 5.7e-6))),
    "baseline of devices": of_call("auto", 5.7e-6),
    "baseline of calls": of_call("throughput", 9e-6),
}


def test_verdicts():
    require_golden("verdicts.txt", outline(VERDICTS))


@given(
    st.lists(st.floats(min_value=1.0, max_value=1e12), min_size=1, max_size=7),
    st.floats(min_value=1.0, max_value=1e12),
)
def test_the_median_decides_and_the_worst_is_told(values, bound):
    threshold = f'busbw_at_least = "{bound:.17g} B/s"'
    *_, verdict = judged(threshold, *(journal(measured(value)) for value in values))
    (judgement,) = verdict.judgements
    ordered = sorted(values)
    middle = (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2
    assert judgement.value == pytest.approx(middle)
    assert judgement.worst == ordered[0]
    assert judgement.passed == (judgement.value >= bound)
    assert (verdict.status == "pass") == judgement.passed


def within(half_width, result):
    """A result whose time is known to this share."""
    result.summary.half_width = half_width
    return result


TOGETHER = within(0.01, copied([10e9, 20e9], ((0, 1), (2, 1)), "all-to-one"))
# A bound that another run may cross is not certain, although the median decides.
UNCERTAIN = {
    **{
        f"runs {runs}": judged(
            'busbw_at_least = "90 GB/s"',
            *(journal(within(half_width, measured(rate))) for rate, half_width in runs),
        )
        for runs in (
            *([(91e9, 0.02)], [(89e9, 0.02)], [(88e9, 0.02)]),
            # Half a width of a time: the bandwidth is up to twice as high.
            *([(50e9, 0.5)], [(10e9, 1.5)]),
            *([(100e9, None)], [(100e9, math.nan)]),  # too few samples for an interval
            [(100e9, 0.0), (96e9, None), (89e9, 0.0)],
            [(100e9, 0.02), (96e9, 0.01), (93e9, None)],
        )
    },
    "times": judged(
        'time_at_most = "1020 us"',
        journal(
            within(0.03, measured(time_s=1e-3)),
            within(0.03, measured(case=IN_PLACE, time_s=1.01e-3)),
        ),
    ),
    **{
        f"baseline within {width}": judged(
            OF_BASELINE,
            journal(within(0.01, measured(100e9))),
            baseline=journal(within(width, measured(100e9))),
        )
        for width in (0.01, 0.06, None)
    },
    # Several concurrent flows have no separate intervals.
    "flows": judged(
        'bandwidth_at_least = "1 GB/s"',
        journal(TOGETHER, within(0.01, copied([10e9]))),
        run="p2p",
    ),
}


def test_how_certain_verdicts_are():
    found = {name: [verdicts[-1], details(verdicts[-1])] for name, verdicts in UNCERTAIN.items()}
    require_golden("uncertain_verdicts.txt", outline(found))


def test_the_suites_exit_code_is_the_one_that_says_most():
    for codes, expected in (
        *(([0, 0], 0), ([0, 1], 1), ([3, 1], 1), ([2, 1], 1), ([1, 4], 4), ([3, 2], 2)),
        ([0, 3], 3),
    ):
        tests = [Verdict("x", "fail" if code else "pass", exit_code=code) for code in codes]
        commands = [CommandVerdict("c", [], [], 1, 1.0, [], tests)]
        assert suite_exit_code(commands, interrupted=False) == expected
        assert suite_exit_code(commands, interrupted=True) == 130
    # A suite of which nothing could be tried is not passed.
    skipped = [CommandVerdict("c", [], [], 1, 1.0, [], [Verdict("ran", "skipped")])]
    assert suite_exit_code(skipped, interrupted=False) == 3
