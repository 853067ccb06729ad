import dataclasses
import math
import random

import pytest

from cclmark.analysis.ratio import LEAST_RUNS, MOST_RUNS, RatioEstimate
from cclmark.analysis.run_noise import LAUNCH_SHARE, SHARE_OF_DEVICE_TIMES, SHARED_PART, RunNoise
from cclmark.comparison import figures
from cclmark.comparison.figures import Compared, ComparedTimes, joint_estimate
from cclmark.comparison.words import FALSE_SHARE, judge

DEVICE = RunNoise(SHARE_OF_DEVICE_TIMES)
SAMPLES = 0.002  # standard deviation of a median by its samples, as a share
A_CASE = ComparedTimes([(1e-5, 1e-8)], [(1e-5, 1e-8)], (DEVICE, DEVICE))


def a_run(draw, cases, *, ratio=1.0, deviation=SHARE_OF_DEVICE_TIMES, time_s=5e-6):
    """Points of a run: SHARED_PART of the variance is common to all its cases."""
    level = draw.gauss(0, deviation * math.sqrt(SHARED_PART))
    own = deviation * math.sqrt(1 - SHARED_PART)
    return [
        (time_s * ratio * math.exp(level + draw.gauss(0, own) + draw.gauss(0, SAMPLES)), SAMPLES**2)
        for _ in range(cases)
    ]


def small_sizes(draw, ratio, *, runs=1, cases=14, noise=DEVICE, deviation=SHARE_OF_DEVICE_TIMES):
    """The figures of the cases of one band, measured by ``runs`` runs of each side."""
    before = [a_run(draw, cases, deviation=deviation) for _ in range(runs)]
    after = [a_run(draw, cases, ratio=ratio, deviation=deviation) for _ in range(runs)]
    return [
        ComparedTimes([run[case] for run in before], [run[case] for run in after], (noise, noise))
        for case in range(cases)
    ]


def judged(cases, margin):
    """The outcome of a gate over cases that make one band."""
    estimates = [(one, one.estimate()) for one in cases]
    found = [Compared(None, own.verdict(margin), one, own) for one, own in estimates]
    joint = joint_estimate(cases)
    count = len(cases)
    verdict = joint.verdict(margin)
    band = figures.Band("all_reduce", "small", count, count, joint.ratio, verdict, joint)
    return judge(found, [band], margin)


@pytest.mark.simulated
@pytest.mark.parametrize("runs", [1, 2, 3])
def test_five_percent_in_small_sizes_is_found_and_noise_is_not(runs):
    draw = random.Random(runs)
    trials = 400
    found = alarms = failed = 0
    for _ in range(trials):
        found += joint_estimate(small_sizes(draw, 1.05, runs=runs)).verdict(0.05) == "slower"
        equal = small_sizes(draw, 1.0, runs=runs)
        alarms += joint_estimate(equal).verdict(0.05) in ("slower", "faster")
        outcome = judged(equal, 0.05)
        failed += bool(outcome.slower or outcome.slower_bands)
    assert found >= 0.95 * trials
    # 5 % and three standard errors of such a count.
    assert alarms <= trials * 0.05 + 3 * math.sqrt(trials * 0.05 * 0.95)
    assert failed == 0


@pytest.mark.simulated
def test_a_gate_on_many_cases_of_equal_runs_rarely_fails():
    """As much noise as is assumed, and a margin far below it: 5 % of the runs at most."""
    draw = random.Random(5)
    trials = 300
    failed = 0
    for _ in range(trials):
        outcome = judged(small_sizes(draw, 1.0, cases=60), 0.001)
        failed += bool(outcome.slower or outcome.slower_bands)
    assert failed <= trials * 0.05 + 3 * math.sqrt(trials * 0.05 * 0.95)


def test_a_band_is_slower_where_each_of_its_cases_is_inconclusive():
    """Independent noise averages out; what the runs share does not."""
    points = [(10e-6, 1e-6)] * 20, [(10.6e-6, 1e-6)] * 20
    cases = [
        ComparedTimes([before], [after], (RunNoise(0.025), RunNoise(0.025)))
        for before, after in zip(*points, strict=True)
    ]
    assert {one.estimate().verdict(0.05) for one in cases} == {"inconclusive"}
    joint = joint_estimate(cases)
    deviation = 0.025 * math.sqrt(2 * (SHARED_PART + (1 - SHARED_PART) / 20) + 2e-6 / 20 / 0.025**2)
    assert joint.deviation == pytest.approx(deviation)
    assert joint.verdict(0.05) == "slower"
    assert len(judged(cases, 0.05).slower_bands) == 1


