"""The memory that a training requires at least.

Parameters, gradients and the state of the optimizer are exact. Activations are what autograd keeps
for the backward pass of this implementation (torch/transformer.py) with fused kernels of attention
and norms; workspaces and fragmentation come on top. So a training that does not fit by this
estimate is impossible, and one that fits may still run out of memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.models import GPT, Model
from cclmark.work.sizes import format_size
from cclmark_training.choices import (
    ADAMW,
    DDP,
    DTYPES,
    EXPERT,
    FSDP,
    MIXED,
    NONE,
    PRODUCT_BYTES,
    TENSOR,
    ZERO1,
)
from cclmark_training.layout import MeshLayout
from cclmark_training.plan import Training, check_training

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
    layout = one.degrees
    if layout.pp > 1:
        return [need for stage in range(layout.pp) for need in _moments_of_stage(one, stage)]
    if layout.fsdp > 1:
        return _moments_of_shards(one)
    held = _held_parameters(one)
    owned = math.ceil(held / one.ranks) if one.parallel == ZERO1 else held
    bytes_each = DTYPES[one.dtype]
    states = partial(
        MemoryNeed,
        parameters=held * bytes_each,
        optimizer=_states(one, owned),
        buffers=_bucketed(one, held) * bytes_each,
    )
    tokens = one.micro_batch * one.sequence
    activations = _kept(one, tokens, one.model.layers) + _output(one.model, tokens)
    # The gradients of the parts before exist beside the activations of a part.
    gradients = held * bytes_each
    return [
        states(
            gradients=gradients if one.microbatches else 0,
            activations=0 if one.compiled else activations,
            copies=_autocast_copies(one),
        ),
        states(gradients=gradients),
    ]


def _moments_of_shards(one: Training) -> list[MemoryNeed]:
    """Of FSDP, whose units are the layers, the embedding and the output head with the last norm; a
    tied output head makes one unit of both ends, see cclmark_training/torch/meshed.py.
    """
    model, tokens = one.model, one.micro_batch * one.sequence
    product_bytes, bytes_each = PRODUCT_BYTES[one.dtype], DTYPES[one.dtype]
    held = _held_parameters(one)
    shard = math.ceil(held / one.degrees.fsdp)
    states = partial(MemoryNeed, parameters=shard * bytes_each, optimizer=_states(one, shard))
    # Gathered until the backward pass of the output head.
    end = _head_parameters(one) + (model.embedding_parameters if model.tied else 0)
    kept = _kept(one, tokens, model.layers)
    # One layer computes, and the next one is gathered. The gradient of a tied output head remains
    # whole until that of the embedding is added.
    layers = min(2, model.layers) * _layer_parameters(one)
    tied = end if model.tied else 0
    gathered = held if one.uneven else 0  # all of it, between the parts of a batch
    # The gradients of the parts before are whole until they are reduced with those of the last one.
    whole = held * bytes_each if one.microbatches else 0
    return [
        states(
            buffers=max(end, gathered) * product_bytes,
            gradients=whole,
            activations=kept + _output(model, tokens),
        ),
        states(
            buffers=max(layers + tied, gathered) * product_bytes,
            gradients=max(tied * product_bytes, whole),
            activations=kept,
        ),
        states(gradients=shard * bytes_each),
    ]


def _moments_of_stage(one: Training, stage: int) -> list[MemoryNeed]:
    """Of a stage of a pipeline with the schedule 1F1B: as many microbatches are between their
    forward and their backward pass as stages follow, this one included.
    """
    model, stages, parts = one.model, one.degrees.pp, one.microbatches or 1
    layers = (stage + 1) * model.layers // stages - stage * model.layers // stages
    held = layers * _layer_parameters(one)
    is_last = stage == stages - 1
    if stage == 0:
        held += model.embedding_parameters
    if is_last:
        held += _head_parameters(one)
        held += model.vocabulary * model.width if model.tied else 0
    bytes_each, shards = DTYPES[one.dtype], one.degrees.fsdp
    tokens = one.micro_batch * one.sequence
    begun = min(parts, stages - stage)
    activations = _kept(one, begun * tokens, layers)
    if is_last:
        activations += _output(model, tokens)
    own = math.ceil(held / shards)
    # What arrives of each microbatch: activations, and their gradients.
    arriving = ((stage > 0) + (not is_last)) * parts * tokens * model.width
    buffers = arriving // _sequence_parts(one) * PRODUCT_BYTES[one.dtype]
    buffers += _bucketed(one, held) * bytes_each
    if shards > 1:  # gathered until the last microbatch
        buffers += held * PRODUCT_BYTES[one.dtype]
    need = MemoryNeed(
        parameters=own * bytes_each,
        optimizer=_states(one, own),
        gradients=held * bytes_each,
        buffers=buffers,
    )
    # After the first backward pass all gradients exist beside the activations.
    beside = replace(need, activations=activations)
    return [need, beside if parts > begun else replace(beside, gradients=0)]


def _bucketed(one: Training, held: int) -> int:
    """The parameters whose gradients DistributedDataParallel sums."""
    if one.parallel == EXPERT:
        return one.model.parameters - one.model.layers * one.model.expert_parameters
    return held if one.degrees.dp > 1 else 0


def _held_parameters(one: Training) -> int:
    """The parameters of a rank, all shards together."""
    model = one.model
    if one.parallel == EXPERT:
        experts = model.layers * model.expert_parameters
        return model.parameters - experts + experts // one.ranks
    layers = model.layers * _layer_parameters(one)
    return model.embedding_parameters + layers + _head_parameters(one)


def _layer_parameters(one: Training) -> int:
    """The parameters of a layer on a tensor rank."""
    model = one.model
    network = (2 if model.family == GPT else 3) * model.width * model.hidden
    matrices = model.width * (model.projected + model.width) + network
    return model.layer_parameters - matrices + matrices // one.degrees.tp


def _head_parameters(one: Training) -> int:
    """The parameters of the last norm and of an untied output head on a tensor rank."""
    head = one.model.head_parameters - one.model.norm_parameters
    return one.model.norm_parameters + head // one.degrees.tp


def _sequence_parts(one: Training) -> int:
    return one.degrees.tp if one.by_sequence else 1


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
    model, shared = one.model, one.degrees.tp
    product_bytes = PRODUCT_BYTES[one.dtype]
    # Under autocast, the residual stream has the type of the parameters.
    stream_bytes = DTYPES[one.dtype] if one.degrees.fsdp == 1 else product_bytes
    projected = model.projected
    if model.family != GPT:  # queries and keys are rotated, and values a view of the projection
        projected += (model.heads + model.key_value_heads) * model.head_width
    inner = (2 if model.family == GPT else 4) * model.hidden * max(model.active_experts, 1)
    inner += 2 * model.active_experts * model.width
    products = 2 * model.width + (model.width + projected + inner) // shared
    stream = 2 * model.width * stream_bytes // _sequence_parts(one)
    return tokens * layers * (stream + products * product_bytes)


#: Parallelisms that hold less on each rank, the nearest one first. A pipeline keeps its own, since
#: --microbatches would have to be left out.
_SHARDING = {DDP: (ZERO1, FSDP), ZERO1: (FSDP,), EXPERT: (FSDP,), TENSOR: (FSDP,)}
_SMALLEST_DTYPE = "bfloat16"
_MOST_MICROBATCHES = 4096  # that --microbatches accepts
_SHORTEST_SEQUENCE = 16
_MOST_DOUBLINGS = 6
_MOST_SHOWN = 4

Fits = Callable[[Training], bool]


@dataclass(frozen=True)
class _Knob:
    """A number that may be smaller. ``values``: those below the current one, the least first."""

    values: Callable[[Training], Sequence[int]]
    set: Callable[[Training, int], Training]


def _fewer_sequences(one: Training) -> Sequence[int]:
    parts = one.microbatches
    if one.uneven:
        return ()
    if not parts:
        return range(1, one.batch)
    # Below their number, a microbatch has one sequence.
    single = range(max(2, one.degrees.pp), min(parts, _MOST_MICROBATCHES + 1))
    return [*single, *range(parts, one.batch, parts)]


def _with_batch(one: Training, batch: int) -> Training:
    return msgspec.structs.replace(one, batch=batch, microbatches=min(one.microbatches, batch))


def _shorter(one: Training) -> Sequence[int]:
    halves = (one.sequence >> shift for shift in range(1, one.sequence.bit_length()))
    return sorted(half for half in halves if half >= _SHORTEST_SEQUENCE)


_BATCH = _Knob(_fewer_sequences, _with_batch)
_LAYERS = _Knob(
    lambda one: range(one.degrees.pp, one.model.layers),
    lambda one, number: msgspec.structs.replace(one, model=one.model.with_layers(number)),
)
_SEQUENCE = _Knob(_shorter, lambda one, number: msgspec.structs.replace(one, sequence=number))

#: The options that are changed, in the order in which they are printed.
_OPTIONS: dict[str, Callable[[Training], str | int]] = {
    "--parallel": lambda it: it.parallel,
    "--layout": lambda it: it.layout.describe() if it.layout is not None else "",
    "--dtype": lambda it: it.dtype,
    "--batch": lambda it: it.batch,
    "--microbatches": lambda it: it.microbatches,
    "--sequence": lambda it: it.sequence,
    "--layers": lambda it: it.model.layers,
}


def shortage(one: Training, free_bytes: int, cause: str = "", *, on_host: bool = False) -> str:
    """Why the training does not fit into ``free_bytes``, and what would, in words.

    ``on_host``: the ranks share the memory of the host.
    """
    need = memory_of(one)
    fitting = what_fits(one, free_bytes, on_host=on_host)
    least = "at least " if not cause else ""
    parts = f" in {one.parts_text} microbatches" if one.microbatches else ""
    text = (
        f"{one.model.describe()}, {one.arrangement} over {one.ranks} rank{'s' * (one.ranks > 1)}, "
        f"batch {one.batch} x {one.sequence}{parts}, {one.dtype}, {one.optimizer}, requires {least}"
        f"{format_size(need.total)} of memory per rank ({need.describe()}); "
        f"{format_size(free_bytes)} are free"
    )
    remedy = (
        f"it fits by this estimate with {', or with '.join(fitting)}"
        if fitting
        else "no change that was tried (--parallel, --dtype, --batch, --layers, --sequence) "
        "makes it fit: "
        "choose a smaller --model or --vocabulary"
    )
    return f"{cause + ': ' if cause else ''}{text}: {remedy}"


def what_fits(one: Training, limit_bytes: int, *, on_host: bool = False) -> list[str]:
    """Changes, as options, with any one of which the training fits; empty if none is known.

    Each lowers the estimate, and the first one changes the model least. ``on_host``: more ranks
    share the same memory.
    """
    limit_bytes = min(limit_bytes, memory_of(one).total - 1)

    def fits(other: Training) -> bool:
        return _is_possible(other) and memory_of(other).total <= limit_bytes

    found = _remedies(one, fits)
    texts = [" ".join(f"{name} {value}" for name, value in _changes(one, it)) for it in found]
    ranks = 0 if on_host else _more_ranks(one, fits)
    return [*texts, *([f"{ranks} devices"] if ranks else [])]


def _is_possible(one: Training) -> bool:
    try:
        check_training(one)
    except UsageError:
        return False
    return True


def _remedies(one: Training, fits: Fits) -> list[Training]:
    """Trainings that fit, the one with the smallest change of the model first."""

    def number_of_changes(other: Training) -> int:
        return len(_changes(one, other))

    frames = list(_frames(one))
    kept = [*frames[1:], *(_largest_in(frame, (_BATCH,), fits) for frame in frames)]
    whole = _simplest(one, [it for it in kept if it is not None and fits(it)])
    fewer = _largest_in(one, (_LAYERS,), fits)
    if whole:
        return [*whole[:_MOST_SHOWN], *([fewer] if fewer is not None else [])]
    found = _all_in(frames, [(_LAYERS,), (_LAYERS, _BATCH)], fits)
    if found:
        most_layers = max(found, key=lambda it: (it.model.layers, -number_of_changes(it)))
        nearest = min(found, key=lambda it: (number_of_changes(it), -it.model.layers))
        return [most_layers] if nearest == most_layers else [most_layers, nearest]
    found = _all_in(frames, [(_SEQUENCE,), (_SEQUENCE, _BATCH)], fits)
    if not found:
        found = _all_in(frames, [(_LAYERS, _SEQUENCE), (_LAYERS, _SEQUENCE, _BATCH)], fits)
    largest = sorted(
        found, key=lambda it: (it.model.layers, it.sequence, -number_of_changes(it)), reverse=True
    )
    return largest[:1]


def _frames(one: Training) -> Iterator[Training]:
    """The training with other parallelisms, types and microbatches, itself first."""
    dtypes = [one.dtype, *([_SMALLEST_DTYPE] if one.dtype != _SMALLEST_DTYPE else [])]
    parts = [one.microbatches]
    if one.microbatches and not one.uneven:
        more = range(one.microbatches + 1, min(one.batch, _MOST_MICROBATCHES) + 1)
        parts += [number for number in more if one.batch % number == 0]
    for parallel, layout in _shardings(one):
        for dtype in dtypes:
            for number in parts:
                yield msgspec.structs.replace(
                    one, parallel=parallel, layout=layout, dtype=dtype, microbatches=number
                )


def _shardings(one: Training) -> list[tuple[str, MeshLayout | None]]:
    """Its own parallelism and layout, then those that hold less on each rank."""
    layout = one.layout
    found = [(name, layout) for name in (one.parallel, *_SHARDING.get(one.parallel, ()))]
    if layout is not None and layout.dp > 1:
        found.append((one.parallel, msgspec.structs.replace(layout, dp=1, fsdp=layout.dp)))
    return found


def _all_in(
    frames: Sequence[Training], knobs: Sequence[tuple[_Knob, ...]], fits: Fits
) -> list[Training]:
    found = (_largest_in(frame, some, fits) for some in knobs for frame in frames)
    return [it for it in found if it is not None]


def _largest_in(frame: Training, knobs: Sequence[_Knob], fits: Fits) -> Training | None:
    """The largest training that fits with smaller numbers than those of ``frame``.

    The first knob is raised as far as possible before the next one. None if none fits.
    """
    values = [knob.values(frame) for knob in knobs]
    if not all(values):
        return None
    chosen = [0] * len(knobs)

    def at(places: Sequence[int]) -> Training:
        one = frame
        for knob, own, place in zip(knobs, values, places, strict=True):
            one = knob.set(one, own[place])
        return one

    if not fits(at(chosen)):
        return None
    for turned, own in enumerate(values):

        def turned_to(place: int, turned: int = turned) -> list[int]:
            return [*chosen[:turned], place, *chosen[turned + 1 :]]

        chosen[turned] = _last(len(own), lambda place: fits(at(turned_to(place))))
    return at(chosen)


def _last(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number below ``count`` that fits, where 0 does. More requires more memory."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _changes(one: Training, other: Training) -> list[tuple[str, str]]:
    """The options, with their values, that differ."""
    return [(name, str(of(other))) for name, of in _OPTIONS.items() if of(one) != of(other)]


def _simplest(one: Training, found: Sequence[Training]) -> list[Training]:
    """Of trainings that change the same options the first one, and only if fewer do not suffice."""
    by_options: dict[frozenset[str], Training] = {}
    for other in found:
        by_options.setdefault(frozenset(name for name, _ in _changes(one, other)), other)
    kept = [it for it in by_options if not any(fewer < it for fewer in by_options)]
    return [by_options[it] for it in sorted(kept, key=len)]


def _more_ranks(one: Training, fits: Fits) -> int:
    """The least power of two times the ranks with which the same training fits; 0 if none does.

    Without shards, each rank requires the same memory, whatever their number.
    """
    if one.parallel == NONE:
        return 0
    more = (one.ranks << shift for shift in range(1, _MOST_DOUBLINGS + 1))
    return next((ranks for ranks in more if fits(msgspec.structs.replace(one, ranks=ranks))), 0)
