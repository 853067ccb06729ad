"""The time of a training step on a network, and the network that a step requires."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from cclmark.scale.traffic import GROUPS, GroupTraffic, TrainingJob
from cclmark.work.counts import Elapsed

_OF_GROUP = {"copies": "dp", "experts": "dp", "embedding": "pp"}
#: More bandwidth brings nothing if a step takes at most so much longer than at an infinite rate.
ENOUGH = 0.01
_LEAST_BPS, _MOST_BPS = 1e5, 1e16
_LONGEST_S = 10.0
_STEPS = 80  # of a bisection: more than the digits of a number


class HiddenShares(msgspec.Struct, frozen=True):
    """The shares of messages that can run beside compute, by traffic.GROUPS.

    By default what frameworks overlap by default: gradients and parameters of replicas, and ring
    attention; but not the messages of tensor and expert parallelism, nor those of pipelines.
    """

    dp: Elapsed = 1.0
    cp: Elapsed = 1.0
    tp: Elapsed = 0.0
    ep: Elapsed = 0.0
    pp: Elapsed = 0.0

    def of(self, group: str) -> float:
        """The share of a group."""
        share: float = getattr(self, group)
        return share

    def describe(self) -> str:
        """The shares in words: ``dp 100 %, tp 0 %``."""
        return ", ".join(f"{group} {self.of(group) * 100:.3g} %" for group in GROUPS)


class Network(msgspec.Struct, frozen=True):
    """What a device can send, in bytes/s in one direction.

    ``bps``: to other nodes by the line rate of the network interfaces, of which transfers achieve
    the share ``efficiency``; 0 where it is what is sought. ``node_bps``: to devices of its node, as
    achieved. ``latency_s``, ``node_latency_s``: of one transfer between two devices.
    """

    node_bps: Elapsed
    latency_s: Elapsed
    node_latency_s: Elapsed
    efficiency: Elapsed = 1.0
    bps: Elapsed = 0.0

    def with_bps(self, bps: float) -> Network:
        """The network with another line rate between nodes."""
        return msgspec.structs.replace(self, bps=bps)


class StepTime(msgspec.Struct, frozen=True):
    """The parts of a step in seconds.

    ``compute_s``: of a device that is never without work. ``bubble_s``: what it waits for others in
    a pipeline. ``communication_s``: of all messages, hidden or not; ``exposed_s``: what compute
    does not hide of it, ``exposed_by_group`` by traffic.GROUPS.
    """

    compute_s: Elapsed
    bubble_s: Elapsed
    communication_s: Elapsed
    exposed_s: Elapsed
    exposed_by_group: dict[str, Elapsed] = {}

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.compute_s + self.bubble_s + self.exposed_s

    @property
    def exposed_share(self) -> float:
        """The share of the step that is exposed communication."""
        return self.exposed_s / self.step_s


def time_of(traffic: GroupTraffic, network: Network) -> float:
    """The seconds of all messages of an entry, one after the other.

    Data move within nodes and between them at once, so that the slower part counts; transfers of
    one message that follow each other add their latencies (alpha-beta model: Thakur et al.,
    Optimization of Collective Communication Operations in MPICH, 2005).
    """
    within, between = traffic.hops
    moved_s = traffic.node_bytes / network.node_bps
    if traffic.network_bytes:
        moved_s = max(moved_s, traffic.network_bytes / (network.bps * network.efficiency))
    return moved_s + within * network.node_latency_s + between * network.latency_s


# Reads and writes of the activations of a layer by norms, dropout and residual additions, of which
# there are two each: a norm 2 forward and 3 backward, dropout and addition 3.5 and 5.5.
_FORWARD_PASSES, _BACKWARD_PASSES = 11, 17


def compute_seconds(job: TrainingJob, flops: float, memory_bps: float) -> float:
    """The compute of a step on a device in seconds. ``flops``: what a device computes per second.

    With recomputation a third more: the forward pass of layers is a third of all (arXiv 2104.04473,
    section 3.5). Tensor parallelism without sequence parallelism does not divide norms, dropout and
    residual additions (arXiv 2205.05198, section 4.2), which move ``memory_bps`` bytes per second;
    ``flops`` is of a job that has them once.
    """
    again = 4 / 3 if job.recompute else 1.0
    compute_s = job.operations * again / (job.devices * flops)
    layout = job.layout
    if layout.tp == 1 or layout.sp:
        return compute_s
    passes = _FORWARD_PASSES * (1 + job.recompute) + _BACKWARD_PASSES
    layers = job.model.layers / layout.pp
    moved = job.tokens / layout.replicas * job.model.width * job.element_bytes * passes * layers
    return compute_s + moved * (1 - 1 / layout.tp) / memory_bps


def step_time(
    job: TrainingJob,
    traffic: Sequence[GroupTraffic],
    compute_s: float,
    network: Network,
    hidden: HiddenShares,
) -> StepTime:
    """The step of a device.

    Messages beside the same compute hide at most as long as that takes. Of those of replicas one
    is never hidden: the first gather or the last reduction, without compute beside it. The bubble
    of a pipeline: (pp - 1) / (micro-batches x vp), arXiv 2104.04473, section 2.2.
    """
    lengths = _windows(job, compute_s)
    wanted_s = dict.fromkeys(lengths, 0.0)
    times: list[tuple[GroupTraffic, str, float, float]] = []
    for one in traffic:
        group = _OF_GROUP.get(one.group, one.group)
        time_s = time_of(one, network)
        beside_s = hidden.of(group) * (time_s - _alone(one, time_s)) if one.window else 0.0
        times.append((one, group, time_s, beside_s))
        if one.window:
            wanted_s[one.window] += beside_s
    exposed = dict.fromkeys(GROUPS, 0.0)
    repeated_s = 0.0  # of each micro-batch: stages wait for it as for compute
    for one, group, time_s, beside_s in times:
        own_s = time_s
        if beside_s:
            own_s -= beside_s * min(1.0, lengths[one.window] / wanted_s[one.window])
        exposed[group] += own_s
        if group != "dp" and one.group != "embedding":
            repeated_s += own_s
    layout = job.layout
    bubble = (layout.pp - 1) / (job.micro_batches * layout.vp)
    return StepTime(
        compute_s,
        bubble * (compute_s + repeated_s),
        sum(time_s for _, _, time_s, _ in times),
        sum(exposed.values()),
        exposed,
    )


def _alone(traffic: GroupTraffic, time_s: float) -> float:
    """The part of an entry beside which there is never compute."""
    is_ring = traffic.window == "attention"  # the first part is the device's own
    return 0.0 if is_ring else time_s / max(traffic.messages, 1.0)


def _windows(job: TrainingJob, compute_s: float) -> dict[str, float]:
    """The seconds of compute beside which messages can run, by GroupTraffic.window."""
    forward_s = compute_s * (1 / 4 if job.recompute else 1 / 3)
    backward_s = compute_s - forward_s
    model = job.model
    attention = model.attention_operations(job.sequence) / model.operations_per_token(job.sequence)
    return {
        "any": compute_s,
        "forward": forward_s,
        "backward": backward_s,
        "first forward": forward_s / job.micro_batches,
        "last backward": backward_s / job.micro_batches,
        "attention": compute_s * attention,
    }


class NeededNetwork(msgspec.Struct, frozen=True):
    """The line rates and the latency that a step requires between nodes, for each device.

    ``bps``: from this rate on, a step takes at most the wanted share longer than at an infinite
    one, 0 if at any; ``enough_bps``: at most ENOUGH longer. ``exposed_bps``: from this rate on,
    exposed communication, also that within nodes, takes at most the wanted share of a step; None if
    at no rate. ``latency_s``: a transfer between nodes may take so long until latencies alone
    lengthen the step by ENOUGH; None if none is too long. ``without``: the step at an infinite
    rate.
    """

    bps: Elapsed
    enough_bps: Elapsed
    exposed_bps: Elapsed | None
    latency_s: Elapsed | None
    without: StepTime


def needed_network(
    step: Callable[[Network], StepTime], base: Network, share: float
) -> NeededNetwork:
    """The network that a step requires. ``share``: see NeededNetwork.

    ``step``: the step on a network. ``base``: whose values other than the sought one are used.
    """

    def at(bps: float) -> StepTime:
        return step(base.with_bps(bps))

    infinite = at(_MOST_BPS)

    def is_within(slow_down: float) -> Callable[[float], bool]:
        return lambda bps: at(bps).step_s <= infinite.step_s * (1 + slow_down)

    exposed_bps: float | None = None
    if infinite.exposed_share <= share:
        exposed_bps = _least(lambda bps: at(bps).exposed_share <= share)
    return NeededNetwork(
        bps=_least(is_within(share)),
        enough_bps=_least(is_within(ENOUGH)),
        exposed_bps=exposed_bps,
        latency_s=_harmless_latency(step, base),
        without=infinite,
    )


def _harmless_latency(step: Callable[[Network], StepTime], base: Network) -> float | None:
    def delayed(latency_s: float) -> float:
        network = msgspec.structs.replace(base, bps=_MOST_BPS, latency_s=latency_s)
        return step(network).step_s

    allowed_s = delayed(0.0) * (1 + ENOUGH)
    if delayed(_LONGEST_S) <= allowed_s:
        return None
    low, high = 0.0, _LONGEST_S
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if delayed(middle) <= allowed_s else (low, middle)
    return low


def _least(is_enough: Callable[[float], bool]) -> float:
    """The least bandwidth that is enough, on a logarithmic scale; 0 if any is."""
    low, high = _LEAST_BPS, _MOST_BPS
    if is_enough(low):
        return 0.0
    for _ in range(_STEPS):
        middle = (low * high) ** 0.5
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high