def test_runs_that_measure_noise_are_the_observations_of_a_band():
    """Their level is common to all cases: 20 cases of three runs are no 60 observations."""
    levels = (0.97, 1.0, 1.03)
    cases = [
        ComparedTimes(
            [(level * 1e-5, 1e-8) for level in levels],
            [(level * 1.03e-5, 1e-8) for level in levels],
            (None, None),
        )
    ] * 20
    joint = joint_estimate(cases)
    assert (joint.freedom, joint.verdict(0.05)) == (4, "inconclusive")
    assert joint.deviation == pytest.approx(cases[0].estimate().deviation)


def test_no_smaller_number_of_runs_is_enough():
    draw = random.Random(11)
    for _ in range(300):
        runs = draw.choice((1, 2, 3, 5, 20))
        variance = 10 ** draw.uniform(-7, -3)
        freedom = 2 * (runs - 1) if runs >= LEAST_RUNS else None
        one = RatioEstimate(
            draw.gauss(0, 0.05), math.sqrt(2 * variance / runs), freedom, variance, runs
        )
        assert dataclasses.replace(one, difference=0.5) == one.with_difference(0.5)
        assert dataclasses.replace(one, deviation=0.5, freedom=9) == one.with_deviation(0.5, 9)
        with_runs = {
            count: dataclasses.replace(
                one,
                deviation=math.sqrt(2 * variance / count),
                freedom=2 * (count - 1) if count >= LEAST_RUNS else None,
                runs=count,
            )
            for count in range(runs + 1, 200)
        }
        if one.low > 1 and one.ratio >= 1.05:
            enough = [n for n, more in with_runs.items() if more.has_at_most(FALSE_SHARE)]
        else:
            half = math.log1p(0.05) / 2
            reach = {n: math.log(more.high) - more.difference for n, more in with_runs.items()}
            narrow = math.log(one.high) - one.difference <= half
            allowed = abs(one.difference - 2 * half) if narrow else half
            enough = [n for n, own in reach.items() if own <= allowed]
        needed = one.runs_needed(0.05, FALSE_SHARE)
        assert (needed if needed and needed < 200 else None) == min(enough, default=None)


def test_an_impossible_number_of_runs_is_reported():
    launches = RatioEstimate(0.0, LAUNCH_SHARE * math.sqrt(2), None, LAUNCH_SHARE**2)
    assert 400 < launches.runs_needed(0.05, FALSE_SHARE) < 600
    assert launches.runs_needed(0.01, FALSE_SHARE) is None
    assert launches.runs_needed(0.0, FALSE_SHARE) is None
    near = RatioEstimate(math.log1p(0.0499), 0.001, None, 1e-6)
    needed = near.runs_needed(0.05, FALSE_SHARE)
    assert needed is None or needed > MOST_RUNS / 2


@pytest.mark.parametrize("given", [1, 4])
def test_a_case_that_many_cases_make_uncertain_needs_more_runs_than_there_are(given):
    """Significant by itself, and not among 500: what is said to be needed is enough for that."""
    variance = 0.02**2 if given < 3 else 0.01**2

    def estimates(runs):
        freedom = None if runs < 3 else 2 * (runs - 1)
        deviation = math.sqrt(2 * variance / runs)
        slow = RatioEstimate(0.06, deviation, freedom, variance, runs)
        equal = RatioEstimate(0.0, deviation / 1000, freedom, variance / 1e6, runs)
        return [slow] + [equal] * 499

    def outcome(runs):
        found = [Compared(None, one.verdict(0.05), A_CASE, one) for one in estimates(runs)]
        return judge(found, [], 0.05)

    first = outcome(given)
    assert estimates(given)[0].low > 1
    assert (len(first.slower), len(first.undecided)) == (0, 1)
    assert first.runs_needed > given
    assert len(outcome(first.runs_needed).slower) == 1
    assert len(outcome(first.runs_needed - 1).slower) == 0
