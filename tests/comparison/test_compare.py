import itertools
import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.analysis.ratio import ratio_estimate
from cclmark.analysis.run_noise import RunNoise, class_of, run_noise
from cclmark.base.statistics import median_half_width, student_975
from cclmark.comparison.figures import Side, bands, compare, joint_estimate
from cclmark.comparison.words import Comparison, comparison_json, judge, noise_said
from cclmark.journal.schema import HostDescription
from cclmark.kinds.registry import read_journal
from examples import exhaustive
from places import RUNS

FIRST = read_journal(RUNS / "default-1.jsonl")  # not to be changed
NOISE = RunNoise(0.006, short_share=0.2, short_up_to_s=16e-6)
TIMES = st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(1e-9, 1e-2)), min_size=1, max_size=6)


def side(*names):
    return Side(names[0], [read_journal(RUNS / f"{name}.jsonl") for name in names])


def default(*numbers):
    return side(*(f"default-{number}" for number in numbers))


def verdicts(found):
    return {one.verdict for one in found}


def test_students_t_against_known_values():
    known = {1: 12.706, 2: 4.303, 10: 2.228, 20: 2.086, 21: 2.0796, 30: 2.042, 120: 1.980}
    for freedom, value in known.items():
        assert student_975(freedom) == pytest.approx(value, abs=6e-4)
    with pytest.raises(ValueError, match="no degrees"):
        student_975(0)


@given(TIMES, TIMES)
def test_the_other_way_round_everything_is_inverted(before, after):
    one = ratio_estimate(before, after, (NOISE, NOISE))
    other = ratio_estimate(after, before, (NOISE, NOISE))
    assert one.low <= one.ratio <= one.high
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.chance == pytest.approx(one.chance)
    # Where the reach leaves the numbers there are, both ends are 0 or inf.
    if one.low > 0 and one.high < math.inf:
        assert other.low == pytest.approx(1 / one.high)
        assert other.high == pytest.approx(1 / one.low)
    assert one.assumed == other.assumed == (min(len(before), len(after)) < 3)
    opposite = {"slower": "faster", "faster": "slower"}
    verdict = one.verdict(0.05)
    assert other.verdict(0.05) == opposite.get(verdict, verdict)


def times_of(journal, *times_s):
    """Runs like that one, in which every case takes so long."""
    return [
        type(journal)(
            replace(journal.header, run_id=str(number)),
            [replace(one, summary=replace(one.summary, time_s=time_s)) for one in journal.results],
        )
        for number, time_s in enumerate(times_s)
    ]


def with_header(journal, **fields):
    return type(journal)(replace(journal.header, **fields), journal.results)


A100 = with_header(
    FIRST, devices=[replace(one, name="NVIDIA A100-SXM4-80GB") for one in FIRST.header.devices]
)
TWO_HOSTS = [HostDescription(FIRST.header.machine, name, {}) for name in ("a", "b")]


@pytest.mark.parametrize(
    "journal",
    [A100, with_header(FIRST, hosts=TWO_HOSTS)],
    ids=["A100", "two hosts"],
)
def test_a_machine_of_unknown_noise_is_judged_by_three_runs_of_each_alone(journal):
    """The assumed noise was measured on H200 of one host, and holds there alone."""
    quick, slow = [10e-6, 10.1e-6, 9.9e-6], [20e-6, 20.2e-6, 19.8e-6]

    def of(number, quick=quick):
        return compare(
            Side("a", times_of(journal, *quick[:number])),
            Side("b", times_of(journal, *slow[:number])),
        )

    for number, more in ((1, "2 more runs"), (2, "1 more run")):
        found = of(number, [10e-6] * 2)
        assert {one.reason for one in found} == {
            f"the noise between runs is unknown for this machine: {more} of each side measure it"
        }
        assert not any(one.judged for one in found)
        # The samples give the least interval.
        assert all(one.least.low < one.ratio < one.least.high for one in found)
        assert min(one.least.high / one.least.low for one in found) > 1
        outcome = judge(found, bands(found), 0.05)
        assert (outcome.slower, outcome.runs_needed) == ([], 3)
    assert verdicts(of(3)) == {"slower"}


