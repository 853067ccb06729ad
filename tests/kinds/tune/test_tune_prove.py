"""The proof of rules: gains, losses, failures, and how rarely noise is proven to be a gain."""

import math
import random

import pytest

from cclmark.analysis.paired import LEAST_ROUNDS
from cclmark.kinds.tune.figures import Trio, prove
from cclmark.kinds.tune.result import FALSE_SHARE
from cclmark.kinds.tune.search import Rule
from examples import examples

SIZES = (1024, 2048, 4096, 8192)
WHOLE = Rule(1024, 8192, 7)


def rounds(ratios, count=10, *, noise=0.003, seed=1, level=0.0, outliers=0.0):
    """``ratios``: by size the true time over the default's; ``level``: of a process, or none."""
    draw = random.Random(seed)

    def time_s(ratio, process):
        log = process + draw.gauss(0, noise)
        if draw.random() < outliers:
            log += math.log(draw.uniform(1, 3))
        return ratio * math.exp(log)

    found = []
    for _ in range(count):
        default, control, tuned = (draw.choice((0.0, level)) for _ in range(3))
        found.append(
            {
                size: Trio(time_s(1, default), time_s(1, control), time_s(ratio, tuned))
                for size, ratio in ratios.items()
            }
        )
    return found


def test_without_rules_nothing_beats_the_default():
    proof = prove([], rounds(dict.fromkeys(SIZES, 1.0)))
    assert proof.rules == proof.dropped == []


def test_a_gain_is_proven_with_its_interval_and_its_worst_size():
    proof = prove([WHOLE], rounds({1024: 0.8, 2048: 0.9, 4096: 0.95, 8192: 0.8}))
    (proven,) = proof.proven
    assert proven.rule == WHOLE
    mean = (0.8 * 0.9 * 0.95 * 0.8) ** 0.25
    assert proven.estimate.low < mean < proven.estimate.high
    assert proven.estimate.high - proven.estimate.low < 0.02
    assert proven.worst_bytes == 4096
    assert proven.by_size[1024].ratio == pytest.approx(0.8, abs=0.01)
    assert proven.chance < FALSE_SHARE
    assert proof.dropped == []


@pytest.mark.parametrize(
    ("rule", "ratios", "proven", "dropped"),
    [
        # Sizes outside of a rule do not count.
        (Rule(2048, 4096, 7), {1024: 2, 2048: 0.9, 4096: 0.9, 8192: 2}, [(2048, 4096)], []),
        # A size that may be slower splits the rule, also one between those of the search.
        (
            WHOLE,
            {1024: 0.9, 2048: 0.9, 3072: 1.03, 4096: 0.9, 8192: 0.9},
            *([(1024, 2048), (4096, 8192)], ["a loss of 2% is not excluded"]),
        ),
        # A part is not proven by the rest of its rule: the last size is as by default.
        (
            WHOLE,
            {1024: 0.8, 2048: 0.8, 4096: 1.05, 8192: 1.0},
            *([(1024, 2048)], ["a loss of 2% is not excluded", "more time than"]),
        ),
        # A rule of sizes that were not measured.
        (Rule(1 << 20, 1 << 21, 7), dict.fromkeys(SIZES, 0.8), [], [""]),
    ],
)
def test_parts_of_rules_are_proven(rule, ratios, proven, dropped):
    proof = prove([rule], rounds(ratios))
    assert proof.rules == [Rule(low, high, 7) for low, high in proven]
    for one, reason in zip(proof.dropped, dropped, strict=True):
        assert reason in one.reason


def test_a_loss_and_no_difference_are_dropped_with_the_reason():
    rules = [Rule(1024, 2048, 7), Rule(4096, 8192, 8)]
    proof = prove(rules, rounds({1024: 0.9, 2048: 0.9, 4096: 1.01, 8192: 1.01}))
    assert proof.rules == rules[:1]
    (dropped,) = proof.dropped
    assert dropped.rule == rules[1]
    assert "not faster than the default: 1.2% more time" in dropped.reason


