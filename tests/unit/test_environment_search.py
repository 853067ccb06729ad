"""The search for one environment, on responses without noise, and its proof."""

from __future__ import annotations

import math
import random

import pytest

from cclmark.analysis.paired import CONTROL, DEFAULT
from cclmark.kinds.tune.environment_search import (
    Axis,
    EnvironmentSearch,
    EnvironmentSpace,
    difference,
)
from cclmark.kinds.tune.prove import Trio, prove_environment

LADDER = Axis("LADDER", ("1", "2", "4", "8", "16"), (0, 4), usual=2, ordered=True)
SWITCH = Axis("SWITCH", ("0", "1"), (1,), usual=0)
WORD = Axis("WORD", ("a", "b"), (0, 1))
SPACE = EnvironmentSpace([LADDER, SWITCH, WORD])


def run(truth, *, space=SPACE, cells=2, stop=None, seed=1, fails=lambda combination, round: False):
    """The result; ``truth``: the logarithm of the ratio to the default by variables and cell."""
    draw = random.Random(seed)
    search = EnvironmentSearch(space, cells)
    process = search.run()
    times, batches = None, []
    while True:
        try:
            batch = process.send(times)
        except StopIteration as end:
            return end.value, batches, search
        if stop is not None and len(batches) >= stop:
            times = None
            continue
        batches.append(batch)
        times = {}
        for number, cell in batch.cells:
            combination = () if number in (DEFAULT, CONTROL) else search.combination(number)
            log = truth(space.variables(combination), cell) + draw.gauss(0, 1e-3)
            failed = bool(combination) and fails(combination, batch.number)
            times[number, cell] = None if failed else 1e-5 * math.exp(log)


def best_of(truth, **options):
    found, _, _ = run(truth, **options)
    return options.get("space", SPACE).variables(found.best)


def test_nothing_to_try_ends_at_once():
    found, batches, _ = run(lambda *_: 0.0, space=EnvironmentSpace([]))
    assert (found.best, found.tried, found.complete, batches) == ((), 0, True, [])


def test_settings_are_combined_and_refined():
    def truth(values, _cell):
        ladder = {"1": 0.3, "2": 0.2, "8": -0.2, "16": -0.1}.get(values.get("LADDER", ""), 0.0)
        return ladder - 0.1 * ("SWITCH" in values) - 0.05 * (values.get("WORD") == "b")

    found, _, _ = run(truth)
    assert SPACE.variables(found.best) == {"LADDER": "8", "SWITCH": "1", "WORD": "b"}
    assert found.estimate.difference == pytest.approx(-0.35, abs=0.002)
    assert found.complete


def test_a_gain_over_all_sizes_counts_and_not_that_of_one():
    assert best_of(lambda v, cell: (0.1, -0.11)[cell] * ("SWITCH" in v)) == {}
    assert best_of(lambda v, cell: (0.015, -0.11)[cell] * ("SWITCH" in v)) == {"SWITCH": "1"}


def test_a_combination_that_harms_a_size_is_not_accepted():
    found, _, _ = run(lambda v, cell: (0.05, -0.3)[cell] * ("SWITCH" in v))
    assert found.best == ()
    assert [SPACE.variables(one) for one in found.harmful] == [{"SWITCH": "1"}]


def test_impossible_combinations_are_not_measured():
    def possible(values):
        return values.get("WORD") != "a" or values.get("SWITCH") == "1"

    space = EnvironmentSpace([SWITCH, WORD], possible)

    def truth(values, _cell):
        return -0.1 * ("SWITCH" in values) - 0.2 * (values.get("WORD") == "a")

    found, batches, search = run(truth, space=space)
    assert space.variables(found.best) == {"SWITCH": "1", "WORD": "a"}
    tried = {number for batch in batches for number, _ in batch.cells if number > DEFAULT}
    assert all(possible(space.variables(search.combination(one))) for one in tried)


def test_what_fails_is_no_candidate_any_more():
    def fails(combination, _round):
        return "SWITCH" in SPACE.variables(combination)

    found, batches, search = run(
        lambda v, _: -0.5 * ("SWITCH" in v) - 0.1 * ("WORD" in v), fails=fails
    )
    assert set(SPACE.variables(found.best)) == {"WORD"}
    [failed, *others] = found.failed
    assert SPACE.variables(failed) == {"SWITCH": "1"}
    measured = [b.number for b in batches for n, cell in b.cells if cell == 0
                and n > DEFAULT and search.combination(n) == failed]  # fmt: skip
    assert measured == [0]
    assert all("SWITCH" in SPACE.variables(one) for one in others)


def test_the_best_may_fail_later():
    def fails(combination, number):
        return SPACE.variables(combination) == {"SWITCH": "1"} and number == 9

    found, _, _ = run(lambda v, _: -0.5 * ("SWITCH" in v), fails=fails)
    assert SPACE.variables(found.best) != {"SWITCH": "1"}
    assert {"SWITCH": "1"} in [SPACE.variables(one) for one in found.failed]


