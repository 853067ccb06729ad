"""A fleet whose pairs take what the links of a simulated fabric give them, with the noise of runs.

The rates of a round are the max-min fair shares of ``cclmark_planning.simulate``, both directions
at once, so that pairs share uplinks. The times of a test are drawn from the samples of a run on
four H200 (``benchmarks/results/h200x4/report/pairs.jsonl``, sizes from 1 MiB on, over the median of
their case): most are within a few percent, some take several times as long. Besides: what differs
between devices and paths for good, a drift of all, and the noise between runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np

from cclmark.journal.item_results import CaseResult
from cclmark.kinds.registry import read_journal
from cclmark.work.fabric_topology import RAIL, Topology, parse_topology
from cclmark_fleet.scan.fleet_model import PairTests
from cclmark_fleet.scan.fleet_rounds import CONFIRM, LEVEL, PairRound, planned_rounds
from cclmark_fleet.scan.fleet_shape import FleetShape, shape_of_topology
from cclmark_fleet.scan.fleet_verdict import (
    FleetEvidence,
    FleetJudgement,
    HostState,
    is_decided,
    judge,
    second_pass,
)
from cclmark_planning.simulate.fair_rates import fair_rates
from cclmark_planning.simulate.graph import Efficiency, Fabric, Impairments, fabric_of

PAIRS = Path(__file__).parents[1] / "results" / "h200x4" / "report" / "pairs.jsonl"
SAMPLES = 20  # of a test
_LEAST_BYTES = 1 << 20
# Standard deviations as shares, times ``noise``: of devices and of paths for good, of a test beyond
# its samples (two runs of one case differ by 1 % on H200, benchmarks/run_noise.py), and of the step
# of a random walk from round to round.
_OF_DEVICES, _OF_PATHS, _OF_RUNS, _OF_DRIFT = 0.007, 0.007, 0.01, 0.003


@cache
def sample_pool() -> np.ndarray:
    """Times of samples over the median of their case."""
    pool: list[float] = []
    for result in read_journal(PAIRS).results:
        assert isinstance(result, CaseResult)
        if result.samples is None or result.case.size_bytes < _LEAST_BYTES:
            continue
        times = np.array([max(row) for row in result.samples.host_s])
        pool += (times / np.median(times)).tolist()
    return np.array(pool)


@dataclass(frozen=True)
class Planted:
    """A fault. ``slow``: factors of links of the fabric; ``pairs``: of the path of two devices;
    ``thermal``: a node that is slowed down now and then; ``all``: a factor of all rates.

    ``states``: what hosts say of themselves. ``kinds`` and ``where``: what has to be named.
    """

    slow: dict[str, float] = field(default_factory=dict)
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    thermal: int = -1
    all: float = 1.0
    states: tuple[HostState, ...] = ()
    kinds: tuple[str, ...] = ()
    where: tuple[str, ...] = ()

    def beside(self, other: "Planted") -> "Planted":
        """Both."""
        return replace(
            self,
            slow={**self.slow, **other.slow},
            pairs={**self.pairs, **other.pairs},
            thermal=max(self.thermal, other.thermal),
            states=self.states + other.states,
        )


@cache
def topology_of(text: str) -> Topology:
    """The topology."""
    return parse_topology(text)


@cache
def shape_of(text: str) -> FleetShape:
    """Its shape."""
    return shape_of_topology(topology_of(text))


class SimulatedFleet:
    """A fleet, to be tested."""

    def __init__(self, text: str, seed: int, planted: Planted, noise: float = 1.0) -> None:
        self.shape = shape_of(text)
        self.planted, self.noise = planted, noise
        self.draw = np.random.default_rng(seed)
        self.seed = seed
        self.fabric: Fabric = fabric_of(
            topology_of(text), "even", Efficiency(0.8, 0.9), Impairments(planted.slow)
        )
        count = self.shape.devices
        self.of_device = 1 + noise * _OF_DEVICES * self.draw.standard_normal(count)
        self.drift = 0.0
        self.node_of = np.array(self.shape.node_of)

    def test(self, number: int, one: PairRound) -> list[np.ndarray]:
        """The tests of a round, as the columns of PairTests."""
        first, second = (np.array(ends, np.int64) for ends in zip(*one.pairs, strict=True))
        routes = self.fabric.routes(
            np.concatenate((first, second)), np.concatenate((second, first))
        )
        rates = fair_rates(
            routes.links, routes.weights, np.ones(2 * len(first)), self.fabric.capacity_bps
        )
        rate = np.minimum(rates[: len(first)], rates[len(first) :]) * self.planted.all
        draw, noise, size = self.draw, self.noise, len(first)
        self.drift += noise * _OF_DRIFT * draw.standard_normal()
        # A path differs from others for good, so its number decides.
        low, high = np.minimum(first, second), np.maximum(first, second)
        paths = np.sin(low * 12.9898 + high * 78.233 + self.seed) * 43758.5453
        rate = rate * (1 + noise * _OF_PATHS * 1.7 * (2 * (paths - np.floor(paths)) - 1))
        rate *= self.of_device[first] * self.of_device[second]
        rate *= np.exp(self.drift + noise * _OF_RUNS * draw.standard_normal(size))
        for (i, j), factor in self.planted.pairs.items():
            rate[(low == min(i, j)) & (high == max(i, j))] *= factor
        pool = sample_pool()
        times = pool[draw.integers(len(pool), size=(size, SAMPLES))]
        if noise != 1:
            times = times**noise
        if self.planted.thermal >= 0:
            hot = (self.node_of[first] == self.planted.thermal) | (
                self.node_of[second] == self.planted.thermal
            )
            slowed = draw.random((int(hot.sum()), SAMPLES)) < 0.4
            times[hot] /= np.where(slowed, draw.uniform(0.6, 0.85, slowed.shape), 1.0)
        times.sort(axis=1)
        middle = (times[:, SAMPLES // 2 - 1] + times[:, SAMPLES // 2]) / 2
        spread = times[:, int(SAMPLES * 0.95) - 1] / middle - 1
        again = np.full(size, one.purpose == CONFIRM)
        return [first, second, np.full(size, number), rate / middle, spread, again]

    def scan(self, floors: dict[str, float] | None = None) -> tuple[FleetJudgement, PairTests, int]:
        """What a scan says, its tests, and the number of its rounds, as in kinds/scan/decisions."""
        evidence = FleetEvidence(floors or {}, "healthy simulation", self.planted.states)
        rows: list[list[np.ndarray]] = []

        def measure(rounds: Iterable[PairRound]) -> PairTests:
            for one in rounds:
                rows.append(self.test(len(rows), one))
            return _table(rows)

        shape, rounds = self.shape, planned_rounds(self.shape, self.seed)
        levels = measure(one for one in rounds if one.purpose == LEVEL)
        tests = measure(second_pass(shape, levels, self.seed))
        found = judge(shape, tests, evidence)
        if not is_decided(shape, tests, found):
            tests = measure(one for one in rounds if one.purpose != LEVEL)
            first = tests.where(~tests.is_confirming)
            tests = measure(second_pass(shape, first, self.seed + 1, levels))
            found = judge(shape, tests, evidence)
        return found, tests, len(rows)


def _table(rows: list[list[np.ndarray]]) -> PairTests:
    return PairTests(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def leaf_of(shape: FleetShape) -> int:
    """How many leaf switches there are."""
    return len(shape.groupings[0].names) if shape.groupings else 0


def is_rail(text: str) -> bool:
    """Whether each rail has its own switches."""
    return topology_of(text).family == RAIL
