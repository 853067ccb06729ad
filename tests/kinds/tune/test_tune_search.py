"""The search by size, and rules out of its scores: ranges, few, and none without a gain."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.analysis.paired import CONTROL, DEFAULT
from cclmark.kinds.tune.search import LARGEST_LOSS, Found, Rule, Score, Space, rules_of, search
from examples import examples
from simulated_trials import driven

LINE = Space({value: (value,) for value in range(1, 65)}, (True,))
USUAL = (DEFAULT, CONTROL)


def bowl(best):
    """Quadratic around ``best``, 20 % faster than the default there."""
    return lambda variant, size: 0.8 * math.exp(math.log(variant / best) ** 2)


def run(steps, ratio, *, batches=None, most=math.inf, failing=(), sent=()):
    """Measures without noise; ``sent``: times that were recorded before."""
    recorded = iter(sent)
    end, own = driven(
        steps, lambda batch: next(recorded, None) or times_of(batch, ratio, failing), most
    )
    if batches is not None:
        batches += own
    return end


def times_of(batch, ratio, failing=()):
    """By cell: 1 of the default, None where it fails."""
    times = {cell: 1.0 if cell[0] in USUAL else ratio(*cell) for cell in batch.cells}
    return times | dict.fromkeys(times.keys() & {*failing})


def test_every_batch_has_the_default_and_its_repetition_at_the_ends():
    batches = []
    run(search(LINE, (1, 4, 16, 64), 2), bowl(9), batches=batches)
    for batch in batches:
        variants = list(dict.fromkeys(variant for variant, _ in batch.cells))
        assert {variants[0], variants[-1]} == {*USUAL}
        assert len(set(batch.cells)) == len(batch.cells)
    assert [one.cells[0][0] for one in batches[:2]] == [DEFAULT, CONTROL]


def test_what_failed_is_not_measured_there_again():
    batches, failing = [], {(16, 0), (17, 0)}
    found = run(search(LINE, (1, 4, 16, 64), 2), bowl(16), batches=batches, failing=failing)
    assert [(16, 0) in batch.cells for batch in batches].count(True) == 1
    assert 16 not in found.scores[0]
    assert found.best[0] in (15, 18)
    assert found.best[1] == 16
    # A size where the default fails ends, and has no scores.
    found = run(search(LINE, (1, 4), 2), bowl(4), failing={(one, 0) for one in USUAL})
    assert (found.scores[0], found.best) == ({}, [DEFAULT, 4])


def test_without_variants_and_gains_the_default_stays():
    assert run(search(LINE, (1, 8), 1), lambda *_: 1.1).best == [DEFAULT]
    assert run(search(LINE, (), 3), bowl(1)) == Found([{}, {}, {}], [None] * 3, 0, True)


def test_a_search_that_ends_early_has_what_is_known_and_continues():
    """Equal times lead to equal batches, so recorded times are sent again."""

    def steps():
        return search(LINE, range(1, 65, 7), 2)

    found = run(search(LINE, range(1, 65, 7), 1), bowl(30), most=1)
    assert (found.complete, found.best) == (False, [29])
    batches = []
    whole = run(steps(), bowl(30), batches=batches)
    recorded = [times_of(batch, bowl(30)) for batch in batches]
    for known in (0, 3, len(batches) - 1):
        again = []
        resumed = run(steps(), bowl(30), batches=again, sent=recorded[:known])
        assert (again, resumed) == (batches, whole)


SIZES = [1 << (10 + place) for place in range(6)]
NOISE = 0.005


def found(*ratios, noise=NOISE, rounds=8):
    """``ratios``: for each size the ratio to the default by variant."""
    scores = [{one: Score(math.log(of), rounds) for one, of in own.items()} for own in ratios]
    return Found(scores, [noise] * len(scores), 0, True)


FASTER = {1: 0.5}


@pytest.mark.parametrize(
    ("ratios", "rules"),
    [
        # A winner of all sizes is one rule.
        ([{1: 0.9}] * 6, [(0, 5, 1)]),
        # Between the last size that wins and the next one the default stays.
        ([{1: 1.3}, {1: 1.3}, *[{1: 0.8}] * 3, {1: 1.3}], [(2, 4, 1)]),
        # Neighbours within the noise share a rule, with different winners they do not.
        ([*[{1: 0.900, 2: 0.903}] * 3, *[{1: 0.803, 2: 0.800}] * 3], [(0, 5, 2)]),
        ([*[{1: 0.8, 2: 0.9}] * 3, *[{1: 0.9, 2: 0.8}] * 3], [(0, 2, 1), (3, 5, 2)]),
        # A gain within the noise is no rule.
        ([{1: 0.995}, *[{}] * 5], []),
        # A rule covers no size that it slows down, or where its variant failed.
        ([*[FASTER] * 3, {1: 1.03}, *[FASTER] * 2], [(0, 2, 1), (4, 5, 1)]),
        ([*[FASTER] * 3, {2: 1.0}, *[FASTER] * 2], [(0, 2, 1), (4, 5, 1)]),
    ],
)
def test_rules_cover_what_wins(ratios, rules):
    wanted = [Rule(SIZES[low], SIZES[high], variant) for low, high, variant in rules]
    assert rules_of(found(*ratios), SIZES) == wanted


def test_rules_slow_nothing_down_and_need_rounds_and_sizes_in_order():
    ratios = [*[FASTER] * 3, {1: 1.021}, *[FASTER] * 2]  # where another rule costs more
    wanted = [Rule(SIZES[0], SIZES[2], 1), Rule(SIZES[4], SIZES[5], 1)]
    assert rules_of(found(*ratios, noise=0.02), SIZES) == wanted
    assert rules_of(found(), []) == []
    ratios = [{1: 0.986}, *[{}] * 5]
    assert rules_of(found(*ratios, rounds=16), SIZES)
    assert not rules_of(found(*ratios, rounds=1), SIZES)
    for sizes in ([1, 2], [1, 2, 2], [3, 2, 1]):
        with pytest.raises(ValueError, match=r"size"):
            rules_of(found({}, {}, {}), sizes)


scores_of_a_size = st.dictionaries(
    st.integers(1, 5), st.builds(Score, st.floats(-1, 1), st.integers(1, 30)), max_size=5
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(scores_of_a_size, max_size=12), st.none() | st.floats(0, 0.2))
def test_properties_of_rules(scores, noise):
    sizes = [3 * 2**place for place in range(len(scores))]
    rules = rules_of(Found(scores, [noise] * len(scores), 0, True), sizes)
    for rule in rules:
        assert {rule.low_bytes, rule.high_bytes} <= {*sizes}
        assert rule.low_bytes <= rule.high_bytes
        pairs = zip(sizes, scores, strict=True)
        covered = [own[rule.variant].log for size, own in pairs if rule.covers(size)]
        assert all(log <= math.log1p(LARGEST_LOSS) for log in covered)
        assert sum(covered) < 0
    for before, after in pairwise(rules):
        assert before.high_bytes < after.low_bytes
        adjacent = sizes.index(after.low_bytes) == sizes.index(before.high_bytes) + 1
        assert not (adjacent and before.variant == after.variant)
