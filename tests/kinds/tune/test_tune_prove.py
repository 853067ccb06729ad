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


def test_a_gain_is_proven_with_its_interval_and_its_worst_size():
    proof = prove([], rounds(dict.fromkeys(SIZES, 1.0)))
    assert proof.rules == proof.dropped == []
    proof = prove([WHOLE], rounds({1024: 0.8, 2048: 0.9, 4096: 0.95, 8192: 0.8}))
    (proven,) = proof.proven
    assert (proven.rule, proof.dropped) == (WHOLE, [])
    mean = (0.8 * 0.9 * 0.95 * 0.8) ** 0.25
    assert proven.estimate.low < mean < proven.estimate.high
    assert proven.estimate.high - proven.estimate.low < 0.02
    assert proven.worst_bytes == 4096
    assert proven.by_size[1024].ratio == pytest.approx(0.8, abs=0.01)
    assert proven.chance < FALSE_SHARE


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


def reason_of(found, rules=(WHOLE,)):
    """Why the last rule alone is dropped."""
    proof = prove([*rules], found)
    assert proof.rules == [*rules[:-1]]
    (dropped,) = proof.dropped
    assert dropped.rule == rules[-1]
    return dropped.reason


def test_a_rule_is_dropped_with_the_reason():
    rules = (Rule(1024, 2048, 7), Rule(4096, 8192, 8))
    reason = reason_of(rounds({1024: 0.9, 2048: 0.9, 4096: 1.01, 8192: 1.01}), rules)
    assert "not faster than the default: 1.2% more time" in reason
    found = rounds(dict.fromkeys(SIZES, 0.8))
    found[3][2048] = Trio(1.0, 1.0, None)
    assert reason_of(found) == "the tuned run failed at 2 KiB in round 4"
    # Rounds without the default do not count.
    found = rounds(dict.fromkeys(SIZES, 0.8), LEAST_ROUNDS + 1)
    found[0][2048] = Trio(None, 1.0, 1.0)
    assert prove([WHOLE], found).rules == [WHOLE]
    del found[1][4096]
    assert reason_of(found) == "6 complete rounds, 7 are required"
    # The repetition of the default is 5 % slower throughout: so much is noise.
    found = rounds(dict.fromkeys(SIZES, 0.97))
    for one in found:
        for size, trio in one.items():
            one[size] = Trio(trio.default_s, 1.05 * trio.control_s, trio.tuned_s)
    assert "within the noise of the default" in reason_of(found)


def test_more_rules_need_more_certainty():
    """What is proven alone is not among forty rules without any effect."""
    rule, how = Rule(1, 1, 1), {"count": 7, "noise": 0.006}
    one = rounds({1: 0.975}, **how, seed=2)
    others = dict.fromkeys(range(2, 42), 1.0)
    many = [mine | rest for mine, rest in zip(one, rounds(others, **how, seed=3), strict=True)]
    assert prove([rule], one).rules == [rule]
    proof = prove([rule, *(Rule(size, size, 1) for size in others)], many)
    assert proof.rules == []
    assert any("more rounds may prove it" in dropped.reason for dropped in proof.dropped)


NOISY = {"noise": 0.0065, "outliers": 0.05}


@pytest.mark.simulated
@pytest.mark.parametrize(("rules", "width"), [(1, 1), (4, 1), (2, 4)])
@pytest.mark.parametrize("level", [0.0, 0.19])
@pytest.mark.parametrize("count", [7, 10])
def test_noise_is_hardly_ever_proven(rules, width, level, count):
    """The bound is 1 % of all proofs; simulated, at most 0.2 % (docs/methodology.md)."""
    sizes = [1 << place for place in range(rules * width)]
    planned = [Rule(sizes[at], sizes[at + width - 1], 1) for at in range(0, len(sizes), width)]
    trials, same = examples(1200), dict.fromkeys(sizes, 1.0)
    found = (rounds(same, count, seed=seed, level=level, **NOISY) for seed in range(trials))
    assert sum(bool(prove(planned, one).rules) for one in found) <= max(2, FALSE_SHARE * trials)


@pytest.mark.parametrize(("percent", "least"), [(3, 0.9), (5, 0.95)])
def test_a_gain_is_proven_in_spite_of_outliers(percent, least):
    """A rule of four sizes, ten rounds, 0.65 % of noise and 5 % of outliers."""
    trials, faster = examples(200), dict.fromkeys(SIZES, 1 - percent / 100)
    found = (rounds(faster, seed=seed, **NOISY) for seed in range(trials))
    assert sum(bool(prove([WHOLE], one).rules) for one in found) >= least * trials


@pytest.mark.parametrize(("percent", "most"), [(2.1, 0.05), (3, 0.02)])
def test_the_guard_removes_a_size_that_is_slower(percent, most):
    """The other three sizes gain 10 %, so the rule as a whole is a gain."""
    trials = examples(400)
    slower = {1024: 0.9, 2048: 0.9, 4096: 1 + percent / 100, 8192: 0.9}
    proofs = (prove([WHOLE], rounds(slower, seed=seed, **NOISY)) for seed in range(trials))
    kept = sum(any(rule.covers(4096) for rule in proof.rules) for proof in proofs)
    assert kept <= most * trials
