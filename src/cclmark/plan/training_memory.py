"""The memory that a training requires at least, and what would fit.

Parameters, gradients and the state of the optimizer are exact. Activations are what autograd keeps
for the backward pass of this implementation (run/training/transformer.py) with a fused attention
kernel; workspaces and fragmentation come on top. So a training that does not fit by this
estimate is impossible, and one that fits may still run out of memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from cclmark.plan.models import GPT, Model
from cclmark.plan.sizes import format_size
from cclmark.plan.training_choices import ADAMW, DDP, DTYPES, EXPERT, FSDP, PIPELINE, TENSOR, ZERO1
from cclmark.plan.trainings import Training

_FLOAT_BYTES = 4
_MOST_BATCH = 1 << 20


@dataclass(frozen=True)
class MemoryNeed:
    """The memory of the rank that requires most, in bytes.

    ``buckets``: buffers through which gradients or parameters are communicated.
    """

    parameters: int
    gradients: int
    optimizer: int
    buckets: int
    activations: int

    @property
    def total(self) -> int:
        """The peak: gradients grow while the backward pass releases activations."""
        fixed = self.parameters + self.optimizer + self.buckets
        return fixed + max(self.activations, self.gradients)

    def describe(self) -> str:
        """The parts in words."""
        parts = [
            ("parameters", self.parameters),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
            ("communication buffers", self.buckets),
            ("activations", self.activations),
        ]
        return ", ".join(f"{name} {format_size(size)}" for name, size in parts if size)


def memory_of(one: Training) -> MemoryNeed:
    """The least memory of a rank."""
    model, width = one.model, DTYPES[one.dtype]
    held = _held_parameters(one)
    owned = _owned_parameters(one, held)
    states = 2 if one.optimizer == ADAMW else 0
    buckets = held * width if one.parallel in (DDP, ZERO1) else 0
    if one.parallel == FSDP:
        # One layer computes, and the next one is gathered.
        buckets = min(2, model.layers) * model.layer_parameters * width
    return MemoryNeed(
        parameters=held * width,
        gradients=held * width,
        optimizer=states * owned * width,
        buckets=buckets,
        activations=_activations(one),
    )


def _held_parameters(one: Training) -> int:
    """The parameters of the rank that holds most."""
    model, ranks = one.model, one.ranks
    if one.parallel == FSDP:
        return math.ceil(model.parameters / ranks)
    if one.parallel == EXPERT:
        experts = model.layers * model.expert_parameters
        return model.parameters - experts + experts // ranks
    if one.parallel == TENSOR:
        network = (2 if model.family == GPT else 3) * model.width * model.hidden
        matrices = model.width * (model.projected + model.width) + network
        shared = model.layers * matrices + (0 if model.tied else model.vocabulary * model.width)
        return model.parameters - shared + shared // ranks
    if one.parallel == PIPELINE:
        layers = math.ceil(model.layers / ranks)
        ends = max(model.embedding_parameters, model.head_parameters)
        return layers * model.layer_parameters + ends
    return model.parameters


def _owned_parameters(one: Training, held: int) -> int:
    """The parameters whose optimizer state the rank keeps."""
    return math.ceil(held / one.ranks) if one.parallel == ZERO1 else held


def _activations(one: Training) -> int:
    """The bytes that autograd keeps at the end of the forward pass, with the output head's.

    0 for a compiled model, which may compute any of them again.
    """
    if one.compiled:
        return 0
    model, width = one.model, DTYPES[one.dtype]
    tokens = one.batch * one.sequence
    shared = one.ranks if one.parallel == TENSOR else 1
    layers = model.layers
    if one.parallel == PIPELINE:
        tokens //= one.microbatches or 1
        layers = math.ceil(layers / one.ranks)
    kept = tokens * layers * _kept_per_layer(model, shared) * width
    # The output, the same in float32, and the logarithms of the probabilities.
    output = tokens * model.vocabulary * (width + 2 * _FLOAT_BYTES)
    return kept + output


def _kept_per_layer(model: Model, shared: int) -> int:
    """The elements kept for each token: inputs of norms and of matrices, queries, keys, values."""
    inner = (2 if model.family == GPT else 4) * model.hidden * max(model.active_experts, 1)
    inner += model.active_experts * model.width
    return 4 * model.width + (model.width + model.projected + inner) // shared


def what_fits(one: Training, limit_bytes: int) -> list[str]:
    """Changes, in words, with any one of which the training fits; empty if none is known."""
    return list(_fitting(one, lambda other: memory_of(other).total <= limit_bytes))


def _fitting(one: Training, fits: Callable[[Training], bool]) -> Iterator[str]:
    def with_layers(number: int) -> Training:
        return msgspec.structs.replace(one, model=one.model.with_layers(number))

    least = one.ranks if one.parallel == PIPELINE else 1
    if layers := _largest(least, one.model.layers - 1, lambda number: fits(with_layers(number))):
        yield f"--layers {layers}"
    step = one.microbatches or 1
    batch = _largest(
        1,
        min(one.batch - 1, _MOST_BATCH) // step,
        lambda number: fits(msgspec.structs.replace(one, batch=number * step)),
    )
    if batch:
        yield f"--batch {batch * step}"
    if not layers and not batch:
        smallest = msgspec.structs.replace(one, batch=step)
        layers = _largest(
            least,
            one.model.layers - 1,
            lambda number: fits(
                msgspec.structs.replace(smallest, model=one.model.with_layers(number))
            ),
        )
        if layers:
            yield f"--batch {step} --layers {layers}"
    if one.parallel == DDP:
        for parallel in (ZERO1, FSDP):
            if fits(msgspec.structs.replace(one, parallel=parallel)):
                yield f"--parallel {parallel}"
                break


def _largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest number between two that fits, 0 if none does. More requires more memory."""
    if low > high or not fits(low):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def shortage(one: Training, free_bytes: int, cause: str = "") -> str:
    """Why the training does not fit into ``free_bytes``, and what would, in words."""
    need = memory_of(one)
    fitting = what_fits(one, free_bytes)
    least = "at least " if not cause else ""
    text = (
        f"{one.model.describe()}, {one.parallel} over {one.ranks} rank{'s' * (one.ranks > 1)}, "
        f"batch {one.batch} x {one.sequence}, {one.dtype}, {one.optimizer}, requires {least}"
        f"{format_size(need.total)} of memory per rank ({need.describe()}); "
        f"{format_size(free_bytes)} are free"
    )
    remedy = (
        f"it fits by this estimate with {' or '.join(fitting)}"
        if fitting
        else ("no number of layers or sequences fits: use more devices or a smaller --model")
    )
    return f"{cause + ': ' if cause else ''}{text}: {remedy}"
