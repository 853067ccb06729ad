"""Ratios of paired rounds: robust against outliers and drift, no gain out of noise."""

import math
import random

import pytest

from cclmark.analysis import paired
from cclmark.analysis.paired import CONTROL, DEFAULT, paired_ratio
from cclmark.analysis.ratio import RatioEstimate


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


def test_a_drift_cancels():
    """Times rise by 2 % from round to round, much more than the gain of 3 %."""
    draw = random.Random(2)
    logs = []
    for number in range(7):
        default, variant = (1.02**number * math.exp(draw.gauss(0, 0.002)) for _ in range(2))
        logs.append(math.log(0.97 * variant / default))
    assert paired_ratio([logs]).ratio == pytest.approx(0.97, abs=0.005)


def estimate(percent, deviation):
    return RatioEstimate(math.log1p(percent / 100), deviation / 100, 4, 0.0, 7)


CALM, NOISY = estimate(0, 0.1), estimate(3, 0.1)


@pytest.mark.parametrize(
    ("ratio", "control", "more", "is_gain"),
    [
        (estimate(-5, 0.5), CALM, (), True),
        (estimate(5, 0.5), CALM, (), False),
        # An uncertain one.
        (estimate(-1, 0.5), CALM, (), False),
        (estimate(-1.1, 0.5), CALM, (), True),
        (estimate(-1.1, 0.5), CALM, (0.01,), False),
        # The default differs from itself by 3 % though its rounds agree.
        (estimate(-2.9, 0.1), NOISY, (), False),
        (estimate(-3.5, 0.1), NOISY, (), True),
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
    assert paired.noise_floor(NOISY) == pytest.approx(math.log(1.03) + 2.7764 * 0.001)
