"""Rates of simulated collectives, and what they cost: pure functions of results."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cclmark.work.operations import OPERATIONS
from cclmark_planning.simulate.plan import Simulation
from cclmark_planning.simulate.result import SimulationResult


def bus_bytes(simulation: Simulation) -> float:
    """The size times the bus factor of nccl-tests."""
    factor = OPERATIONS[simulation.operation].bus_factor(simulation.rank_count)
    return simulation.size_bytes * factor


def algbw_bps(result: SimulationResult) -> float | None:
    """The algorithm bandwidth in bytes/s."""
    return result.simulation.size_bytes / result.time_s if result.is_measured else None


def busbw_bps(result: SimulationResult) -> float | None:
    """The bus bandwidth in bytes/s."""
    return bus_bytes(result.simulation) / result.time_s if result.is_measured else None


def law_bps(result: SimulationResult) -> float | None:
    """The bus bandwidth that the links do not permit to exceed, in bytes/s; None if unknown."""
    return bus_bytes(result.simulation) / result.bound_s if result.bound_s else None


def of_law(result: SimulationResult) -> float | None:
    """The time by the law of the links as a share of the time."""
    return result.bound_s / result.time_s if result.is_measured and result.bound_s else None


def latency_s(result: SimulationResult) -> float:
    """The part of the time that is latency."""
    return sum(one.latency_s for one in result.phases)


def asked(results: Sequence[SimulationResult]) -> list[SimulationResult]:
    """The results of what was asked for, by size."""
    found = [one for one in results if one.is_measured and not one.simulation.variant]
    return sorted(found, key=lambda one: one.simulation.size_bytes)


def fastest(results: Sequence[SimulationResult]) -> SimulationResult | None:
    """The fastest algorithm for the largest size."""
    own = asked(results)
    largest = [one for one in own if one.simulation.size_bytes == own[-1].simulation.size_bytes]
    return min(largest, key=lambda one: one.time_s, default=None)


def variants_of(
    result: SimulationResult, results: Sequence[SimulationResult]
) -> list[SimulationResult]:
    """The results of the same collective without what shares or damages the network."""
    item = result.simulation

    def key(one: Simulation) -> tuple[object, ...]:
        return one.topology, one.operation, one.algorithm, one.size_bytes, one.rank_count

    return [
        one
        for one in results
        if one.is_measured and one.simulation.variant and key(one.simulation) == key(item)
    ]


def cost(result: SimulationResult, without: SimulationResult) -> float:
    """How much longer it takes than without something, as a share."""
    return result.time_s / without.time_s - 1


def series_of(results: Sequence[SimulationResult]) -> dict[Simulation, list[SimulationResult]]:
    """The results of what was asked for, by algorithm."""
    found: dict[Simulation, list[SimulationResult]] = {}
    for one in asked(results):
        found.setdefault(replace(one.simulation, size_bytes=1), []).append(one)
    return found
