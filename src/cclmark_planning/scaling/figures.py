"""Steps of jobs with their intervals, and what is computed from them: functions of items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from cclmark.base.statistics import quantile
from cclmark_planning.need.plan import Need
from cclmark_planning.scale.memory import most_memory_bytes
from cclmark_planning.scale.profiled_step import Unknowns, grown_step
from cclmark_planning.scale.step import Network, StepTime, compute_seconds, step_time
from cclmark_planning.scale.traffic import GroupTraffic, busiest_stage, traffic_of
from cclmark_planning.scaling.plan import LAYOUT, MEASURED, ScaledJob, ScaledProgram
from cclmark_planning.scaling.result import ScaledResult

_DRAWS, _SEED = 200, 20260101
# Standard deviations of the logarithms of what a network achieves and of its latencies: assumed.
_RATE_SPREAD, _LATENCY_SPREAD = 0.1, 0.5
# Of the exponent with which messages of profiled programs grow: assumed, too.
_GROWTH_SPREAD = 0.15
_LOW, _HIGH = 0.05, 0.95
#: Exposed communication that counts as a part of a step.
EXPOSED_SHARE = 0.1


def step_of(need: Need) -> StepTime:
    """The step of a job."""
    return _step(need, traffic_of(need.job, busiest_stage(need.job)))


def _step(need: Need, traffic: Sequence[GroupTraffic]) -> StepTime:
    compute_s = compute_seconds(need.job, need.flops, need.memory_bps)
    return step_time(need.job, traffic, compute_s, need.network, need.hidden)


def result_of(scaled: ScaledJob, index: int = 0) -> ScaledResult:
    """The result of an item: its step, and the interval of nine of ten steps."""
    chance = Random(_SEED)
    if scaled.program is not None:
        step, steps_s = _of_program(scaled.program, scaled.compute_spread, chance)
        needed_bytes = 0.0
    else:
        need = scaled.of_model
        traffic = traffic_of(need.job, busiest_stage(need.job))
        step = _step(need, traffic)
        steps_s = [
            _step(_varied(need, scaled.compute_spread, chance), traffic).step_s
            for _ in range(_DRAWS)
        ]
        needed_bytes = most_memory_bytes(need.job)
    drawn = sorted(steps_s)
    return ScaledResult(
        *(index, scaled, "ok"),
        step=step,
        low_s=min(step.step_s, quantile(drawn, _LOW)),
        high_s=max(step.step_s, quantile(drawn, _HIGH)),
        needed_bytes=needed_bytes,
    )


def _of_program(
    program: ScaledProgram, compute_spread: float, chance: Random
) -> tuple[StepTime, list[float]]:
    """The step of a program, and drawn ones: of networks, and of what its profile does not say."""
    drawn = [
        grown_step(
            program.step,
            _varied_network(program.network, chance),
            Unknowns(
                *(chance.random(), chance.random()),
                growth=max(0.0, chance.gauss(1, _GROWTH_SPREAD)),
                slowness=_factor(compute_spread, chance),
            ),
        ).step_s
        for _ in range(_DRAWS)
    ]
    return grown_step(program.step, program.network), drawn


def _factor(spread: float, chance: Random) -> float:
    return math.exp(spread * chance.gauss(0, 1))


def _varied_network(network: Network, chance: Random) -> Network:
    latency = _factor(_LATENCY_SPREAD, chance)
    return Network(
        network.node_bps * _factor(_RATE_SPREAD, chance),
        *(network.latency_s * latency, network.node_latency_s * latency),
        efficiency=min(1.0, network.efficiency * _factor(_RATE_SPREAD, chance)),
        bps=network.bps,
    )


def _varied(need: Need, compute_spread: float, chance: Random) -> Need:
    varied = _varied_network(need.network, chance)
    return replace(need, network=varied, flops=need.flops * _factor(compute_spread, chance))


def tokens_per_s(result: ScaledResult) -> float:
    """The tokens of all GPUs in a second, 0 if unknown."""
    step = result.step
    return 0.0 if step is None else result.scaled.tokens / step.step_s


def per_gpu(result: ScaledResult) -> float:
    """The tokens of a GPU in a second."""
    return tokens_per_s(result) / result.scaled.devices


def efficiency(result: ScaledResult, first: ScaledResult) -> float:
    """The work of a GPU in a second, as a share of that on the smallest number of GPUs."""

    def rate(one: ScaledResult) -> float:
        return 0.0 if one.step is None else one.scaled.work_done / one.step.step_s

    return rate(result) / result.scaled.devices / (rate(first) / first.scaled.devices)


def of_purpose(results: Sequence[ScaledResult], purpose: str) -> list[ScaledResult]:
    """The results of a purpose: layouts by their step, others by the number of GPUs."""
    found = [one for one in results if one.scaled.purpose == purpose]
    if purpose == LAYOUT:
        return sorted(found, key=lambda one: math.inf if one.step is None else one.step.step_s)
    if purpose == MEASURED:
        return found
    return sorted(found, key=lambda one: one.scaled.devices)


class StepErrors(NamedTuple):
    """Medians of absolute errors of measured steps as shares: of the predictions and of the
    baseline, see ScaledResult. ``inside``: how many of ``number`` lie in their interval.
    ``correlation``: of the ranks of measured steps and of those with one rate of compute, None
    below three."""

    number: int
    error: float
    baseline: float
    inside: int
    correlation: float | None

    @property
    def skill(self) -> float:
        """1: no error, 0: the error of the baseline."""
        return 1 - self.error / self.baseline if self.baseline else 0.0


def step_errors(results: Sequence[ScaledResult]) -> StepErrors | None:
    """Of measured jobs that the other ones predict; None without any."""
    known = [
        (one, one.step.step_s, one.measured_s)
        for one in of_purpose(results, MEASURED)
        if one.step is not None and one.measured_s
    ]
    if not known:
        return None
    return StepErrors(
        len(known),
        median(abs(step_s / true_s - 1) for _, step_s, true_s in known),
        median(abs((one.baseline_s or 0.0) / true_s - 1) for one, _, true_s in known),
        sum((one.low_s or 0) <= true_s <= (one.high_s or 0) for one, _, true_s in known),
        rank_correlation(_calibrated_alike([one for one, *_ in known]), [one for *_, one in known]),
    )


def _calibrated_alike(results: Sequence[ScaledResult]) -> list[float]:
    """The steps with one rate of compute: rates that leave a step out order the steps by it."""
    needs = [one.scaled.need for one in results if one.scaled.need is not None]
    flops = median(one.flops for one in needs) if needs else 0.0
    return [step_of(replace(one, flops=flops)).step_s for one in needs]


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Spearman's correlation, equal values with their mean rank; None below three values."""
    if len(left) < 3 or len(left) != len(right):
        return None
    first, second = _ranks(left), _ranks(right)
    mean = (len(left) - 1) / 2
    products = sum((a - mean) * (b - mean) for a, b in zip(first, second, strict=True))
    squares = [sum((a - mean) ** 2 for a in one) for one in (first, second)]
    return products / math.sqrt(squares[0] * squares[1]) if min(squares) else None


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [
        (ordered.index(one) + len(ordered) - 1 - ordered[::-1].index(one)) / 2 for one in values
    ]
