"""The time of a training step on a network, and the network that a step requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from cclmark.work.counts import NotNegative
from cclmark_planning.scale.frameworks import TORCH
from cclmark_planning.scale.traffic import GROUPS, GroupTraffic
from cclmark_planning.scale.training_job import TrainingJob, stages_of

_OF_GROUP = {"copies": "dp", "experts": "dp", "embedding": "pp"}
#: More bandwidth brings nothing if a step takes at most so much longer than at an infinite rate.
AMPLE = 0.01
#: A line rate so high that messages take no time.
INFINITE_BPS = 1e16
_LEAST_BPS = 1e5
_LONGEST_S = 10.0
_STEPS = 80  # of a bisection: more than the digits of a number


class HiddenShares(msgspec.Struct, frozen=True):
    """The shares of messages that can run beside compute, by traffic.GROUPS.

    By default what torch overlaps: gradients and parameters of replicas; and ring attention.
    """

    dp: NotNegative = 1.0
    cp: NotNegative = 1.0
    tp: NotNegative = 0.0
    ep: NotNegative = 0.0
    pp: NotNegative = 0.0

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

    node_bps: NotNegative
    latency_s: NotNegative
    node_latency_s: NotNegative
    efficiency: NotNegative = 1.0
    bps: NotNegative = 0.0

    def with_bps(self, bps: float) -> Network:
        """The network with another line rate between nodes."""
        return msgspec.structs.replace(self, bps=bps)


class StepTime(msgspec.Struct, frozen=True):
    """The parts of a step in seconds.

    ``compute_s``: of a device that is never without work. ``bubble_s``: what it waits for others in
    a pipeline. ``communication_s``: of all messages, hidden or not; ``exposed_s``: what compute
    does not hide of it, ``exposed_by_group`` by traffic.GROUPS.
    """

    compute_s: NotNegative
    bubble_s: NotNegative
    communication_s: NotNegative
    exposed_s: NotNegative
    exposed_by_group: dict[str, NotNegative] = {}

    @property
    def step_s(self) -> float:
        """The whole step."""
        return self.compute_s + self.bubble_s + self.exposed_s

    @property
    def exposed_share(self) -> float:
        """The share of the step that is exposed communication."""
        return self.exposed_s / self.step_s


def usual_shares(job: TrainingJob) -> HiddenShares:
    """What a framework overlaps by default.

    Megatron-LM: gradients and parameters with --overlap-grad-reduce and --overlap-param-gather
    only, messages of pipelines if stages have several parts (megatron/training/arguments.py).
    """
    if job.framework == TORCH:
        return HiddenShares()
    return HiddenShares(dp=0.0, pp=float(job.layout.vp > 1))


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


# Reads and writes of the activations of a layer, forward and backward, by two norms (2 and 3) and
# two residual additions (3 and 3, or with dropout 3.5 and 5.5).
_PASSES, _PASSES_WITH_DROPOUT = (10, 12), (11, 17)


def compute_seconds(job: TrainingJob, flops: float, memory_bps: float) -> float:
    """The compute of a step in seconds, of the stage that computes most.

    ``flops``: what a device computes per second. With recomputation a third more: the forward pass
    of layers is a third of all (arXiv 2104.04473, section 3.5). Tensor parallelism without sequence
    parallelism does not divide norms, dropout and residual additions (arXiv 2205.05198, section
    4.2), which move ``memory_bps`` bytes per second; ``flops`` is of a job that has them once.
    """
    return max(
        _stage_seconds(job, stage, layers, flops, memory_bps)
        for stage, layers in stages_of(job).items()
    )


def _stage_seconds(
    job: TrainingJob, stage: int, layers: int, flops: float, memory_bps: float
) -> float:
    model, layout = job.model, job.layout
    head = 6.0 * model.vocabulary * model.width
    of_layers = model.operations_per_token(job.sequence) - head
    operations = of_layers * layers / model.layers * (4 / 3 if job.recompute else 1.0)
    if stage == layout.pp - 1:  # torch: ranks of tp have a shared head as a whole
        operations += head * (layout.tp if model.tied and job.framework == TORCH else 1)
    tokens = job.tokens / layout.replicas
    compute_s = tokens * operations / (layout.tp * flops)
    if layout.tp == 1 or layout.sp:
        return compute_s
    forward, backward = _PASSES_WITH_DROPOUT if model.has_biases else _PASSES
    passes = forward * (1 + job.recompute) + backward
    moved = tokens * model.width * job.element_bytes * passes * layers
    return compute_s + moved * (1 - 1 / layout.tp) / memory_bps


def step_time(
    job: TrainingJob,
    traffic: Sequence[GroupTraffic],
    compute_s: float,
    network: Network,
    hidden: HiddenShares,
) -> StepTime:
    """The step of a device.

    Messages hide beside the compute of their window, one after the other. The bubble of a pipeline:
    (pp - 1) / (micro-batches x vp), arXiv 2104.04473, section 2.2.
    """
    times: list[tuple[GroupTraffic, str, float, float]] = []
    for one in traffic:
        group = _OF_GROUP.get(one.group, one.group)
        time_s = time_of(one, network)
        alone_s = time_s * min(1.0, one.alone / one.messages)
        beside_s = hidden.of(group) * (time_s - alone_s) if one.window else 0.0
        times.append((one, group, time_s, beside_s))
    wanted_s: dict[str, float] = {}
    for one, _, _, beside_s in times:
        wanted_s[one.window] = wanted_s.get(one.window, 0.0) + beside_s
    shares = _hidden_shares(job, compute_s, wanted_s)
    exposed = dict.fromkeys(GROUPS, 0.0)
    repeated_s = 0.0  # of each micro-batch: stages wait for it as for compute
    for one, group, time_s, beside_s in times:
        own_s = time_s - beside_s * shares.get(one.window, 0.0)
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


# The parts of the compute of a step that the windows of GroupTraffic consist of; narrow ones first.
_PARTS = {
    "first forward": ("first forward",),
    "last backward": ("last backward",),
    "forward": ("first forward", "other forward"),
    "backward": ("last backward", "other backward"),
    "attention": ("first forward", "other forward", "last backward", "other backward"),
    "any": ("first forward", "other forward", "last backward", "other backward"),
}


def _hidden_shares(
    job: TrainingJob, compute_s: float, wanted_s: Mapping[str, float]
) -> dict[str, float]:
    """The share of the messages of each window that finds compute to hide beside.

    ``wanted_s``: their seconds. No second of compute hides two messages.
    """
    forward_s = compute_s * (1 / 4 if job.recompute else 1 / 3)
    backward_s = compute_s - forward_s
    number = job.micro_batches
    left_s = {
        "first forward": forward_s / number,
        "other forward": forward_s * (1 - 1 / number),
        "last backward": backward_s / number,
        "other backward": backward_s * (1 - 1 / number),
    }
    model = job.model
    attention = model.attention_operations(job.sequence) / model.operations_per_token(job.sequence)
    shares = {}
    for window, parts in _PARTS.items():
        wanted = wanted_s.get(window, 0.0)
        if not wanted:
            continue
        room_s = sum(left_s[part] for part in parts)
        if window == "attention":
            room_s = min(room_s, attention * compute_s)
        used_s = min(wanted, room_s)
        shares[window] = used_s / wanted
        for part in reversed(parts):  # what other windows cannot use first
            taken_s = min(used_s, left_s[part])
            left_s[part] -= taken_s
            used_s -= taken_s
    return shares


class NeededNetwork(msgspec.Struct, frozen=True):
    """The line rates and the latency that a step requires between nodes, for each device.

    ``bps``: from this rate on, a step takes at most the wanted share longer than on an ideal
    network between nodes, of an infinite rate and without latency; 0 if at any rate, None if at
    none. ``ample_bps``: above this rate, a step becomes less than AMPLE shorter. ``exposed_bps``:
    from this rate on, exposed communication, also that within nodes, takes at most the wanted share
    of a step; None if at no rate. ``latency_s``: a transfer between nodes may take so long until
    latencies alone lengthen the step by AMPLE; None if none is too long. ``without``: the step on
    the ideal network.
    """

    bps: NotNegative | None
    ample_bps: NotNegative
    exposed_bps: NotNegative | None
    latency_s: NotNegative | None
    without: StepTime


def needed_network(
    step: Callable[[Network], StepTime], base: Network, share: float
) -> NeededNetwork:
    """The network that a step requires. ``share``: see NeededNetwork.

    ``step``: the step on a network. ``base``: whose values other than the sought one are used.
    """

    def at(bps: float) -> StepTime:
        return step(base.with_bps(bps))

    infinite = at(INFINITE_BPS)
    ideal = step(msgspec.structs.replace(base, bps=INFINITE_BPS, latency_s=0.0))
    return NeededNetwork(
        bps=_least(lambda bps: at(bps).step_s <= ideal.step_s * (1 + share)),
        ample_bps=_least(lambda bps: at(bps).step_s <= infinite.step_s * (1 + AMPLE)) or 0.0,
        exposed_bps=_least(lambda bps: at(bps).exposed_share <= share),
        latency_s=_harmless_latency(step, base),
        without=ideal,
    )


def _harmless_latency(step: Callable[[Network], StepTime], base: Network) -> float | None:
    def delayed(latency_s: float) -> float:
        network = msgspec.structs.replace(base, bps=INFINITE_BPS, latency_s=latency_s)
        return step(network).step_s

    allowed_s = delayed(0.0) * (1 + AMPLE)
    if delayed(_LONGEST_S) <= allowed_s:
        return None
    low, high = 0.0, _LONGEST_S
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if delayed(middle) <= allowed_s else (low, middle)
    return low


def _least(is_enough: Callable[[float], bool]) -> float | None:
    """The least bandwidth that is enough, on a logarithmic scale; 0 if any is, None if none is."""
    low, high = _LEAST_BPS, INFINITE_BPS
    if is_enough(low):
        return 0.0
    if not is_enough(high):
        return None
    for _ in range(_STEPS):
        middle = (low * high) ** 0.5
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high
