"""What a device of a training job sends in a step: every message by group, operation and size.

Two ways to implement the same parallelism are known, since they send different bytes: ``torch``
(DistributedDataParallel, fully_shard, parallelize_module and Schedule1F1B of torch.distributed, as
``cclmark train`` has them) and ``megatron`` (Megatron-LM).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.base.errors import UsageError
from cclmark.scale.frameworks import FRAMEWORKS, PRECISIONS, TORCH
from cclmark.scale.layout import Group, JobLayout
from cclmark.work.counts import AtLeastOne, Elapsed
from cclmark.work.models import Model
from cclmark.work.operations import OPERATIONS

#: Groups whose messages may be hidden by compute, and those that stop it.
GROUPS = ("dp", "cp", "tp", "ep", "pp")
#: A message to one rank, which is no collective, and the one whose parts differ.
SEND, ALLTOALL = "send", "alltoall"
_TREE_PASSES = {"all_reduce": 2, "broadcast": 1}
_FLOAT = 4

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Framework: TypeAlias = str
    Precision: TypeAlias = str
    Window: TypeAlias = str
    GroupName: TypeAlias = str
    Operation: TypeAlias = str
else:
    Framework = Literal[FRAMEWORKS]
    Precision = Literal[tuple(PRECISIONS)]
    GroupName = Literal["tp", "cp", "dp", "copies", "ep", "experts", "pp", "embedding"]
    Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", ALLTOALL, SEND]
    Window = Literal[
        "", "any", "forward", "backward", "last backward", "first forward", "attention"
    ]


class TrainingJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A training job. ``batch``: sequences of all replicas in a step, ``micro_batch``: those that a
    device computes at once; ``sequence``: tokens in each.

    ``precision``: see PRECISIONS; ``gradient_bytes``: of an element when gradients are reduced.
    ``recompute``: whether the forward pass of layers is repeated in the backward pass. ``holds``:
    whether gradients of zero 2 and 3 are reduced after the last micro-batch only, as those of zero
    0 and 1 always are.
    """

    model: Model
    layout: JobLayout
    batch: AtLeastOne
    micro_batch: AtLeastOne
    sequence: AtLeastOne
    per_node: AtLeastOne
    framework: Framework = TORCH
    precision: Precision = "bf16"
    gradient_bytes: AtLeastOne = 2
    recompute: bool = False
    holds: bool = False

    @property
    def devices(self) -> int:
        """The number of devices."""
        return self.layout.devices

    @property
    def nodes(self) -> int:
        """The number of nodes, the last of which may not be full."""
        return -(-self.devices // self.per_node)

    @property
    def node_devices(self) -> int:
        """The devices of a node that the job has."""
        return min(self.per_node, self.devices)

    @property
    def micro_batches(self) -> int:
        """How many micro-batches a device computes in a step."""
        return self.batch // (self.layout.dp * self.micro_batch)

    @property
    def tokens(self) -> int:
        """The tokens of a step."""
        return self.batch * self.sequence

    @property
    def element_bytes(self) -> int:
        """The bytes of an element of activations and of gathered parameters."""
        return PRECISIONS[self.precision][0]

    @property
    def operations(self) -> float:
        """The floating-point operations of a step of all devices, without recomputation."""
        return self.tokens * self.model.operations_per_token(self.sequence)

    def describe(self) -> str:
        """The job in words."""
        return (
            f"{self.model.name} on {self.devices} GPUs ({self.layout.describe() or 'one device'}), "
            f"batch {self.batch} x {self.sequence}, micro-batch {self.micro_batch}"
        )


def check_job(job: TrainingJob) -> None:
    """Raises UsageError for a job that is not possible, or whose traffic is not known."""
    model, layout = job.model, job.layout
    per_micro = layout.dp * job.micro_batch
    if job.batch % per_micro:
        raise UsageError(
            f"--batch {job.batch} is not a multiple of dp x micro-batch = {layout.dp} x "
            f"{job.micro_batch} = {per_micro}"
        )
    if job.sequence > model.context:
        raise UsageError(
            f"--seq {job.sequence}: {model.name} has a context of {model.context} tokens"
        )
    if job.sequence % (layout.cp * (layout.tp if layout.sp else 1)):
        raise UsageError(f"--seq {job.sequence} is not divisible by cp, and by tp with sp=1")
    for name, number in (("heads", model.heads), ("key-value heads", model.key_value_heads)):
        if number % layout.tp:
            raise UsageError(f"tp={layout.tp} cannot share the {number} {name} of {model.name}")
    hidden = model.hidden if not model.experts else model.dense_hidden or model.hidden
    if hidden % layout.tp:
        raise UsageError(f"tp={layout.tp} cannot share {hidden} columns of {model.name}'s network")
    _check_pipeline(job)
    if layout.ep > 1 and (not model.experts or model.experts % layout.ep):
        raise UsageError(
            f"ep={layout.ep} shares experts, but {model.name} has {model.experts or 'no'} experts"
        )
    if model.experts and layout.tp > 1 and not layout.sp:
        raise UsageError(
            f"{layout.describe()}: tp with experts is known with sequence parallelism only: add "
            "sp=1"
        )
    if job.framework == TORCH and layout.cp > 1:
        raise UsageError("cp is known for --framework megatron only: choose it, or cp=1")
    if job.framework == TORCH and model.experts and layout.tp > 1:
        raise UsageError(
            "tp with experts is known for --framework megatron only: choose it, or tp=1"
        )
    if layout.zero == 2 and layout.pp > 1:
        raise UsageError("zero=2 with pp is not supported: choose zero=1 or zero=3")
    for group in layout.groups().values():
        group.on_node(job.node_devices)


def _check_pipeline(job: TrainingJob) -> None:
    layout, parts = job.layout, job.layout.pp * job.layout.vp
    if job.model.layers < parts:
        raise UsageError(
            f"pp x vp = {parts} parts are more than the {job.model.layers} layers of "
            f"{job.model.name}"
        )
    if layout.pp > 1 and job.micro_batches < layout.pp:
        raise UsageError(
            f"pp={layout.pp} stages require as many micro-batches, but there are "
            f"{job.micro_batches}: raise --batch, or lower --micro-batch or dp"
        )
    if layout.vp > 1 and job.micro_batches % layout.pp:
        raise UsageError(
            f"vp={layout.vp}: the interleaved schedule requires micro-batches in multiples of "
            f"pp={layout.pp}, but there are {job.micro_batches}"
        )


class GroupTraffic(msgspec.Struct, frozen=True):
    """Equal messages of one device in a step.

    ``group``: a name of JobLayout.groups, or ``embedding``: the first and the last stage, which
    hold the same embedding. ``ranks``: of the group, ``on_node`` of them on a node. ``purpose``:
    what the message is. ``size_bytes``: of a message as nccl-tests counts it: of an all_gather or a
    reduce_scatter all parts together; ``messages``: their number. ``window``: the compute beside
    which they can run, ``any`` for all of it; empty for messages that always stop it.
    """

    group: GroupName
    ranks: AtLeastOne
    on_node: AtLeastOne
    operation: Operation
    purpose: str
    size_bytes: Elapsed
    messages: Elapsed
    window: Window = ""

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
        """What a device sends to devices of its own node."""
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


@dataclass(frozen=True)
class _Unit:
    """Parameters of a device that are gathered together: those outside experts, and of experts.

    ``tensors``: their number. ``is_layer``: False for embedding and head.
    """

    dense: float
    experts: float = 0.0
    tensors: int = 1
    is_layer: bool = True


# Of torch 2.11: torch/nn/parallel/distributed.py, bucket_cap_mb and the first bucket; of
# Megatron-LM: megatron/core/distributed/distributed_data_parallel.py, bucket_size.
_TORCH_FIRST_BUCKET, _TORCH_BUCKET = 1 << 20, 25 << 20
_MEGATRON_BUCKET_ELEMENTS = 40_000_000


class _Device:
    """A device of a stage: what it holds, and all that it sends in a step."""

    def __init__(self, job: TrainingJob, stage: int) -> None:
        self._job, self._stage = job, stage
        layout, model = job.layout, job.model
        self._groups = layout.groups()
        self._is_first, self._is_last = stage == 0, stage == layout.pp - 1
        parts = layout.pp * layout.vp
        self._layers = [
            layer
            for part in range(stage, parts, layout.pp)
            for layer in range(part * model.layers // parts, (part + 1) * model.layers // parts)
        ]
        #: The elements of activations of a micro-batch that a device of cp has.
        self._activations = job.micro_batch * job.sequence // layout.cp * model.width
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
    ) -> GroupTraffic:
        group = self._groups[name]
        on_node = group.on_node(self._job.node_devices)
        return GroupTraffic(
            *(name, group.size, on_node, operation, purpose, size_bytes, messages, window)
        )

    # Parameters.

    def _layer(self, number: int) -> _Unit:
        job, layout = self._job, self._job.layout
        model = job.model.dense_layer if number < job.model.dense_layers else job.model
        split = model.attention_matrices + model.network_matrices
        if model.has_biases:  # those of matrices that are divided by columns
            split += model.projected + model.hidden
        experts = model.expert_parameters
        dense = model.layer_parameters - experts - split + split / layout.tp
        tensors = 12 if model.has_biases else 8 if model.experts else 7
        return _Unit(dense, experts / layout.ep, tensors)

    def _ends(self) -> list[_Unit]:
        """Embedding and output head, as far as the stage has them."""
        model, tp = self._job.model, self._job.layout.tp
        words = model.vocabulary * model.width
        rest = model.embedding_parameters - words
        # torch: the embedding and a head that shares it are equal on all devices of tp.
        own_words = words if self._is_torch else words / tp
        head = (
            model.head_parameters - (0 if model.tied else words) + (0 if model.tied else words / tp)
        )
        found = []
        if model.tied and (self._is_first or self._is_last):
            tied = own_words
            tied += rest if self._is_first else 0
            tied += head if self._is_last else 0
            tensors = 1 + self._is_first + 2 * self._is_last
            found.append(_Unit(tied, 0, tensors, is_layer=False))
        elif not model.tied:
            if self._is_first:
                found.append(_Unit(own_words + rest, 0, 1, is_layer=False))
            if self._is_last:
                found.append(_Unit(head, 0, 2, is_layer=False))
        return found

    def _units(self) -> list[_Unit]:
        return [*map(self._layer, self._layers), *self._ends()]

    # Data parallelism.

    def _replicas(self) -> Iterator[GroupTraffic]:
        units = self._units()
        dense = [one.dense for one in units]
        experts = [one.experts for one in units if one.experts]
        sharded = self._job.layout.zero >= 2
        for name, elements in (("dp", dense), ("experts", experts)):
            if not sharded:
                tensors = sum(one.tensors for one in units)
                yield from self._reduced(name, sum(elements), tensors)
            else:
                yield from self._sharded(name, units)

    def _reduced(self, name: str, elements: float, tensors: int) -> Iterator[GroupTraffic]:
        """Gradients of replicas, and with zero=1 the parameters that others have updated."""
        job = self._job
        gradients = elements * job.gradient_bytes
        window = "last backward"
        if self._is_torch:
            number = 1 + max(0, math.ceil((gradients - _TORCH_FIRST_BUCKET) / _TORCH_BUCKET))
        else:
            size = max(_MEGATRON_BUCKET_ELEMENTS, 1_000_000 * job.layout.replicas)
            number = max(1, math.ceil(elements / size))
        if self._is_torch or not job.layout.zero:
            yield self._of(name, "all_reduce", "gradients", gradients / number, number, window)
        else:
            yield self._of(name, "reduce_scatter", "gradients", gradients / number, number, window)
        if not job.layout.zero:
            return
        parameters = elements * job.element_bytes
        if self._is_torch:  # ZeroRedundancyOptimizer sends each tensor from the rank that has it
            whole = elements * PRECISIONS[job.precision][1]
            yield self._of(name, "broadcast", "updated parameters", whole / tensors, tensors, "")
        else:
            yield self._of(
                *(name, "all_gather", "updated parameters", parameters / number, number),
                "first forward",
            )

    def _sharded(self, name: str, units: Sequence[_Unit]) -> Iterator[GroupTraffic]:
        """Parameters that are gathered before use, and gradients that are divided after it.

        As fully_shard does with a unit for each layer. The last unit in the forward pass stays
        gathered until its backward pass. With a pipeline all units stay gathered in a step: their
        micro-batches alternate.
        """
        job = self._job
        parts = 1 if job.layout.pp > 1 else job.micro_batches
        reduced = 1 if job.holds or job.layout.pp > 1 else job.micro_batches
        keeps = job.layout.pp > 1 or job.layout.zero == 2
        sizes: dict[tuple[float, bool], int] = {}
        for place, one in enumerate(units):
            elements = one.dense if name == "dp" else one.experts
            kept = keeps or (not one.is_layer and place == len(units) - 1)
            sizes[elements, kept] = sizes.get((elements, kept), 0) + 1
        for (elements, kept), number in sizes.items():
            gathered, gradients = elements * job.element_bytes, elements * job.gradient_bytes
            passes = [("forward", "parameters in the forward pass")]
            passes += [] if kept else [("backward", "parameters in the backward pass")]
            for window, purpose in passes:
                yield self._of(name, "all_gather", purpose, gathered, number * parts, window)
            window = "backward" if reduced == parts and job.layout.pp == 1 else "last backward"
            yield self._of(name, "reduce_scatter", "gradients", gradients, number * reduced, window)
            if name == "dp":
                copies = gradients / self._groups["dp"].size
                yield self._of(
                    "copies", "all_reduce", "gradients", copies, number * reduced, window
                )

    # Tensor and sequence parallelism.

    def _tensor(self) -> Iterator[GroupTraffic]:
        """See Shoeybi et al., arXiv 1909.08053, section 3; with sp Korthikanti et al., 2205.05198.

        A network of experts has no messages of tp: experts are not divided by it.
        """
        job, layout = self._job, self._job.layout
        if layout.tp == 1:
            return
        size = self._activations * job.element_bytes
        matrices = sum(
            2 if number < job.model.dense_layers or not job.model.experts else 1
            for number in self._layers
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
            ends = parts * (self._is_first + self._is_last)
            yield self._of("tp", "all_gather", "activations of the ends", size, ends)
            tensors = (4 if model.has_biases else 2) * len(self._layers)
            norm = model.width * job.element_bytes
            yield self._of("tp", "all_reduce", "gradients of norms", norm, tensors * parts)
        if self._is_last and not model.tied:
            logits = size // model.width * model.vocabulary
            yield self._of("tp", "all_gather", "logits", logits, parts)
            yield self._of("tp", "all_reduce", "gradients of activations", size, parts)

    def _ends_of_megatron(self, size: float) -> Iterator[GroupTraffic]:
        """The embedding and the output head are divided by words, and so is the loss."""
        job, parts = self._job, self._job.micro_batches
        sp = job.layout.sp
        if self._is_first and sp:
            yield self._of("tp", "reduce_scatter", "embedding", size, parts)
            yield self._of("tp", "all_gather", "gradients of the embedding", size, parts)
        elif self._is_first:
            yield self._of("tp", "all_reduce", "embedding", size, parts)
        if self._is_last and sp:
            yield self._of("tp", "all_gather", "activations of the output head", size, 2 * parts)
            yield self._of("tp", "reduce_scatter", "gradients of the output head", size, parts)
        elif self._is_last:
            yield self._of("tp", "all_reduce", "gradients of the output head", size, parts)
        if self._is_last:
            loss = self._activations // job.model.width * _FLOAT
            yield self._of("tp", "all_reduce", "loss", loss, 3 * parts)
        if sp:
            norms = 2 * job.model.norm_parameters * len(self._layers) * job.gradient_bytes
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
        number = (layout.cp - 1) * passes * len(self._layers) * job.micro_batches
        yield self._of("cp", "send", "keys and values", size, number, "attention")

    def _experts(self) -> Iterator[GroupTraffic]:
        """Tokens travel to their experts and back, in both passes; all experts get as many."""
        job, layout = self._job, self._job.layout
        rows = self._activations / layout.tp * job.model.active_experts
        layers = sum(number >= job.model.dense_layers for number in self._layers)
        number = 2 * layers * job.micro_batches * (2 + job.recompute)
        yield self._of("ep", "alltoall", "tokens of experts", rows * job.element_bytes, number)

    def _pipeline(self) -> Iterator[GroupTraffic]:
        """Activations to the next stage, and gradients to the one before (arXiv 2104.04473).

        With ``vp`` parts, the last stage sends to the first one, too.
        """
        job, layout = self._job, self._job.layout
        if layout.pp == 1:
            return
        size = self._activations / (layout.tp if layout.sp else 1) * job.element_bytes
        forward = (layout.vp - self._is_last) * job.micro_batches
        back = (layout.vp - self._is_first) * job.micro_batches
        yield self._of("pp", "send", "activations", size, forward)
        yield self._of("pp", "send", "gradients of activations", size, back)
        if job.model.tied and (self._is_first or self._is_last):
            words = float(job.model.vocabulary * job.model.width)
            words /= 1 if self._is_torch else layout.tp
            words /= self._groups["dp"].size if layout.zero == 3 else 1
            group = Group(2, self._groups["pp"].stride * (layout.pp - 1))
            on_node = group.on_node(job.node_devices)
            yield GroupTraffic(
                *("embedding", 2, on_node, "all_reduce", "gradients of the embedding"),
                *(words * job.gradient_bytes, 1),
            )


def traffic_of(job: TrainingJob, stage: int) -> list[GroupTraffic]:
    """What a device of a stage of the pipeline sends in a step; stages count from 0."""
    return _merged(_Device(job, stage).messages())


def busiest_stage(job: TrainingJob) -> int:
    """The stage whose devices send most to other nodes, or else within their node."""
    stages = sorted({0, 1, job.layout.pp - 2, job.layout.pp - 1} & {*range(job.layout.pp)})

    def bytes_of(stage: int) -> tuple[float, float]:
        found = traffic_of(job, stage)
        return sum(one.network_bytes for one in found), sum(one.node_bytes for one in found)

    return max(stages, key=bytes_of)


def _merged(messages: Iterator[GroupTraffic]) -> list[GroupTraffic]:
    """One entry for equal messages."""
    found: dict[GroupTraffic, float] = {}
    for one in messages:
        key = msgspec.structs.replace(one, messages=0)
        found[key] = found.get(key, 0) + one.messages
    return [msgspec.structs.replace(one, messages=number) for one, number in found.items()]
