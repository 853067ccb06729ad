"""Change points and ratios: how often noise is reported as a change, and changes found."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.analysis import paired
from cclmark.analysis.change import FALSE_SHARE, LEAST_POINTS
from cclmark.analysis.change import changes as changes_with
from cclmark.analysis.paired import CONTROL, DEFAULT, paired_ratio
from cclmark.analysis.ratio import RatioEstimate
from cclmark.analysis.run_noise import SHARED_PART, RunNoise
from cclmark.base.statistics import student_tails

LARGE_S = 600e-6  # where a share of the time is what differs from run to run
SMALL_S = 9e-6  # where a launch is
NOISE = RunNoise(0.006, short_share=0.2, short_up_to_s=16e-6)
SAMPLES = 0.002  # standard deviation of a median by its samples, as a share


def changes(all_series):
    return changes_with(all_series, [NOISE] * len(all_series))


def series(draw, runs, noise, *, base_s=LARGE_S, levels=()):
    """``levels``: from which run on the time is which multiple of ``base_s``."""
    found = []
    for run in range(runs):
        level = next((ratio for first, ratio in reversed(levels) if run >= first), 1.0)
        log = math.log(base_s * level) + noise(draw) + draw.gauss(0, SAMPLES)
        found.append((math.exp(log), SAMPLES**2))
    return found


def normal(deviation):
    return lambda draw: draw.gauss(0, deviation)


def heavy(deviation):
    """Student's t with three degrees of freedom."""

    def one(draw):
        squares = sum(draw.gauss(0, 1) ** 2 for _ in range(3))
        return deviation * draw.gauss(0, 1) / math.sqrt(squares / 3)

    return one


def two_levels(distance):
    """What a process keeps that began with one of two levels of launches."""
    return lambda draw: distance * draw.choice((0, 1))


def alarms(trials, runs, noise, base_s=LARGE_S):
    """The share of series without a change in which one is told."""
    draw = random.Random(runs)
    told = [changes([series(draw, runs, noise, base_s=base_s)])[0] for _ in range(trials)]
    return sum(map(bool, told)) / trials


@pytest.mark.simulated
@pytest.mark.parametrize("runs", [6, 12, 30, 100])
@pytest.mark.parametrize("noise", [normal(0.003), normal(0.05), heavy(0.01)])
def test_noise_is_rarely_told_as_a_change(runs, noise):
    """The bound is 1 %; four standard errors of the trials are let pass."""
    trials = 200 if runs == 100 else 1000
    allowed = FALSE_SHARE + 4 * math.sqrt(FALSE_SHARE * (1 - FALSE_SHARE) / trials)
    assert alarms(trials, runs, noise) <= allowed


@pytest.mark.simulated
@pytest.mark.parametrize("runs", [6, 8, 12, 30])
def test_two_levels_of_launches_are_no_change_most_of_the_time(runs):
    """Runs alike by luck: some percent of such series."""
    assert alarms(1000, runs, two_levels(0.19), SMALL_S) <= 0.05


@pytest.mark.simulated
@pytest.mark.parametrize(("deviation", "least"), [(0.003, 0.99), (0.01, 0.75)])
@pytest.mark.parametrize(
    ("runs", "place"), [(6, 3), (8, 4), (12, 6), (20, 17), (50, 25), (100, 96)]
)
def test_a_step_of_five_percent_is_found(runs, place, deviation, least):
    draw = random.Random(place)
    found = 0
    for _ in range(100):
        (told,) = changes([series(draw, runs, normal(deviation), levels=[(place, 1.05)])])
        found += any(abs(one.place - place) <= 1 for one in told)
    assert found >= 100 * least


def test_a_step_has_its_size_in_its_interval():
    draw = random.Random(1)
    inside = 0
    for _ in range(200):
        ((told,),) = changes([series(draw, 30, normal(0.003), levels=[(15, 1.05)])])
        assert told.place == 15
        assert told.chance <= FALSE_SHARE
        inside += told.low <= 1.05 <= told.high
    assert inside >= 180


@pytest.mark.parametrize(
    ("runs", "levels", "ratios", "outlier"),
    [
        (60, [(30, 1.05), (37, 1.0)], [1.05, 1 / 1.05], None),
        (50, [(10, 1.1), (20, 1.3), (35, 0.9)], [1.1, 1.3 / 1.1, 0.9 / 1.3], None),
        (26, [(6, 1.05), (10, 1.0)], [1.05, 1 / 1.05], 18),
    ],
    ids=["taken back", "several steps", "taken back, and one run that stands out"],
)
def test_several_changes_are_told_in_their_order(runs, levels, ratios, outlier):
    points = series(random.Random(2), runs, normal(0.005), levels=levels)
    if outlier is not None:
        points[outlier] = (points[outlier][0] * 2.2, SAMPLES**2)
    (told,) = changes([points])
    assert [one.place for one in told] == [place for place, _ in levels]
    assert [one.ratio for one in told] == pytest.approx(ratios, rel=0.01)