def test_a_default_that_fails_ends_the_search():
    search = EnvironmentSearch(SPACE, 1)
    process = search.run()
    batch, rounds = next(process), 0
    with pytest.raises(StopIteration) as end:
        while rounds < 500:
            rounds += 1
            batch = process.send({
                cell: None if cell[0] == DEFAULT else 1e-5 for cell in batch.cells
            })  # fmt: skip
    assert end.value.value.best == ()


def test_a_deadline_keeps_what_is_significantly_better_so_far():
    def truth(values, _cell):
        return -0.3 * ("SWITCH" in values)

    found, _, _ = run(truth, stop=6)
    assert (SPACE.variables(found.best), found.complete) == ({"SWITCH": "1"}, False)
    assert found.estimate.difference == pytest.approx(-0.3, abs=0.002)


def test_after_few_rounds_the_likely_best_is_left_to_the_proof():
    def truth(values, _cell):
        return -0.3 * ("SWITCH" in values) - 0.1 * (values.get("WORD") == "b")

    found, batches, _ = run(truth, stop=1)
    assert (SPACE.variables(found.best), found.complete) == ({"SWITCH": "1"}, False)
    assert (found.estimate, len(batches)) == (None, 1)
    for seed in range(20):  # a difference within the noise, of 0.1 %, and a loss of one size
        assert run(lambda v, _: -0.001 * ("SWITCH" in v), stop=1, seed=seed)[0].best == ()
        assert run(lambda v, at: (0.1, -0.5)[at] * ("SWITCH" in v), stop=1, seed=seed)[0].best == ()


def test_batches_follow_from_the_times():
    first, again = (run(lambda v, _: -0.1 * ("SWITCH" in v), seed=5)[1] for _ in range(2))
    assert first == again


def test_every_round_has_the_default_and_its_repetition_at_both_ends():
    _, batches, _ = run(lambda *_: 0.0)
    for batch in batches:
        numbers = list(dict.fromkeys(number for number, _ in batch.cells))
        assert {numbers[0], numbers[-1]} == {DEFAULT, CONTROL}
        assert len(batch.cells) == 2 * len(numbers)


def test_a_setting_can_return_to_its_default():
    changes = [SPACE.variables(one) for one in SPACE.changes(((0, 4), (2, 1)))]
    assert {"WORD": "b"} in changes
    assert {"LADDER": "16"} in changes
    assert {"LADDER": "16", "WORD": "a"} in changes
    assert difference((), ((0, 4),)) == ((0, None),)


def test_values_beside_the_best_are_one_and_two_steps_away():
    assert [SPACE.variables(one) for one in SPACE.around(((0, 3), (2, 1)))] == [
        {"WORD": "b"},
        {"LADDER": "16", "WORD": "b"},
        {"LADDER": "2", "WORD": "b"},
    ]


def rounds_of(ratio, *, rounds=7, noise=0.002, sizes=4, seed=3):
    draw = random.Random(seed)

    def time(log):
        return 1e-5 * math.exp(log + draw.gauss(0, noise))

    return [
        {
            ("all_reduce", 1 << size): Trio(time(0), time(0), time(ratio(size)))
            for size in range(sizes)
        }
        for _ in range(rounds)
    ]


def test_a_gain_is_proven():
    proof = prove_environment(rounds_of(lambda _: -0.1))
    assert proof.is_proven
    assert proof.estimate.ratio == pytest.approx(math.exp(-0.1), rel=0.01)
    assert proof.chance < 0.01
    assert not proof.unguarded


def test_no_gain_is_refused_with_the_reason():
    assert "not faster" in prove_environment(rounds_of(lambda _: 0.05)).objection
    proof = prove_environment(rounds_of(lambda _: -0.0005))
    assert "noise" in proof.objection or "not faster" in proof.objection
    assert not proof.is_proven


def test_a_size_that_loses_more_than_two_percent_withholds_it():
    proof = prove_environment(rounds_of(lambda size: 0.05 if size == 2 else -0.3))
    assert not proof.objection
    assert set(proof.harmed) == {("all_reduce", 4)}
    assert not proof.is_proven


def test_a_loss_that_is_not_excluded_is_reported():
    proof = prove_environment(rounds_of(lambda size: 0.0195 if size == 2 else -0.3))
    assert set(proof.unguarded) == {("all_reduce", 4)}
    assert proof.is_proven


def test_an_environment_that_fails_is_refused():
    rounds = rounds_of(lambda _: -0.1)
    rounds[3]["all_reduce", 4] = Trio(1e-5, 1e-5, None)
    proof = prove_environment(rounds)
    assert proof.failed == [("all_reduce", 4)]
    assert not proof.is_proven


def test_rounds_without_the_default_do_not_count():
    rounds = rounds_of(lambda _: -0.1)
    rounds[3]["all_reduce", 4] = Trio(None, 1e-5, 1e-5)
    assert "6 complete rounds, 7 are required" in prove_environment(rounds).objection
