"""What a device of a training job sends in a step: every message by group, operation and size.

Two ways to implement the same parallelism are known, since they send different bytes: ``torch``
(DistributedDataParallel, fully_shard, parallelize_module and Schedule1F1B of torch.distributed, as
``cclmark train`` has them) and ``megatron`` (Megatron-LM).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.work.counts import AtLeastOne, NotNegative
from cclmark.work.operations import OPERATIONS
from cclmark_planning.scale.frameworks import PRECISIONS, TORCH
from cclmark_planning.scale.layout import Group
from cclmark_planning.scale.training_job import (
    ParameterUnit,
    StageParameters,
    TrainingJob,
    stages_of,
)

#: Groups whose messages may be hidden by compute, and those that stop it.
GROUPS = ("dp", "cp", "tp", "ep", "pp")
#: A message to one rank, which is no collective, and the one whose parts differ.
SEND, ALLTOALL = "send", "alltoall"
_TREE_PASSES = {"all_reduce": 2, "broadcast": 1}
_FLOAT = 4

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Window: TypeAlias = str
    GroupName: TypeAlias = str
    Operation: TypeAlias = str
else:
    GroupName = Literal["tp", "cp", "dp", "copies", "ep", "experts", "pp", "embedding"]
    Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", ALLTOALL, SEND]
    Window = Literal[
        "", "any", "forward", "backward", "last backward", "first forward", "attention"
    ]


class GroupTraffic(msgspec.Struct, frozen=True):
    """Equal messages of one device in a step.

    ``group``: a name of JobLayout.groups, or ``embedding``: the first and the last stage, which
    hold the same embedding. ``ranks``: of the group, ``on_node`` of them on a node. ``purpose``:
    what the message is. ``size_bytes``: of a message as nccl-tests counts it: of an all_gather or a
    reduce_scatter all parts together; ``messages``: their number. ``window``: the compute beside
    which they can run, ``any`` for all of it; empty for messages that always stop it. ``alone``:
    how many of them never run beside compute, because there is none at their time.
    """

    group: GroupName
    ranks: AtLeastOne
    on_node: AtLeastOne
    operation: Operation
    purpose: str
    size_bytes: NotNegative
    messages: NotNegative
    window: Window = ""
    alone: NotNegative = 0.0

    @property
    def total_bytes(self) -> float:
        """The bytes of all messages."""
        return self.size_bytes * self.messages

    @property
    def nodes(self) -> int:
        """The nodes of a group."""
        return self.ranks // self.on_node

    @property
    def bus_bytes(self) -> float:
        """What a device sends with a ring algorithm, as the bus bandwidth of nccl-tests counts.

        A broadcast or a message to one rank is sent once.
        """
        if self.operation == SEND:
            return self.total_bytes
        return self.total_bytes * OPERATIONS[self.operation].bus_factor(self.ranks)

    @property
    def node_bytes(self) -> float:
        """The bytes that a device sends within its node."""
        if self.on_node == 1:
            return 0.0
        if self.operation == ALLTOALL:
            return self.total_bytes * (self.on_node - 1) / self.ranks
        if self.operation == SEND:
            return self.bus_bytes if self.nodes == 1 else 0.0
        return self.bus_bytes

    @property
    def network_bytes(self) -> float:
        """What a device sends to other nodes: its share where a ring leaves the node once.

        NCCL's rings leave a node once for each of their channels, and the channels share the
        network interfaces of the group's devices.
        """
        if self.nodes == 1:
            return 0.0
        if self.operation == ALLTOALL:
            return self.total_bytes * (self.ranks - self.on_node) / self.ranks
        if self.operation == SEND:
            return self.bus_bytes
        return self.bus_bytes / self.on_node

    @property
    def hops(self) -> tuple[float, float]:
        """The consecutive transfers of all messages within nodes, and between nodes.

        All-reduces, broadcasts: those of a tree; all-gathers and reduce-scatters those of a ring.
        """
        if self.operation in (SEND, ALLTOALL):
            return (0.0, self.messages) if self.nodes > 1 else (self.messages, 0.0)
        if passes := _TREE_PASSES.get(self.operation, 0):
            within, between = self.on_node - 1, math.ceil(math.log2(self.nodes))
            return passes * within * self.messages, passes * between * self.messages
        between = self.nodes - 1
        return (self.ranks - 1 - between) * self.messages, between * self.messages


class _Device:
    """A device of a stage: all that it sends in a step."""

    def __init__(self, job: TrainingJob, stage: int) -> None:
        self._job, self._parameters = job, StageParameters(job, stage)
        self._groups = job.layout.groups()
        #: The elements of activations of a micro-batch that a device of cp has.
        self._activations = job.micro_batch * job.sequence // job.layout.cp * job.model.width
        self._is_torch = job.framework == TORCH

    def messages(self) -> Iterator[GroupTraffic]:
        """All of them. None is empty, or to the device itself."""
        every = (self._tensor, self._context, self._experts, self._pipeline, self._replicas)
        for part in every:
            for one in part():
                if one.ranks > 1 and one.messages > 0 and one.size_bytes > 0:
                    yield one

    def _of(
        self,
        name: str,
        operation: str,
        purpose: str,
        size_bytes: float,
        messages: float,
        window: str = "any",
        alone: float = 0.0,
    ) -> GroupTraffic:
        group = self._groups[name]
        on_node = group.on_node(self._job.node_devices)
        return GroupTraffic(
            *(name, group.size, on_node, operation, purpose, size_bytes, messages, window, alone)
        )

    # Data parallelism.

    def _replicas(self) -> Iterator[GroupTraffic]:
        units = self._parameters.units()
        sharded = self._job.layout.zero >= 2
        of_groups = {"dp": units}
        if self._job.layout.ep > 1:
            of_groups["experts"] = [
                ParameterUnit(one.experts, is_layer=one.is_layer) for one in units if one.experts
            ]
        for name, own in of_groups.items():
            yield from self._sharded(name, own) if sharded else self._reduced(name, own)

    def _reduced(self, name: str, units: Sequence[ParameterUnit]) -> Iterator[GroupTraffic]:
        """Gradients of replicas, and with zero=1 the parameters that others have updated.

        The last bucket is ready when there is no compute left; the first one is needed before any.
        """
        job = self._job
        divides = job.layout.zero and not self._is_torch
        operation = "reduce_scatter" if divides else "all_reduce"
        buckets = self._parameters.buckets(units)
        for place, elements in enumerate(buckets):
            size_bytes, is_alone = elements * job.gradient_bytes, float(place == len(buckets) - 1)
            yield self._of(name, operation, "gradients", size_bytes, 1, "last backward", is_alone)
        if divides:
            for place, elements in enumerate(buckets):
                size_bytes, is_alone = (
                    elements * job.element_bytes,
                    float(place == len(buckets) - 1),
                )
                yield self._of(
                    *(name, "all_gather", "updated parameters", size_bytes, 1),
                    *("first forward", is_alone),
                )
        elif job.layout.zero:  # ZeroRedundancyOptimizer sends each tensor from the rank that has it
            for unit in units:
                for elements in unit.tensors:
                    size_bytes = elements * PRECISIONS[job.precision][1]
                    yield self._of(name, "broadcast", "updated parameters", size_bytes, 1, "")

    def _sharded(self, name: str, units: Sequence[ParameterUnit]) -> Iterator[GroupTraffic]:
        """Parameters that are gathered before use, and gradients that are divided after it.

        As fully_shard does with a unit for each layer. The last unit in the forward pass stays
        gathered until its backward pass, with zero=2 (reshard_after_forward=False) all do. With a
        pipeline all units stay gathered in a step: their micro-batches alternate. Nothing is
        computed beside the gathers of embedding and first layer, and beside the last reduction.
        """
        job = self._job
        is_pipeline = job.layout.pp > 1
        parts = 1 if is_pipeline else job.micro_batches
        reduced = 1 if job.holds or is_pipeline else job.micro_batches
        forward = "first forward" if is_pipeline else "forward"
        backward = "backward" if reduced == parts and not is_pipeline else "last backward"
        first_layer = next((place for place, one in enumerate(units) if one.is_layer), -1)
        for place, one in enumerate(units):
            elements = sum(one.tensors)
            kept = is_pipeline or job.layout.zero == 2
            kept = kept or (not one.is_layer and place == len(units) - 1)
            gathered, gradients = elements * job.element_bytes, elements * job.gradient_bytes
            # The last of the units at the ends is the head, unless it is the only one.
            is_begin = not one.is_layer and (place < len(units) - 1 or job.model.tied)
            is_begin = is_begin and self._parameters.is_first
            alone = parts * float(is_begin or place == first_layer)
            purpose = "parameters in the forward pass"
            yield self._of(name, "all_gather", purpose, gathered, parts, forward, alone)
            if not kept:
                purpose = "parameters in the backward pass"
                yield self._of(name, "all_gather", purpose, gathered, parts, "backward")
            alone = reduced * float(is_begin)
            yield self._of(
                *(name, "reduce_scatter", "gradients", gradients, reduced, backward, alone)
            )
            if name == "dp":
                copies = gradients / self._groups["dp"].size
                yield self._of(
                    *("copies", "all_reduce", "gradients", copies, reduced, backward, alone)
                )

    # Tensor and sequence parallelism.

    def _tensor(self) -> Iterator[GroupTraffic]:
        """See Shoeybi et al., arXiv 1909.08053, section 3; with sp Korthikanti et al., 2205.05198.

        A network of experts has no messages of tp: experts are not divided by it.
        """
        job, layout = self._job, self._job.layout
        if layout.tp == 1:
            return
        size = float(self._activations * job.element_bytes)
        matrices = sum(
            2 if number < job.model.dense_layers or not job.model.experts else 1
            for number in self._parameters.layers
        )
        calls = matrices * job.micro_batches
        again = calls if job.recompute else 0
        if not layout.sp:
            yield self._of("tp", "all_reduce", "activations", size, calls + again)
            yield self._of("tp", "all_reduce", "gradients of activations", size, calls)
        else:
            gathers = 2 * calls + (0 if self._is_torch else calls) + again
            yield self._of("tp", "all_gather", "activations and their gradients", size, gathers)
            yield self._of(
                *("tp", "reduce_scatter", "activations and their gradients", size),
                2 * calls + again,
            )
        yield from self._ends_of_torch(size) if self._is_torch else self._ends_of_megatron(size)

    def _ends_of_torch(self, size: float) -> Iterator[GroupTraffic]:
        job, parts = self._job, self._job.micro_batches
        model, sp = job.model, job.layout.sp
        if sp:
            ends = parts * (self._parameters.is_first + self._parameters.is_last)
            yield self._of("tp", "all_gather", "activations of the ends", size, ends)
            tensors = (4 if model.has_biases else 2) * len(self._parameters.layers)
            norm = model.width * job.element_bytes
            yield self._of("tp", "all_reduce", "gradients of norms", norm, tensors * parts)
        if self._parameters.is_last and not model.tied:
            logits = size // model.width * model.vocabulary
            yield self._of("tp", "all_gather", "logits", logits, parts)
            yield self._of("tp", "all_reduce", "gradients of activations", size, parts)

    def _ends_of_megatron(self, size: float) -> Iterator[GroupTraffic]:
        """The embedding and the output head are divided by words, and so is the loss."""
        job, parts = self._job, self._job.micro_batches
        sp = job.layout.sp
        if self._parameters.is_first and sp:
            yield self._of("tp", "reduce_scatter", "embedding", size, parts)
            yield self._of("tp", "all_gather", "gradients of the embedding", size, parts)
        elif self._parameters.is_first:
            yield self._of("tp", "all_reduce", "embedding", size, parts)
        if self._parameters.is_last and sp:
            yield self._of("tp", "all_gather", "activations of the output head", size, 2 * parts)
            yield self._of("tp", "reduce_scatter", "gradients of the output head", size, parts)
        elif self._parameters.is_last:
            yield self._of("tp", "all_reduce", "gradients of the output head", size, parts)
        if self._parameters.is_last:
            loss = self._activations // job.model.width * _FLOAT
            yield self._of("tp", "all_reduce", "loss", loss, 3 * parts)
        if sp:
            norms = (
                2 * job.model.norm_parameters * len(self._parameters.layers) * job.gradient_bytes
            )
            yield self._of("tp", "all_reduce", "gradients of norms", norms, 1)

    # Context and expert parallelism, pipelines.

    def _context(self) -> Iterator[GroupTraffic]:
        """Ring attention (Liu et al., arXiv 2310.01889): keys and values pass all other devices.

        In the backward pass they pass again, with their gradients.
        """
        job, layout = self._job, self._job.layout
        tokens = job.micro_batch * job.sequence // layout.cp
        size = tokens * job.model.key_value_width / layout.tp * job.element_bytes
        passes = 3 + job.recompute
        number = (layout.cp - 1) * passes * len(self._parameters.layers) * job.micro_batches
        yield self._of("cp", "send", "keys and values", size, number, "attention")

    def _experts(self) -> Iterator[GroupTraffic]:
        """Tokens travel to their experts and back, in both passes; all experts get as many."""
        job, layout = self._job, self._job.layout
        rows = self._activations / layout.tp * job.model.active_experts
        layers = sum(number >= job.model.dense_layers for number in self._parameters.layers)
        number = 2 * layers * job.micro_batches * (2 + job.recompute)
        yield self._of("ep", "alltoall", "tokens of experts", rows * job.element_bytes, number)

    def _pipeline(self) -> Iterator[GroupTraffic]:
        """Activations to the next stage, and gradients to the one before (arXiv 2104.04473).

        With ``vp`` parts, the last stage sends to the first one, too.
        """
        job, layout = self._job, self._job.layout
        if layout.pp == 1:
            return
        size = float(self._activations * job.element_bytes)
        if job.scatters and not layout.sp and layout.tp > 1:
            ends = self._parameters.is_first + self._parameters.is_last
            received = (2 * layout.vp - ends) * job.micro_batches
            yield self._of("tp", "all_gather", "activations of the pipeline", size, received)
        if layout.sp or job.scatters:
            size /= layout.tp
        forward = (layout.vp - self._parameters.is_last) * job.micro_batches
        back = (layout.vp - self._parameters.is_first) * job.micro_batches
        yield self._of("pp", "send", "activations", size, forward)
        yield self._of("pp", "send", "gradients of activations", size, back)
        if job.model.tied and (self._parameters.is_first or self._parameters.is_last):
            words = float(job.model.vocabulary * job.model.width)
            words /= 1 if self._is_torch else layout.tp
            words /= self._groups["dp"].size if layout.zero == 3 else 1
            group = Group(2, self._groups["pp"].stride * (layout.pp - 1))
            on_node = 2 if job.nodes == 1 else group.on_node(job.node_devices)
            yield GroupTraffic(
                *("embedding", 2, on_node, "all_reduce", "gradients of the embedding"),
                *(words * job.gradient_bytes, 1),
            )


def traffic_of(job: TrainingJob, stage: int) -> list[GroupTraffic]:
    """What a device of a stage of the pipeline sends in a step; stages count from 0."""
    return _merged(_Device(job, stage).messages())


def busiest_stage(job: TrainingJob) -> int:
    """The stage whose devices send most to other nodes, or else within their node."""

    def bytes_of(stage: int) -> tuple[float, float]:
        found = traffic_of(job, stage)
        return sum(one.network_bytes for one in found), sum(one.node_bytes for one in found)

    return max(stages_of(job), key=bytes_of)


def _merged(messages: Iterator[GroupTraffic]) -> list[GroupTraffic]:
    """One entry for equal messages."""
    found: dict[GroupTraffic, tuple[float, float]] = {}
    for one in messages:
        key = msgspec.structs.replace(one, messages=0, alone=0)
        number, alone = found.get(key, (0.0, 0.0))
        found[key] = number + one.messages, alone + one.alone
    return [
        msgspec.structs.replace(one, messages=number, alone=alone)
        for one, (number, alone) in found.items()
    ]