def test_one_run_that_stands_out_is_no_change():
    draw = random.Random(4)
    for place in range(12):
        points = series(draw, 12, normal(0.003))
        points[place] = (points[place][0] * 3, SAMPLES**2)
        assert changes([points]) == [[]]


@pytest.mark.parametrize("ratio", [1.05, 1.2])
@pytest.mark.parametrize("places", [(3,), (14, 15), (2, 17), (19,), (9,), (10,)])
@pytest.mark.parametrize("outlier", [1.7, 0.5])
def test_runs_that_stand_out_hide_no_change_and_do_not_count_in_it(ratio, places, outlier):
    draw = random.Random(9)
    points = series(draw, 20, normal(0.003), levels=[(10, ratio)])
    for place in places:
        points[place] = (points[place][0] * outlier, SAMPLES**2)
    ((told,),) = changes([points])
    first = 11 if places == (10,) else 10
    assert (told.place, told.last) == (first, 8 if places == (9,) else 9)
    assert told.ratio == pytest.approx(ratio, rel=0.005)
    assert told.low <= ratio * 1.003
    assert told.high >= ratio * 0.997
    assert told.after_s / told.before_s == pytest.approx(told.ratio)


def test_of_processors_a_level_takes_more_runs():
    """Nobody knows what they differ by: three alike and three others may be luck."""
    draw = random.Random(11)
    few = series(draw, 8, normal(0.003), levels=[(4, 1.3)])
    many = series(draw, 12, normal(0.003), levels=[(6, 1.3)])
    found = changes_with([few, many], [None, None])
    assert [len(one) for one in found] == [0, 1]


def test_many_series_share_the_bound():
    """Of 2,000 series without a change hardly one is told of, and one that changed is found."""
    draw = random.Random(5)
    quiet = [series(draw, 20, normal(0.005)) for _ in range(2000)]
    changed = series(draw, 20, normal(0.005), levels=[(10, 1.05)])
    *still, last = changes([*quiet, changed])
    assert [one.place for one in last] == [10]
    assert sum(map(bool, still)) <= 1


@pytest.mark.simulated
@pytest.mark.parametrize("shared", [SHARED_PART, 0.95])
@pytest.mark.parametrize("runs", [8, 11])
def test_series_that_share_the_noise_of_their_runs_are_rarely_reported(runs, shared):
    """As methodology.md says: whole histories of equal runs, at most 1 % of their series."""
    draw = random.Random(runs)
    trials, number = 30, 60
    told = 0
    own = math.hypot(0.01 * math.sqrt(1 - shared), SAMPLES)
    for _ in range(trials):
        levels_s = [
            LARGE_S * math.exp(draw.gauss(0, 0.01 * math.sqrt(shared))) for _ in range(runs)
        ]
        histories = [
            [(level_s * math.exp(draw.gauss(0, own)), SAMPLES**2) for level_s in levels_s]
            for _ in range(number)
        ]
        told += sum(map(bool, changes_with(histories, [RunNoise(0.01)] * number)))
    assert told <= FALSE_SHARE * trials * number


def test_a_change_below_the_threshold_is_not_reported():
    draw = random.Random(12)
    points = series(draw, 20, normal(0.001), levels=[(10, 1.015)])
    assert changes_with([points], [NOISE]) == [[]]
    ((one,),) = changes_with([points], [NOISE], 0.01)
    assert one.ratio == pytest.approx(1.015, abs=0.002)
    assert changes([series(draw, 100, normal(0.001), levels=[(50, 1.004)])]) == [[]]


def test_too_few_runs_have_no_change_and_others_also_without_any_noise():
    """A clock of few steps, and nothing known of samples."""
    points = [(1e-3, None)] * 4 + [(2e-3, None)] * 4
    few = points[2:7]
    assert len(few) == LEAST_POINTS - 1
    assert changes([few, [], few[:1], points[:1] * 50]) == [[]] * 4
    assert changes([]) == []
    ((one,),) = changes([points])
    assert (one.place, one.ratio) == (4, pytest.approx(2))


TIMES = st.floats(1e-9, 1e3)
POINTS = st.lists(st.tuples(TIMES, st.none() | st.floats(0, 1)), max_size=60)


@given(st.lists(POINTS, max_size=4))
def test_whatever_the_times_are(all_series):
    found = changes(all_series)
    assert len(found) == len(all_series)
    for points, told in zip(all_series, found, strict=True):
        places = [one.place for one in told]
        assert places == sorted(set(places))
        assert all(3 <= place <= len(points) - 3 for place in places)
        assert all(one.low <= one.ratio <= one.high for one in told)


