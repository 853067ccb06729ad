"""What a device of a training job holds: the job, the layers of a stage, parameters and buckets.

A stage of the pipeline holds layers, its devices their share of each tensor. Frameworks gather and
reduce these in units (a layer, or embedding and head) or in buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.counts import AtLeastOne
from cclmark.work.models import Model
from cclmark_planning.scale.frameworks import FRAMEWORKS, PRECISIONS, TORCH
from cclmark_planning.scale.layout import JobLayout

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Framework: TypeAlias = str
    Precision: TypeAlias = str
else:
    Framework = Literal[FRAMEWORKS]
    Precision = Literal[tuple(PRECISIONS)]


class TrainingJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A training job. ``batch``: sequences of all replicas in a step, ``micro_batch``: those that a
    device computes at once; ``sequence``: tokens in each.

    ``precision``: see PRECISIONS; ``gradient_bytes``: of an element when gradients are reduced.
    ``recompute``: whether the forward pass of layers is repeated in the backward pass. ``holds``:
    whether gradients of zero 2 and 3 are reduced after the last micro-batch only, as those of zero
    0 and 1 always are. ``scatters``: whether devices of tp send a part of the activations each to
    the next stage and gather them there (arXiv 2104.04473, section 4.1).
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
    scatters: bool = False

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
    if model.experts and layout.tp > 1:
        raise UsageError("tp with experts is not supported: choose tp=1")
    if layout.ep > 1 and layout.shard:
        raise UsageError("shard with ep is not supported: leave shard out, or choose ep=1")
    if job.framework == TORCH and layout.cp > 1:
        raise UsageError("cp is known for --framework megatron only: choose it, or cp=1")
    if layout.zero == 2 and (layout.pp > 1 or job.framework != TORCH):
        raise UsageError(
            "zero=2 is fully_shard without reshard_after_forward, and not supported with pp or "
            "--framework megatron: choose zero=1 or zero=3"
        )
    _check_nodes(job)


def _check_nodes(job: TrainingJob) -> None:
    def objection(per_node: int) -> str:
        try:
            for group in job.layout.groups().values():
                group.on_node(per_node)
        except UsageError as error:
            return str(error)
        return ""

    if text := objection(job.node_devices):
        fits = (one for one in range(job.node_devices - 1, 0, -1) if not objection(one))
        raise UsageError(f"{text}: choose --gpus-per-node {next(fits)}, or another layout")


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


def layers_of(job: TrainingJob, stage: int) -> list[int]:
    """The numbers of the layers of a stage, which counts from 0.

    Where they do not divide evenly, Megatron-LM counts embedding and head as a layer each
    (--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split).
    """
    parts, layers = job.layout.pp * job.layout.vp, job.model.layers
    counted = layers + 2
    is_framed = job.framework != TORCH and layers % parts and counted % parts == 0
    total, shift = (counted, 1) if is_framed else (layers, 0)
    return [
        layer - shift
        for part in range(stage, parts, job.layout.pp)
        for layer in range(part * total // parts, (part + 1) * total // parts)
        if 0 <= layer - shift < layers
    ]


def stages_of(job: TrainingJob) -> dict[int, int]:
    """A stage of each sort, with the number of its layers: first, last, and by layers."""
    sorts: dict[tuple[bool, bool, int, int], int] = {}
    for stage in range(job.layout.pp):
        layers = layers_of(job, stage)
        dense = sum(number < job.model.dense_layers for number in layers)
        is_last = stage == job.layout.pp - 1
        sorts.setdefault((stage == 0, is_last, len(layers), dense), stage)
    return {stage: layers for (_, _, layers, _), stage in sorts.items()}


@dataclass(frozen=True)
class ParameterUnit:
    """Parameters of a device that are gathered together: a layer, or embedding and head.

    ``tensors``: the elements of each, in the order of the forward pass; ``experts``: those of
    experts that other groups of devices hold.
    """

    tensors: Sequence[float]
    experts: Sequence[float] = ()
    is_layer: bool = True


# Of torch 2.11: torch/nn/parallel/distributed.py, bucket_cap_mb and the first bucket; of
# Megatron-LM: megatron/core/distributed/distributed_data_parallel.py, bucket_size.
_TORCH_FIRST_BUCKET, _TORCH_BUCKET = 1 << 20, 25 << 20
_MEGATRON_BUCKET_ELEMENTS = 40_000_000


class StageParameters:
    """What a device of a stage holds; stages count from 0."""

    def __init__(self, job: TrainingJob, stage: int) -> None:
        self._job, self.layers = job, layers_of(job, stage)
        self.is_first, self.is_last = stage == 0, stage == job.layout.pp - 1

    def units(self) -> list[ParameterUnit]:
        """The layers in order, then embedding and output head as far as the stage has them."""
        return [*map(self._layer, self.layers), *self._ends()]

    def _layer(self, number: int) -> ParameterUnit:
        job, layout = self._job, self._job.layout
        model = job.model.dense_layer if number < job.model.dense_layers else job.model
        split = model.attention_matrices + model.network_matrices
        if model.has_biases:  # those of matrices that are divided by columns
            split += model.projected + model.hidden
        rest: float = model.layer_parameters - model.expert_parameters - split
        output = model.heads * model.head_width * model.width
        matrices: list[float] = [model.attention_matrices - output, output]
        parts = 2 if model.has_biases else 3
        network = [model.network_matrices / parts / layout.tp] * (
            parts if model.network_matrices else 0
        )
        if model.has_biases:
            rest += (model.projected + model.hidden) / layout.tp
        # Norms and biases are small: half of them stands before each part of the layer.
        tensors = [rest / 2, *(one / layout.tp for one in matrices), rest / 2, *network]
        experts = [model.width * model.hidden] * (3 * model.experts // layout.ep)
        if layout.ep == 1:
            return ParameterUnit([*tensors, *experts])
        return ParameterUnit(tensors, experts)

    def _ends(self) -> list[ParameterUnit]:
        """Embedding and output head, as far as the stage has them."""
        model, tp = self._job.model, self._job.layout.tp
        words = model.vocabulary * model.width
        rest = model.embedding_parameters - words
        # torch: the embedding and a head that shares it are equal on all devices of tp.
        own_words = words if self._job.framework == TORCH else words / tp
        norm = model.norm_parameters
        found = []
        if model.tied and (self.is_first or self.is_last):
            tensors = [own_words, rest * self.is_first, norm * self.is_last]
            found.append(ParameterUnit([one for one in tensors if one], is_layer=False))
        elif not model.tied:
            if self.is_first:
                tensors = [own_words, rest]
                found.append(ParameterUnit([one for one in tensors if one], is_layer=False))
            if self.is_last:
                found.append(ParameterUnit([norm, words / tp], is_layer=False))
        return found

    def buckets(self, units: Sequence[ParameterUnit]) -> list[float]:
        """The elements of each bucket, in the order in which gradients are ready: the last first.

        A tensor is never divided, so that a bucket may be larger than its limit:
        _compute_bucket_assignment_by_size of torch, _ParamAndGradBuffer of Megatron-LM.
        """
        layers = [size for one in units if one.is_layer for size in one.tensors]
        ends = [[*one.tensors] for one in units if not one.is_layer]
        begin = ends.pop(0) if self.is_first and ends else []
        end = [size for one in ends for size in one]
        if self._job.model.tied and self.is_first and self.is_last:
            end.append(begin.pop())  # the last norm
        tensors = [*begin, *layers, *end]
        if self._job.framework == TORCH:
            sizes_bytes = (_TORCH_FIRST_BUCKET, _TORCH_BUCKET)
            limits = [one / self._job.gradient_bytes for one in sizes_bytes]
        else:
            limits = [max(_MEGATRON_BUCKET_ELEMENTS, 1_000_000 * self._job.layout.replicas)]
        found, bucket = list[float](), 0.0
        for size in reversed(tensors):
            bucket += size
            if bucket >= limits[0]:
                found.append(bucket)
                bucket, limits = 0.0, limits[-1:]
        return [*found, bucket] if bucket else found
