"""Rules out of scores: ranges that never overlap, few, and none without a gain."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.kinds.tune.search import LARGEST_LOSS, Found, Rule, Score, rules_of
from examples import examples

SIZES = [1 << (10 + place) for place in range(6)]
NOISE = 0.005


def found(*ratios, noise=NOISE, rounds=8):
    """``ratios``: for each size the ratio to the default by variant."""
    scores = [
        {variant: Score(math.log(ratio), rounds) for variant, ratio in own.items()}
        for own in ratios
    ]
    return Found(scores, [noise] * len(scores), 0, True)


def test_nothing_measured_no_rules():
    assert rules_of(found(*[{}] * 6), SIZES) == []
    assert rules_of(found(), []) == []


def test_a_winner_of_all_sizes_is_one_rule():
    assert rules_of(found(*[{1: 0.9}] * 6), SIZES) == [Rule(SIZES[0], SIZES[-1], 1)]


def test_the_range_ends_at_measured_sizes_of_the_winner():
    """Between the last size that wins and the next one the default stays."""
    rules = rules_of(found({1: 1.3}, {1: 1.3}, *[{1: 0.8}] * 3, {1: 1.3}), SIZES)
    assert rules == [Rule(SIZES[2], SIZES[4], 1)]


def test_neighbours_within_the_noise_share_a_rule():
    rules = rules_of(found(*[{1: 0.900, 2: 0.903}] * 3, *[{1: 0.803, 2: 0.800}] * 3), SIZES)
    assert len(rules) == 1


def test_neighbours_with_different_winners_do_not():
    rules = rules_of(found(*[{1: 0.8, 2: 0.9}] * 3, *[{1: 0.9, 2: 0.8}] * 3), SIZES)
    assert rules == [Rule(SIZES[0], SIZES[2], 1), Rule(SIZES[3], SIZES[5], 2)]


def test_a_gain_within_the_noise_is_no_rule():
    assert rules_of(found({1: 0.995}, *[{}] * 5), SIZES) == []


def test_a_rule_does_not_cover_a_size_that_it_slows_down():
    ratios = [{1: 0.5}] * 6
    ratios[3] = {1: 1.03}
    assert [(rule.low_bytes, rule.high_bytes) for rule in rules_of(found(*ratios), SIZES)] == [
        (SIZES[0], SIZES[2]),
        (SIZES[4], SIZES[5]),
    ]


def test_a_rule_does_not_cover_a_size_where_its_variant_failed():
    ratios = [{1: 0.5}] * 6
    ratios[3] = {2: 1.0}
    assert not any(rule.covers(SIZES[3]) for rule in rules_of(found(*ratios), SIZES))


def test_a_score_of_few_rounds_is_worth_less():
    ratios = [{1: 0.986}, *[{}] * 5]
    assert rules_of(found(*ratios, rounds=16), SIZES)
    assert not rules_of(found(*ratios, rounds=1), SIZES)


@pytest.mark.parametrize("sizes", [[1, 2], [1, 2, 2], [3, 2, 1]])
def test_sizes_that_do_not_match_or_ascend_are_refused(sizes):
    with pytest.raises(ValueError, match=r"size"):
        rules_of(found({}, {}, {}), sizes)


any_scores = st.lists(
    st.dictionaries(
        st.integers(1, 5),
        st.builds(Score, st.floats(-1, 1), st.integers(1, 30)),
        max_size=5,
    ),
    max_size=12,
)


@settings(max_examples=examples(400), deadline=None)
@given(any_scores, st.none() | st.floats(0, 0.2))
def test_properties_of_rules(scores, noise):
    sizes = [3 * 2**place for place in range(len(scores))]
    rules = rules_of(Found(scores, [noise] * len(scores), 0, True), sizes)
    for rule in rules:
        assert rule.low_bytes in sizes
        assert rule.high_bytes in sizes
        assert rule.low_bytes <= rule.high_bytes
        for size, own in zip(sizes, scores, strict=True):
            if rule.covers(size):
                assert own[rule.variant].log <= math.log1p(LARGEST_LOSS)
        covered = [
            own[rule.variant].log
            for size, own in zip(sizes, scores, strict=True)
            if rule.covers(size)
        ]
        assert sum(covered) < 0
    for before, after in pairwise(rules):
        assert before.high_bytes < after.low_bytes
        adjacent = sizes.index(after.low_bytes) == sizes.index(before.high_bytes) + 1
        assert not (adjacent and before.variant == after.variant)