@pytest.mark.parametrize(
    ("t", "freedom", "known"),
    [
        (2.2281, 10, 0.05),
        (3.1693, 10, 0.01),
        (1.0, 5, 0.363217),
        (0.0, 7, 1.0),
        (4.891638, 10**6, 1e-6),
    ],
)
def test_tails_of_students_t(t, freedom, known):
    assert student_tails(t, freedom) == pytest.approx(known, rel=2e-4)


@pytest.mark.parametrize(("kept", "least", "most"), [(0.3, 0.0, 0.05), (0.6, 0.03, 0.2)])
def test_runs_that_depend_on_each_other_are_told_more_often(kept, least, most):
    """The limit that docs/methodology.md states: whoever changes it changes that page."""
    chance = random.Random(8)
    told, number = 0, 200
    for _ in range(number):
        log = chance.gauss(0, 0.01)
        points = []
        for _ in range(20):
            log = kept * log + math.sqrt(1 - kept**2) * chance.gauss(0, 0.01)
            points.append((600e-6 * math.exp(log), (0.004 / 1.96) ** 2))
        told += bool(changes([points])[0])
    assert least <= told / number <= most


# Ratios of paired rounds: robust against outliers and drift, no gain out of noise.


def test_the_ratio_is_the_trimmed_mean_of_logarithms():
    found = paired_ratio([[math.log(0.9)] * 6 + [math.log(3)]])
    assert found.ratio == pytest.approx(0.9)
    assert found.runs == 7
    assert found.freedom == 4  # seven values, one discarded at each end


def test_the_deviation_of_yuen():
    """By hand: 1 to 7 winsorized are 2, 2, 3, 4, 5, 6, 6, whose squares around 4 sum to 18."""
    found = paired_ratio([[1.0, 2, 3, 4, 5, 6, 7]])
    assert found.difference == pytest.approx(4)
    assert found.deviation == pytest.approx(math.sqrt(18 / (5 * 4)))


def test_sizes_of_a_round_are_not_independent():
    """A second size that repeats the first adds no certainty; an independent one does."""
    draw = random.Random(1)
    one, other = ([draw.gauss(-0.1, 0.01) for _ in range(30)] for _ in range(2))
    assert paired_ratio([one, one]).deviation == pytest.approx(paired_ratio([one]).deviation)
    assert paired_ratio([one, other]).deviation < 0.85 * paired_ratio([one]).deviation


@pytest.mark.parametrize("sizes", [[], [[0.1]], [[0.1, 0.2], [0.1]]])
def test_rounds_that_are_not_paired_are_refused(sizes):
    with pytest.raises(ValueError, match="same rounds"):
        paired_ratio(sizes)


def test_only_rounds_with_both_times_count():
    times = [(2.0, 1.0), (None, 1.0), (2.0, None)]
    rounds = [{(DEFAULT, 0): default, (1, 0): variant} for default, variant in times]
    rounds.append({(DEFAULT, 0): 2.0})
    assert paired.log_ratios(rounds, (1, 0), (DEFAULT, 0)) == [math.log(0.5)]
    assert paired.log_ratio(rounds[0], (1, 0), (CONTROL, 0)) is None


def estimate(percent, deviation):
    return RatioEstimate(math.log1p(percent / 100), deviation / 100, 4, 0.0, 7)


CALM, UNSTEADY = estimate(0, 0.1), estimate(3, 0.1)


@pytest.mark.parametrize(
    ("ratio", "control", "more", "is_gain"),
    [
        (estimate(-5, 0.5), CALM, (), True),
        (estimate(5, 0.5), CALM, (), False),
        # The border of a certain one.
        (estimate(-1, 0.5), CALM, (), False),
        (estimate(-1.1, 0.5), CALM, (), True),
        (estimate(-1.1, 0.5), CALM, (0.01,), False),
        # The default differs from itself by 3 % though its rounds agree.
        (estimate(-2.9, 0.1), UNSTEADY, (), False),
        (estimate(-3.5, 0.1), UNSTEADY, (), True),
        # Rounds that agree by chance, on the faster of two levels, are as uncertain as the control.
        (estimate(-19, 0.01), CALM, (), True),
        (estimate(-19, 0.01), estimate(0.5, 8), (), False),
    ],
)
def test_a_clear_gain_beyond_the_noise_floor_improves(ratio, control, more, is_gain):
    assert paired.improves(ratio, control, *more) == is_gain


def test_the_chance_of_a_loss_and_the_noise_floor():
    assert paired.chance_of_gain(estimate(5, 0.5)) > 0.99
    assert paired.chance_of_gain(estimate(-1, 0.5)) > 0.05
    assert paired.noise_floor(UNSTEADY) == pytest.approx(math.log(1.03) + 2.7764 * 0.001)