def test_the_own_noise_of_a_machine_is_used():
    def sides(own_noise):
        return (
            Side("a", times_of(A100, 10e-6), own_noise=own_noise),
            Side("b", times_of(A100, 20e-6), own_noise=own_noise),
        )

    def of(deviation, freedom):
        found = {class_of(one.case, device=False) for one in A100.results}
        return lambda _: dict.fromkeys(found, RunNoise(deviation, freedom=freedom))

    quiet, noisy, few = of(0.01, 9), of(0.4, 9), of(0.05, 2)
    assert verdicts(compare(*sides(quiet))) == {"slower"}
    assert verdicts(compare(*sides(noisy))) == {"inconclusive"}
    # Three runs measure it badly: Student's t with two degrees of freedom, not the normal one.
    assert all(one.low < 2 * math.exp(-4.3 * math.sqrt(2) * 0.05) for one in compare(*sides(few)))
    found = compare(*sides(quiet))
    assert all(one.estimate.by_history and not one.assumed for one in found)
    text = noise_said(Comparison(*sides(quiet), [], found))
    assert text.startswith("of this machine, measured by the runs in its history; three runs")
    entry = json.loads(comparison_json([Comparison(*sides(quiet), [], found)]))[0]
    assert {one["noise"] for one in entry["cases"]} == {"history"}
    assert verdicts(bands(found)) == {"slower"}
    assert all(one.estimate.by_history for one in bands(found))


@pytest.mark.simulated
@pytest.mark.parametrize("runs", [1, 3, 8])
def test_repeated_runs_of_a_simulation_are_rarely_called_different(runs):
    """Runs that differ by a level of their own, with samples that scatter within it."""
    draw = random.Random(runs)

    def a_run():
        level_s = 20e-6 * math.exp(draw.gauss(0, 0.03))
        times_s = [level_s * math.exp(draw.gauss(0, 0.05)) for _ in range(25)]
        half_width = median_half_width(times_s)
        return sorted(times_s)[12], (half_width / 1.96) ** 2

    trials = 1500
    alarms = 0
    for _ in range(trials):
        before, after = ([a_run() for _ in range(runs)] for _ in range(2))
        found = ratio_estimate(before, after, (RunNoise(0.03), RunNoise(0.03)))
        alarms += found.verdict(0.05) in ("slower", "faster")
    # 5 % and three standard deviations of such a count.
    assert alarms / trials < 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_without_an_interval_of_either_nothing_is_said():
    assert ratio_estimate([(1e-5, None)], [(1e-5, 1e-6)], (NOISE, NOISE)) is None
    assert ratio_estimate([(1e-5, 1e-6)], [(1e-5, 1e-6)], (NOISE, None)) is None
    # Enough runs tell without it.
    assert ratio_estimate([(1e-5, None)] * 3, [(2e-5, None)] * 3).low > 1


def test_the_noise_of_what_is_timed_one_by_one_and_of_torch_is_its_own():
    case = FIRST.results[0].case
    of_torch = replace(case, ccl="torch:nccl")
    exchange = replace(case, operation="alltoall")

    def deviation(thing, timing, time_s):
        return math.sqrt(run_noise(thing, timing).variance(time_s))

    assert deviation(case, "throughput", 10e-6) == pytest.approx(0.2)
    assert deviation(case, "throughput", 40e-6) == pytest.approx(0.006)
    assert deviation(of_torch, "throughput", 40e-6) == pytest.approx(0.2)
    assert deviation(exchange, "throughput", 40e-6) == pytest.approx(0.025)
    apart = run_noise(of_torch, "blocking", "library").variance(40e-6)
    assert math.sqrt(apart) == pytest.approx(0.25, rel=0.01)
    assert deviation(case, "blocking", 20e-6) == pytest.approx(math.hypot(0.05, 0.02))
    assert deviation(of_torch, "blocking", 50e-6) == pytest.approx(math.hypot(0.1, 0.02))


