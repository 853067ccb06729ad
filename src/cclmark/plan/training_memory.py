"""The memory that a training requires at least.

Parameters, gradients and the state of the optimizer are exact. Activations are what autograd keeps
for the backward pass of this implementation (run/training/transformer.py) with fused kernels of
attention and norms; workspaces and fragmentation come on top. So a training that does not fit by
this estimate is impossible, and one that fits may still run out of memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from cclmark.plan.models import GPT, Model
from cclmark.plan.sizes import format_size
from cclmark.plan.training_choices import (
    ADAMW,
    DDP,
    DTYPES,
    EXPERT,
    FSDP,
    MIXED,
    PIPELINE,
    PRODUCT_BYTES,
    TENSOR,
    ZERO1,
)
from cclmark.plan.trainings import Training

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class MemoryNeed:
    """The memory that a rank requires at one moment of a step, in bytes.

    ``buffers``: gathered parameters, or the buckets through which gradients are communicated.
    ``copies``: of parameters in the type of products, which autocast keeps.
    """

    parameters: int
    optimizer: int
    gradients: int = 0
    buffers: int = 0
    copies: int = 0
    activations: int = 0

    @property
    def total(self) -> int:
        """The sum."""
        states = self.parameters + self.optimizer + self.gradients
        return states + self.buffers + self.copies + self.activations

    def describe(self) -> str:
        """The parts in words."""
        parts = [
            ("parameters", self.parameters),
            ("optimizer", self.optimizer),
            ("gradients", self.gradients),
            ("communication buffers", self.buffers),
            ("copies for products", self.copies),
            ("activations", self.activations),
        ]
        return ", ".join(f"{name} {format_size(size)}" for name, size in parts if size)


def memory_of(one: Training) -> MemoryNeed:
    """The least memory of the rank that requires most, at the moment at which it does.

    The moments are those at which one part is complete: the loss (all activations, no gradients),
    the start of the backward pass of the layers, and the update (all gradients, no activations).
    """
    return max(_moments(one), key=lambda need: need.total)


def _moments(one: Training) -> list[MemoryNeed]:
    if one.parallel == FSDP:
        return _moments_of_shards(one)
    if one.parallel == PIPELINE:
        return [need for rank in range(one.ranks) for need in _moments_of_stage(one, rank)]
    held = _held_parameters(one)
    owned = math.ceil(held / one.ranks) if one.parallel == ZERO1 else held
    bytes_each = DTYPES[one.dtype]
    states = partial(
        MemoryNeed,
        parameters=held * bytes_each,
        optimizer=_states(one, owned),
        buffers=_bucketed(one) * bytes_each,
    )
    tokens = one.batch * one.sequence
    activations = _kept(one, tokens, one.model.layers) + _output(one.model, tokens)
    return [
        states(activations=0 if one.compiled else activations, copies=_autocast_copies(one)),
        states(gradients=held * bytes_each),
    ]


def _moments_of_shards(one: Training) -> list[MemoryNeed]:
    """Of FSDP, whose units are the layers, the embedding and the output head with the last norm; a
    tied output head makes one unit of both ends, see run/training/sharded.py.
    """
    model, tokens = one.model, one.batch * one.sequence
    product_bytes = PRODUCT_BYTES[one.dtype]
    shard = math.ceil(model.parameters / one.ranks)
    states = partial(
        MemoryNeed, parameters=shard * DTYPES[one.dtype], optimizer=_states(one, shard)
    )
    # Gathered until the backward pass of the output head.
    end = model.head_parameters + (model.embedding_parameters if model.tied else 0)
    kept = _kept(one, tokens, model.layers)
    # One layer computes, and the next one is gathered. The gradient of a tied output head remains
    # whole until that of the embedding is added.
    layers = min(2, model.layers) * model.layer_parameters
    tied = end if model.tied else 0
    return [
        states(buffers=end * product_bytes, activations=kept + _output(model, tokens)),
        states(
            buffers=(layers + tied) * product_bytes,
            gradients=tied * product_bytes,
            activations=kept,
        ),
        states(gradients=shard * DTYPES[one.dtype]),
    ]


def _moments_of_stage(one: Training, rank: int) -> list[MemoryNeed]:
    """Of a stage of a pipeline with the schedule 1F1B: as many microbatches are between their
    forward and their backward pass as stages follow, this one included.
    """
    model, ranks, parts = one.model, one.ranks, one.microbatches or 1
    layers = (rank + 1) * model.layers // ranks - rank * model.layers // ranks
    held = layers * model.layer_parameters
    is_last = rank == ranks - 1
    if rank == 0:
        held += model.embedding_parameters
    if is_last:
        held += model.head_parameters
        held += model.vocabulary * model.width if model.tied else 0
    bytes_each = DTYPES[one.dtype]
    tokens = one.batch // parts * one.sequence
    begun = min(parts, ranks - rank)
    activations = _kept(one, begun * tokens, layers)
    if is_last:
        activations += _output(model, tokens)
    need = MemoryNeed(
        parameters=held * bytes_each,
        optimizer=_states(one, held),
        gradients=held * bytes_each,
        # What arrives of each microbatch: activations, and their gradients.
        buffers=((rank > 0) + (not is_last)) * parts * tokens * model.width * bytes_each,
    )
    # After the first backward pass all gradients exist beside the activations.
    beside = replace(need, activations=activations)
    return [need, beside if parts > begun else replace(beside, gradients=0)]


def _bucketed(one: Training) -> int:
    """The parameters whose gradients DistributedDataParallel sums."""
    if one.parallel in (DDP, ZERO1):
        return one.model.parameters
    if one.parallel == EXPERT:
        return one.model.parameters - one.model.layers * one.model.expert_parameters
    return 0


def _held_parameters(one: Training) -> int:
    """The parameters of a rank."""
    model, ranks = one.model, one.ranks
    if one.parallel == EXPERT:
        experts = model.layers * model.expert_parameters
        return model.parameters - experts + experts // ranks
    if one.parallel == TENSOR:
        network = (2 if model.family == GPT else 3) * model.width * model.hidden
        matrices = model.width * (model.projected + model.width) + network
        shared = model.layers * matrices + (0 if model.tied else model.vocabulary * model.width)
        return model.parameters - shared + shared // ranks
    return model.parameters


def _states(one: Training, owned: int) -> int:
    """The bytes of the optimizer's state of ``owned`` parameters."""
    return (2 if one.optimizer == ADAMW else 0) * owned * DTYPES[one.dtype]


