"""Search and proof together, on simulated responses whose truth is known: of tables by size, and of
environments.

benchmarks/tune_search.py prints the figures of docs/methodology.md from the same tables.
"""

from itertools import product

import pytest

import environment_tables as environments
import response_tables as tables
from examples import exhaustive

pytestmark = pytest.mark.simulated

FEW = range(8)
ALL = range(200)
DRIFT = 2e-6  # of the logarithm for each cell: some 1 % over a search
LEVEL = 0.19

NOISES = {
    **{"steady": {}, "drift": {"drift": DRIFT}, "levels": {"level": LEVEL}},
    "costly": {"per_channel": 0.002},
}
ALSO = [
    *(("planted", "drift"), ("no_gain", "drift"), ("no_gain", "levels"), ("planted", "costly")),
    *(("small_symmetric", "levels"), ("small_symmetric", "costly")),
]
GAINS = ("planted", "peaks", "interaction", "small_symmetric")
OF_ENVIRONMENTS = {"steady": {}, "drift": {"drift": DRIFT}, "costly": {"per_setting": 0.05}}
ALSO_OF_ENVIRONMENTS = [("rivals", "drift"), ("no_gain", "drift"), ("rivals", "costly")]

each_number_of_seeds = pytest.mark.parametrize("seeds", [FEW, exhaustive(ALL)], ids=len)


def gained(found):
    """The share of the possible gain, of logarithms."""
    return sum(one.gain for one in found) / sum(one.possible for one in found)


def outcomes(name, seeds, **noise):
    first = tables.LAUNCH_BOUND if "level" in noise else 0
    return [tables.judged(tables.Table(name, seed, **noise), first_size=first) for seed in seeds]


def of_environments(name, seeds=FEW, rounds=None, **noise):
    table = environments.Table
    return [environments.judged(table(name, seed, **noise), rounds=rounds) for seed in seeds]


def assert_no_harm(found):
    """False gains in 1 % of the seeds; no size that is slower in its device time or its calls."""
    assert sum(one.false_gain for one in found) <= 0.01 * len(found)
    assert not any(one.slow or one.costly for one in found)


@each_number_of_seeds
@pytest.mark.parametrize(("name", "kind"), [*product(tables.RESPONSES, ["steady"]), *ALSO])
def test_the_optimum_is_found_and_no_false_gain(name, kind, seeds):
    """The optimum of every size in 95 % of the seeds. Without further noise most of the possible
    gain is proven, and none where there is none.
    """
    found = outcomes(name, seeds, **NOISES[kind])
    assert sum(one.missed == 0 for one in found) >= 0.95 * len(seeds) - (seeds is FEW)
    assert_no_harm(found)
    if kind == "steady" and seeds is FEW:
        assert gained(found) >= 0.8 if name in GAINS else all(not it.proven for it in found[:3])


@pytest.mark.parametrize("name", ["planted", "peaks", "interaction"])
def test_a_budget_costs_little_gain(name):
    """The search ends early, with half of the cells that it would use."""
    found = [tables.judged(tables.Table(name, seed), budget=2500) for seed in FEW]
    assert all(one.cells <= 2500 for one in found)
    assert gained(found) >= 0.7


@each_number_of_seeds
@pytest.mark.parametrize(
    ("name", "kind"), [*product(environments.RESPONSES, ["steady"]), *ALSO_OF_ENVIRONMENTS]
)
def test_the_best_environment_is_found_and_no_false_gain(name, kind, seeds):
    found = of_environments(name, seeds, **OF_ENVIRONMENTS[kind])
    assert sum(one.found for one in found) >= 0.95 * len(seeds) - (seeds is FEW)
    assert_no_harm(found)
    if kind == "steady" and seeds is FEW:
        without_gain = name in ("nothing", "no_gain")
        assert not any(it.proven for it in found) if without_gain else gained(found) >= 0.8


@pytest.mark.parametrize("rounds", [1, 4, 8, 16])
def test_a_deadline_leads_to_no_false_gain(rounds):
    for name in ("nothing", "no_gain", "planted"):
        found = of_environments(name, rounds=rounds)
        assert not any(one.false_gain or one.slow for one in found)
