"""How often does tuning find the optimum, and how often does it prove a gain that is none?

    python benchmarks/tune_search.py [SEEDS]

Searches simulated responses (tests/response_tables.py) with the noise of devices, and proves the
rules in ten rounds. For each response and kind of noise it prints the share of seeds in which the
search's best variant of every size is within 1 % of the true optimum (with two levels of launches:
of the sizes that launches do not set); the shares with a false gain and with a size that is truly
slower by more than 2 %, and with a size whose calls truly cost 6 % more; the mean number of
measured cells and of proven rules; and the gain of the proven rules and the possible one. With
equal calls and costly calls, launches set the cost of a call of the four smallest sizes, and the
times are those of the device. Then the chance to prove rules without any effect, and rules with
a gain, in 7, 10 and 15 rounds.

The last table is of tuned environments (tests/environment_tables.py): one combination for all
sizes. It has the mean number of measured combinations over all rounds instead of cells and rules.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from cclmark.kinds.tune.figures import Trio, prove
from cclmark.kinds.tune.search import Rule
from environment_tables import RESPONSES as ENVIRONMENTS
from environment_tables import Table as EnvironmentTable
from environment_tables import judged as judged_environment
from response_tables import LAUNCH_BOUND, NOISE, OUTLIERS, RESPONSES, Table, judged

KINDS = {"steady": {}, "drift": {"drift": 2e-6}, "two levels": {"level": 0.19}}
# Where launches set the time of a call, by its cost per channel, or per setting of an environment.
CALLS = {"equal calls": 0.0, "costly calls": 0.002}
CALLS_OF_ENVIRONMENTS = {"equal calls": 0.0, "costly calls": 0.05}
RULES = ((1, 1), (1, 4), (1, 10), (4, 1), (4, 4))  # number of rules, sizes of each


def searches(seeds: int) -> None:
    print(
        "| response | noise | optimum | false gain | slow size | costly | cells | rules | gain | "
        "possible |"
    )
    print("| :--- | :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    calls = {name: {"per_channel": cost} for name, cost in CALLS.items()}
    for name in RESPONSES:
        for kind, noise in {**KINDS, **calls}.items():
            first = LAUNCH_BOUND if "level" in noise else 0
            found = [judged(Table(name, seed, **noise), first_size=first) for seed in range(seeds)]

            def mean(values: list[float]) -> float:
                return math.fsum(values) / len(values)

            print(
                f"| {name} | {kind} | {mean([one.missed == 0 for one in found]):.1%} "
                f"| {mean([one.false_gain for one in found]):.1%} "
                f"| {mean([one.slow for one in found]):.1%} "
                f"| {mean([one.costly for one in found]):.1%} "
                f"| {mean([one.cells for one in found]):.0f} "
                f"| {mean([one.proven for one in found]):.1f} "
                f"| {1 - math.exp(mean([one.gain for one in found])):.1%} "
                f"| {1 - math.exp(mean([one.possible for one in found])):.1%} |",
                flush=True,
            )


def proven(
    draw: random.Random, number: int, width: int, rounds: int, gain: float, level: float
) -> bool:
    """Whether any rule with this true gain is proven, in one simulated proof."""
    sizes = [1 << place for place in range(number * width)]
    rules = [Rule(sizes[at], sizes[at + width - 1], 1) for at in range(0, len(sizes), width)]

    def time_s(process: float, log: float = 0.0) -> float:
        slow = math.log(draw.uniform(1, 3)) if draw.random() < OUTLIERS else 0.0
        return math.exp(process + log + slow + draw.gauss(0, NOISE))

    measured = []
    for _ in range(rounds):
        default, control, tuned = (draw.choice((0.0, level)) for _ in range(3))
        measured.append(
            {
                size: Trio(time_s(default), time_s(control), time_s(tuned, math.log1p(-gain)))
                for size in sizes
            }
        )
    return bool(prove(rules, measured).rules)


def proofs(trials: int) -> None:
    print("| rules x sizes | rounds | no effect | no effect, two levels | 2 % | 3 % | 5 % |")
    print("| :--- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for number, width in RULES:
        for rounds in (7, 10, 15):
            draw = random.Random(f"{number} {width} {rounds}")
            shares = []
            for gain, level in ((0, 0), (0, 0.19), (0.02, 0), (0.03, 0), (0.05, 0)):
                tried = trials if gain == 0 else max(1, trials // 10)
                count = sum(proven(draw, number, width, rounds, gain, level) for _ in range(tried))
                shares.append(f"{count / tried:.2%}" if gain == 0 else f"{count / tried:.0%}")
            print(f"| {number} x {width} | {rounds} | {' | '.join(shares)} |", flush=True)


def environments(seeds: int) -> None:
    print(
        "| response | noise | optimum | false gain | slow size | costly | measured | gain | "
        "possible |"
    )
    print("| :--- | :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    kinds = {kind: KINDS[kind] for kind in ("steady", "drift")}
    for kind, cost in CALLS_OF_ENVIRONMENTS.items():
        kinds[kind] = {"per_setting": cost}
        kinds[f"{kind}, two levels"] = {"per_setting": cost, "level": 0.19}
    for name in ENVIRONMENTS:
        for kind, noise in kinds.items():
            tables = (EnvironmentTable(name, seed, **noise) for seed in range(seeds))
            found = [judged_environment(table) for table in tables]
            print(
                f"| {name} | {kind} | {sum(one.found for one in found) / seeds:.1%} "
                f"| {sum(one.false_gain for one in found) / seeds:.1%} "
                f"| {sum(one.slow for one in found) / seeds:.1%} "
                f"| {sum(one.costly for one in found) / seeds:.1%} "
                f"| {sum(one.arms for one in found) / seeds:.0f} "
                f"| {1 - math.exp(sum(one.gain for one in found) / seeds):.1%} "
                f"| {1 - math.exp(sum(one.possible for one in found) / seeds):.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    searches(seeds)
    print()
    proofs(10 * seeds)
    print()
    environments(seeds)