def _autocast_copies(one: Training) -> int:
    """The bytes of the matrices that autocast keeps beside the parameters.

    0 for a compiled model, which may cast them again.
    """
    if one.dtype != MIXED or one.compiled:
        return 0
    model = one.model
    network = model.expert_parameters or (2 if model.family == GPT else 3) * (
        model.width * model.hidden
    )
    layer = model.width * (model.projected + model.width) + network
    matrices = model.layers * layer + model.vocabulary * model.width
    return matrices * PRODUCT_BYTES[one.dtype]


def _output(model: Model, tokens: int) -> int:
    """The bytes of the output head's logits in the backward pass: the logarithms of the
    probabilities, their gradients and those of the logits, all in float32.
    """
    return tokens * model.vocabulary * 3 * _FLOAT_BYTES


def _kept(one: Training, tokens: int, layers: int) -> int:
    """The bytes that autograd keeps of layers at the end of the forward pass: inputs of norms and
    of matrices, queries, keys, values, outputs of attention.
    """
    model, shared = one.model, one.ranks if one.parallel == TENSOR else 1
    product_bytes = PRODUCT_BYTES[one.dtype]
    # Under autocast, the residual stream has the type of the parameters.
    stream_bytes = DTYPES[one.dtype] if one.parallel != FSDP else product_bytes
    projected = model.projected
    if model.family != GPT:  # queries and keys are rotated, and values a view of the projection
        projected += (model.heads + model.key_value_heads) * model.head_width
    inner = (2 if model.family == GPT else 4) * model.hidden * max(model.active_experts, 1)
    inner += 2 * model.active_experts * model.width
    products = 2 * model.width + (model.width + projected + inner) // shared
    return tokens * layers * (2 * model.width * stream_bytes + products * product_bytes)