def test_a_tuned_run_that_failed_drops_the_rule():
    found = rounds(dict.fromkeys(SIZES, 0.8))
    found[3][2048] = Trio(1.0, 1.0, None)
    proof = prove([WHOLE], found)
    assert proof.rules == []
    assert proof.dropped[0].reason == "the tuned run failed at 2 KiB in round 4"


def test_rounds_without_the_default_do_not_count():
    found = rounds(dict.fromkeys(SIZES, 0.8), LEAST_ROUNDS + 1)
    found[0][2048] = Trio(None, 1.0, 1.0)
    assert prove([WHOLE], found).rules == [WHOLE]
    del found[1][4096]
    proof = prove([WHOLE], found)
    assert proof.rules == []
    assert proof.dropped[0].reason == "6 complete rounds, 7 are required"


def test_a_gain_within_the_noise_of_the_default_is_dropped():
    """The repetition of the default is 5 % slower throughout: so much is noise."""
    found = [
        {
            size: Trio(trio.default_s, 1.05 * trio.control_s, trio.tuned_s)
            for size, trio in one.items()
        }
        for one in rounds(dict.fromkeys(SIZES, 0.97))
    ]
    proof = prove([WHOLE], found)
    assert proof.rules == []
    assert "within the noise of the default" in proof.dropped[0].reason


def test_more_rules_need_more_certainty():
    """What is proven alone is not among forty rules without any effect."""
    rule = Rule(1, 1, 1)
    one = rounds({1: 0.975}, 7, noise=0.006, seed=2)
    others = {2 + number: 1.0 for number in range(40)}
    many = [
        {**mine, **rest}
        for mine, rest in zip(one, rounds(others, 7, noise=0.006, seed=3), strict=True)
    ]
    assert prove([rule], one).rules == [rule]
    proof = prove([rule, *(Rule(size, size, 1) for size in others)], many)
    assert proof.rules == []
    assert any("more rounds may prove it" in dropped.reason for dropped in proof.dropped)


@pytest.mark.simulated
@pytest.mark.parametrize(("rules", "width"), [(1, 1), (4, 1), (2, 4)])
@pytest.mark.parametrize("level", [0.0, 0.19])
@pytest.mark.parametrize("count", [7, 10])
def test_noise_is_hardly_ever_proven(rules, width, level, count):
    """The bound is 1 % of all proofs; simulated, at most 0.2 % (docs/methodology.md)."""
    sizes = [1 << place for place in range(rules * width)]
    planned = [Rule(sizes[at], sizes[at + width - 1], 1) for at in range(0, len(sizes), width)]
    trials = examples(1200)
    false = 0
    for seed in range(trials):
        found = rounds(
            dict.fromkeys(sizes, 1.0), count, noise=0.0065, seed=seed, level=level, outliers=0.05
        )
        false += bool(prove(planned, found).rules)
    assert false <= max(2, FALSE_SHARE * trials)


@pytest.mark.parametrize(("percent", "least"), [(3, 0.9), (5, 0.95)])
def test_a_gain_is_proven_in_spite_of_outliers(percent, least):
    """A rule of four sizes, ten rounds, 0.65 % of noise and 5 % of outliers."""
    trials = examples(200)
    proven = 0
    for seed in range(trials):
        found = rounds(
            dict.fromkeys(SIZES, 1 - percent / 100), noise=0.0065, seed=seed, outliers=0.05
        )
        proven += bool(prove([WHOLE], found).rules)
    assert proven >= least * trials


@pytest.mark.parametrize(("percent", "most"), [(2.1, 0.05), (3, 0.02)])
def test_the_guard_removes_a_size_that_is_slower(percent, most):
    """The other three sizes gain 10 %, so the rule as a whole is a gain."""
    trials = examples(400)
    slower = {1024: 0.9, 2048: 0.9, 4096: 1 + percent / 100, 8192: 0.9}
    kept = 0
    for seed in range(trials):
        proof = prove([WHOLE], rounds(slower, noise=0.0065, seed=seed, outliers=0.05))
        kept += any(rule.covers(4096) for rule in proof.rules)
    assert kept <= most * trials
