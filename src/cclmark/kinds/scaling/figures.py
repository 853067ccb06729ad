"""Steps of jobs with their intervals, and what is computed from them: functions of items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from cclmark.base.statistics import quantile
from cclmark.kinds.need.plan import Need
from cclmark.kinds.scaling.plan import LAYOUT, MEASURED, ScaledJob
from cclmark.kinds.scaling.result import ScaledResult
from cclmark.scale.memory import most_memory_bytes
from cclmark.scale.step import Network, StepTime, compute_seconds, step_time
from cclmark.scale.traffic import GroupTraffic, busiest_stage, traffic_of

_DRAWS, _SEED = 200, 20260101
# Standard deviations of the logarithms of what a network achieves and of its latencies: assumed.
_RATE_SPREAD, _LATENCY_SPREAD = 0.1, 0.5
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
    need = scaled.need
    traffic = traffic_of(need.job, busiest_stage(need.job))
    step = _step(need, traffic)
    chance = Random(_SEED)
    drawn = sorted(
        _step(_varied(need, scaled.compute_spread, chance), traffic).step_s for _ in range(_DRAWS)
    )
    return ScaledResult(
        *(index, scaled, "ok"),
        step=step,
        low_s=min(step.step_s, quantile(drawn, _LOW)),
        high_s=max(step.step_s, quantile(drawn, _HIGH)),
        needed_bytes=most_memory_bytes(need.job),
    )


def _varied(need: Need, compute_spread: float, chance: Random) -> Need:
    def factor(spread: float) -> float:
        return math.exp(spread * chance.gauss(0, 1))

    network = need.network
    latency = factor(_LATENCY_SPREAD)
    varied = Network(
        network.node_bps * factor(_RATE_SPREAD),
        *(network.latency_s * latency, network.node_latency_s * latency),
        efficiency=min(1.0, network.efficiency * factor(_RATE_SPREAD)),
        bps=network.bps,
    )
    return replace(need, network=varied, flops=need.flops * factor(compute_spread))


def tokens_per_s(result: ScaledResult) -> float:
    """The tokens of all GPUs in a second."""
    step = result.step
    return 0.0 if step is None else result.scaled.need.job.tokens / step.step_s


def per_gpu(result: ScaledResult) -> float:
    """The tokens of a GPU in a second."""
    return tokens_per_s(result) / result.scaled.need.job.devices


def efficiency(result: ScaledResult, first: ScaledResult) -> float:
    """The tokens of a GPU in a second, as a share of those of the smallest number of GPUs."""
    return per_gpu(result) / per_gpu(first)


def of_purpose(results: Sequence[ScaledResult], purpose: str) -> list[ScaledResult]:
    """The results of a purpose: layouts by their step, others by the number of GPUs."""
    found = [one for one in results if one.scaled.purpose == purpose]
    if purpose == LAYOUT:
        return sorted(found, key=lambda one: math.inf if one.step is None else one.step.step_s)
    if purpose == MEASURED:
        return found
    return sorted(found, key=lambda one: one.scaled.need.job.devices)


class StepErrors(NamedTuple):
    """Medians of absolute errors of measured steps as shares: of the predictions and of the same
    model FLOPs utilization. ``inside``: how many of ``number`` lie in their interval.
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
    flops = median(one.scaled.need.flops for one in results)
    return [step_of(replace(one.scaled.need, flops=flops)).step_s for one in results]


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Spearman's correlation, equal values with their mean rank; None below three values."""
    if len(left) < 3:
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
