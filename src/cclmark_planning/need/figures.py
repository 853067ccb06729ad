"""What a job requires of its network, and its step on networks: pure functions of the item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cclmark.work.accelerators import GBIT
from cclmark.work.models import MODELS, Model
from cclmark_planning.need.plan import Need
from cclmark_planning.need.result import NeedResult
from cclmark_planning.scale.step import (
    Network,
    StepTime,
    compute_seconds,
    needed_network,
    step_time,
    time_of,
)
from cclmark_planning.scale.traffic import GroupTraffic, busiest_stage, traffic_of

#: Line rates of a GPU that are compared, in Gb/s.
RATES_GBIT = (3.125, 6.25, 12.5, 25, 50, 100, 200, 400, 800)


def needed_by(need: Need, index: int) -> NeedResult:
    """The result of an item."""
    job = need.job
    stage = busiest_stage(job)
    traffic = traffic_of(job, stage)
    compute_s = compute_seconds(job, need.flops, need.memory_bps)

    def step(network: Network) -> StepTime:
        return step_time(job, traffic, compute_s, network, need.hidden)

    return NeedResult(
        *(index, need, "ok"),
        stage=stage,
        compute_s=compute_s,
        traffic=traffic,
        needed=needed_network(step, need.network, need.share),
        judged=step(need.network) if need.network.bps else None,
    )


def trained_model(model: Model) -> str:
    """The model itself if `cclmark train` trains it, else one of its size that it does train."""
    return model.name if model.name in MODELS else "llama3-8b"


def step_on(result: NeedResult, bps: float) -> StepTime:
    """The step of a job with a line rate for each device between nodes."""
    need = result.need
    return step_time(
        need.job, result.traffic, result.compute_s, need.network.with_bps(bps), need.hidden
    )


def tokens_per_s(result: NeedResult, step: StepTime) -> float:
    """The tokens of a device in a second."""
    job = result.need.job
    return job.tokens / step.step_s / job.devices


def network_bytes(result: NeedResult) -> float:
    """What a device sends to other nodes in a step."""
    return sum(one.network_bytes for one in result.traffic)


def node_bytes(result: NeedResult) -> float:
    """What a device sends within its node in a step."""
    return sum(one.node_bytes for one in result.traffic)


def slow_down(result: NeedResult, step: StepTime) -> float:
    """How much longer a step takes than on an ideal network between nodes, as a share."""
    return 0.0 if result.needed is None else step.step_s / result.needed.without.step_s - 1


def is_enough(result: NeedResult) -> bool:
    """Whether a step on the network of the job takes no longer than allowed."""
    return result.judged is not None and slow_down(result, result.judged) <= result.need.share


def communication_share(step: StepTime) -> float:
    """The share of a step in which messages are sent, hidden or not."""
    return step.communication_s / step.step_s


@dataclass(frozen=True)
class NetworkStep:
    """A step on a network. ``bps``: for each device; ``word``: whether the network is enough."""

    bps: float
    step: StepTime
    word: str


NOT_ENOUGH, ENOUGH, AMPLE = "not enough", "enough", "more brings < 1 %"


def steps_on_networks(result: NeedResult) -> Iterator[NetworkStep]:
    """The step on networks of usual line rates; none if nothing is sent between nodes."""
    need, needed = result.need, result.needed
    if needed is None or not network_bytes(result):
        return
    rates = {rate * GBIT for rate in RATES_GBIT} | ({need.network.bps} - {0.0})
    for bps in sorted(rates):
        step = step_on(result, bps)
        word = ENOUGH if bps < needed.ample_bps else AMPLE
        yield NetworkStep(bps, step, NOT_ENOUGH if slow_down(result, step) > need.share else word)


def message_seconds(one: GroupTraffic, result: NeedResult) -> float | None:
    """The time of an entry's messages on the judged network, or else at an ample rate;
    None without."""
    network = result.need.network
    if not network.bps:
        needed = result.needed
        bps = needed.ample_bps if needed is not None else 0.0
        if not bps and one.network_bytes:
            return None
        network = network.with_bps(bps)
    return time_of(one, network)


def asked(results: Sequence[NeedResult]) -> list[NeedResult]:
    """The results of the jobs that were asked for, by the number of devices."""
    return sorted(
        (one for one in results if not one.need.variant), key=lambda one: one.need.job.devices
    )


def varied(results: Sequence[NeedResult]) -> list[NeedResult]:
    """The results of variants."""
    return [one for one in results if one.need.variant]