def test_a_setting_is_called_different_where_it_costs():
    for before in (default(1), default(1, 2, 3)):
        assert verdicts(compare(before, side("buff8"))) == {"no difference", "inconclusive"}
    found = compare(default(1), side("ctas8"))
    slower = {one.size_bytes for one in found if one.verdict == "slower"}
    assert slower == {1 << 21, 1 << 23, 1 << 25, 1 << 27}
    assert verdicts(found) == {"slower", "inconclusive"}
    large = next(band for band in bands(found) if band.name == "above 1 MiB")
    assert large.ratio == pytest.approx(1.83, abs=0.01)
    assert large.count == 8


@pytest.mark.parametrize(
    ("before", "after", "most"),
    [
        ("default-1", "default-2", 0),
        ("default-1 default-2", "default-3 default-4", 0),
        (
            "default-5 default-6 default-7 default-8",
            *("default-1 default-2 default-3 default-4", 2),
        ),
        # Of every operation, again and again, in two series: 169 cases.
        ("collectives/b-1 collectives/b-2", "collectives/b-3 collectives/b-4", 13),
        ("collectives/a-1 collectives/b-1", "collectives/a-2 collectives/b-2", 13),
        (
            "collectives/a-1 collectives/b-1 collectives/a-3",
            *("collectives/b-2 collectives/a-2 collectives/b-3", 13),
        ),
    ],
)
def test_repeated_runs_are_rarely_called_different(before, after, most):
    """Where noise is measured one in twenty may be."""
    found = compare(side(*before.split()), side(*after.split()))
    assert len(found) == (169 if "/" in before else 26)
    assert sum(one.differs for one in found) <= most


def sides_of(most):
    """At most so many equal runs of each of two processes."""
    names = [*(f"a-{i}" for i in range(1, 6)), *(f"b-{i}" for i in range(1, 7))]
    return [side(f"collectives/{name}") for name in names if int(name[2:]) <= most]


@pytest.mark.simulated
@pytest.mark.parametrize("most", [3, exhaustive(6)])
def test_no_pair_of_equal_runs_fails_the_gate(most):
    """Before, 45 of 110 pairs failed at 5 %: launches of exchanges in place set up to 24 µs."""
    pairs = [*itertools.permutations(sides_of(most), 2)]
    failed = 0
    for first, second in pairs:
        found = compare(first, second, 0.05)
        outcome = judge(found, bands(found, 0.05), 0.05)
        failed += bool(outcome.slower or outcome.slower_bands)
    assert failed <= 0.05 * len(pairs)


def test_one_library_is_compared_with_another_and_several_with_themselves():
    rccl = read_journal(RUNS / "default-2.jsonl")
    for result in rccl.results:
        result.case = replace(result.case, ccl="rccl")
    found = compare(default(1), Side("rccl", [rccl]))
    assert len(found) == 26
    assert not any(one.differs for one in found)
    assert all(one.judged for one in found)
    both = type(FIRST)(FIRST.header, [*FIRST.results, *rccl.results])
    found = compare(default(3), Side("both", [both]))
    assert sum(one.judged for one in found) == 26
    assert {one.reason for one in found if one.thing.ccl == "rccl"} == {"not measured before"}


def large(*numbers, ratio=1.0):
    """Runs of the 8 cases above 1 MiB, which take ``ratio`` times as long but the first."""
    runs = []
    for number in numbers:
        run = read_journal(RUNS / f"default-{number}.jsonl")
        run.results = [one for one in run.results if one.case.size_bytes > 1 << 20]
        for one in run.results[1:]:
            one.summary.time_s *= ratio
        runs.append(run)
    return runs


# A band compares the same runs in all of its cases.


def test_a_run_that_ended_early_hides_no_slower_cases():
    after = large(4, 5, 6, ratio=1.5)
    after[2].results = after[2].results[:1]
    (band,) = bands(compare(Side("a", large(1, 2, 3)), Side("b", after)))
    assert (band.count, band.all_count, band.verdict) == (8, 8, "slower")
    assert band.ratio > 1.4


def test_without_a_shared_run_there_is_no_verdict():
    before, after = large(1, 2), large(4, ratio=1.5)
    half = len(before[0].results) // 2
    del before[0].results[:half]
    del before[1].results[half:]
    (band,) = bands(compare(Side("a", before), Side("b", after)))
    assert (band.verdict, band.estimate) == ("noise unknown", None)
    assert joint_estimate([]) is None
