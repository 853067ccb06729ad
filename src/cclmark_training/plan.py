"""Trainings: steps of a model in parallel, with a variant in a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from cclmark.base.errors import UsageError
from cclmark.work.counts import AtLeastOne, Count
from cclmark.work.items import Item, Value
from cclmark.work.libraries import torch_backend_of
from cclmark.work.models import Model
from cclmark.work.variants import LIBRARY, Variant
from cclmark_training.choices import (
    COMPILABLE,
    DTYPE_ALIASES,
    DTYPES,
    EXPERT,
    FSDP,
    MIXABLE,
    MIXED,
    NONE,
    PIPELINE,
    REPLICATED,
    TENSOR,
    Optimizer,
    Parallelism,
    TrainingType,
)
from cclmark_training.layout import DIMENSIONS, MeshLayout, require_ranks

TRAIN = "train"
_USUAL_BATCH = 4
_MOST_MICROBATCHES = 4096


class Training(msgspec.Struct, frozen=True, omit_defaults=True):
    """Training steps of one model with one variant in one round.

    ``batch``: sequences of a replica in a step, of the one with most; ranks of tensor and pipeline
    parallelism belong to the same replica. ``sequence``: tokens in each. ``microbatches``: parts
    of the batch that are computed one after the other, 0 for the whole batch at once. ``uneven``:
    those of each replica if they differ; ``microbatches`` is the largest. ``dtype``: of parameters
    and arithmetic, see choices.DTYPES. ``balance_weight``: of the auxiliary loss of experts, 0 for
    none. ``peak_flops``: the peak rate of a device in FLOP/s as the user gave it, 0 for the
    published one. ``layout``: of COMBINED, None otherwise. ``by_sequence``: tensor ranks share the
    sequence outside of matrices. ``recipe``: whose numbers are used, see recipes.RECIPES.
    """

    kind: ClassVar[str] = TRAIN
    work: ClassVar[str] = "train"
    size_bytes: ClassVar[int] = 0

    variant: Variant
    round: Count
    ccl: str
    model: Model
    parallel: Parallelism
    ranks: AtLeastOne
    batch: AtLeastOne
    sequence: AtLeastOne
    dtype: TrainingType
    optimizer: Optimizer
    learning_rate: float
    microbatches: Count = 0
    compiled: bool = False
    balance_weight: float = 0.0
    peak_flops: float = 0.0
    layout: MeshLayout | None = None
    by_sequence: bool = False
    uneven: tuple[AtLeastOne, ...] = ()
    recipe: str = ""

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """See work.items.Outlined."""
        return self.without_variant(), {
            "variant": [self.variant.describe()],
            "model": [self.model.describe()],
            "ccl": [self.ccl],
            "parallel": [self.arrangement],
            **({"microbatches": [self.parts_text]} if self.uneven else {}),
        }

    @property
    def library(self) -> str:
        """The backend of torch that communicates."""
        return self.ccl

    @property
    def degrees(self) -> MeshLayout:
        """The layout of the ranks, also of a single parallelism."""
        if self.layout is not None:
            return self.layout
        if self.parallel == TENSOR:
            return MeshLayout(tp=self.ranks)
        if self.parallel == PIPELINE:
            return MeshLayout(pp=self.ranks)
        return MeshLayout(fsdp=self.ranks) if self.parallel == FSDP else MeshLayout(dp=self.ranks)

    def ranks_of(self, group: str) -> int:
        """The ranks of a group: of a dimension of the layout, ``ep``, or layout.TIED."""
        if group in DIMENSIONS:
            return int(getattr(self.degrees, group))
        return self.ranks if group == EXPERT else 2

    @property
    def arrangement(self) -> str:
        """How the training is parallel, in a word: ``ddp``, or a layout: ``tp=2,dp=2``."""
        return self.parallel if self.layout is None else self.layout.describe()

    @property
    def replicas(self) -> int:
        """The number of ranks, or groups of them, that work on different sequences."""
        return self.degrees.replicas

    @property
    def micro_batch(self) -> int:
        """The sequences that a replica computes at once."""
        return self.batch // (self.microbatches or 1)

    @property
    def parts_text(self) -> str:
        """The microbatches as users write them: ``4``, or of each replica: ``3,1``."""
        return ",".join(map(str, self.uneven or (self.microbatches,)))

    @property
    def sequences(self) -> list[int]:
        """The sequences of each replica in a step."""
        if self.uneven:
            return [number * self.micro_batch for number in self.uneven]
        return [self.batch] * self.replicas

    @property
    def global_batch(self) -> int:
        """The sequences of all ranks in a step."""
        return sum(self.sequences)

    @property
    def has_tied_stages(self) -> bool:
        """Whether the first and the last stage of a pipeline hold the whole same embedding."""
        return self.model.tied and self.degrees.pp > 1 and self.degrees.fsdp == 1

    @property
    def comparable_ranks(self) -> tuple[int, ...]:
        """The ranks that hold some parameters that are equal after each step, bit for bit.

        Without replicas these are the stages that share the weights of the embedding.
        """
        layout = self.degrees
        if self.parallel in REPLICATED or (layout.pp * layout.tp > 1 and layout.dp > 1):
            return tuple(range(self.ranks))
        if self.has_tied_stages:
            return tuple(
                layout.rank_at(stage, 0, part)
                for stage in (0, layout.pp - 1)
                for part in range(layout.tp)
            )
        return ()

    @property
    def tokens(self) -> int:
        """The tokens of a step of all ranks together."""
        return self.global_batch * self.sequence

    @property
    def operations(self) -> float:
        """The floating-point operations of a step of all ranks together."""
        return self.tokens * self.model.operations_per_token(self.sequence)

    def describe(self) -> str:
        """The training in words, for messages."""
        return (
            f"{self.model.name} with {self.arrangement}, batch {self.batch} x {self.sequence}, "
            f"{self.ccl}, {self.variant.describe()} (round {self.round + 1})"
        )

    def is_within(self, devices: int) -> bool:
        """Whether there are as many devices as ranks."""
        return self.ranks <= devices

    def series(self) -> Training:
        """The training without its round."""
        return msgspec.structs.replace(self, round=0)

    def without_variant(self) -> Training:
        """What is trained: the training without round, variant and library."""
        return msgspec.structs.replace(self, round=0, variant=Variant(), ccl="")


def dtype_called(name: str) -> str:
    """The full name of a type of parameters. Raises UsageError."""
    full = DTYPE_ALIASES.get(name, name)
    if full not in DTYPES:
        raise UsageError(f"--dtype {name}: choose from {', '.join((*DTYPES, *DTYPE_ALIASES))}")
    return full


def check_training(one: Training) -> None:
    """Raises UsageError for a training that is not possible."""
    model, ranks = one.model, one.ranks
    if one.sequence > model.context:
        raise UsageError(
            f"--sequence {one.sequence}: {model.name} has a context of {model.context} tokens"
        )
    if one.parallel == NONE and ranks > 1:
        raise UsageError(f"--parallel none trains on one rank, but there are {ranks}: add -g 1")
    if one.parallel != NONE and ranks < 2:
        raise UsageError(
            f"--parallel {one.parallel} requires two ranks or more, but there is only {ranks}: see "
            "--devices and -g, or train on one rank with --parallel none"
        )
    layout = one.degrees
    if one.layout is not None:
        require_ranks(layout, ranks)
    if layout.tp > 1:
        _check_heads(model, layout.tp, one.arrangement)
    if layout.pp > 1:
        _check_pipeline(one)
    _check_parts(one)
    if one.by_sequence and layout.tp < 2:
        raise UsageError("--sequence-parallel requires tensor parallelism (tp)")
    if one.by_sequence and one.sequence % layout.tp:
        raise UsageError(
            f"--sequence-parallel: {layout.tp} ranks cannot share {one.sequence} tokens equally"
        )
    if one.parallel == EXPERT and (not model.experts or model.experts % ranks):
        what = f"{model.experts} experts" if model.experts else "no experts"
        raise UsageError(
            f"--parallel ep distributes experts over {ranks} ranks, but {model.name} has {what}"
        )
    if one.compiled and one.parallel not in COMPILABLE:
        raise UsageError(f"--compile is supported with none, ddp and zero1, not {one.parallel}")
    if one.balance_weight and not model.experts:
        raise UsageError(f"--balance-loss requires experts, and {model.name} has none")
    if one.dtype == MIXED and one.parallel not in MIXABLE and layout.fsdp < 2:
        raise UsageError(
            f"--dtype {MIXED} is supported with {', '.join(MIXABLE)} and layouts with fsdp, not "
            f"{one.arrangement}: choose bfloat16 or float32"
        )


def _check_heads(model: Model, ranks: int, arrangement: str) -> None:
    if model.experts:
        raise UsageError(f"{arrangement}: tp does not support experts, which {model.name} has")
    for what, number in (
        ("key and value heads", model.key_value_heads),
        ("columns of the feed-forward network", model.hidden),
    ):
        if number % ranks:
            raise UsageError(f"{arrangement}: {ranks} ranks cannot share {number} {what} equally")


def _check_pipeline(one: Training) -> None:
    stages, fewest = one.degrees.pp, min(one.uneven, default=one.microbatches)
    if one.model.layers < stages:
        raise UsageError(
            f"{one.arrangement}: {one.model.layers} layers are fewer than {stages} stages"
        )
    if fewest < stages:
        raise UsageError(
            f"{one.arrangement}: {fewest} microbatches are fewer than {stages} stages: raise "
            "--batch, --global-batch or --microbatches"
        )


def _check_parts(one: Training) -> None:
    if one.microbatches and one.batch % one.microbatches:
        raise UsageError(
            f"--microbatches {one.microbatches} does not divide the batch of {one.batch} sequences"
        )
    if not one.uneven:
        return
    given = f"--microbatches {one.parts_text}"
    if len(one.uneven) != one.replicas:
        raise UsageError(
            f"{given} has {len(one.uneven)} numbers, but {one.arrangement} over {one.ranks} ranks "
            f"has {one.replicas} replicas"
        )
    if one.parallel == EXPERT:
        raise UsageError(
            f"{given}: with ep all ranks exchange rows in each microbatch, so that all have as many"
        )


def trainings_of(one: Training, variants: Sequence[Variant], rounds: int) -> list[Training]:
    """All trainings: rounds, in them variants. A variant may name another library."""
    return [
        msgspec.structs.replace(
            one, variant=variant, round=number, ccl=variant.value_of(LIBRARY) or one.ccl
        )
        for number in range(rounds)
        for variant in variants
    ]


@dataclass(frozen=True)
class BatchOptions:
    """The options that state the sequences of a step; None, and () of ``microbatches``: not given.

    ``batch``: of each replica. ``whole``: of all replicas. ``micro``: of a microbatch.
    ``microbatches``: of all replicas alike, or of each one.
    """

    batch: int | None = None
    whole: int | None = None
    micro: int | None = None
    microbatches: tuple[int, ...] = ()

    def of(self, layout: MeshLayout) -> tuple[int, int, tuple[int, ...]]:
        """The ``batch``, ``microbatches`` and ``uneven`` of a Training. Raises UsageError."""
        if len(self.microbatches) > 1:
            return self._uneven()
        count = self.microbatches[0] if self.microbatches else 0
        batch = self.batch
        if self.whole is not None:
            if self.whole % layout.replicas:
                raise UsageError(
                    f"--global-batch {self.whole} is not a multiple of the {layout.replicas} "
                    "replicas with different sequences"
                )
            if batch not in (None, self.whole // layout.replicas):
                raise UsageError(
                    f"--batch {batch} of {layout.replicas} replicas contradicts --global-batch "
                    f"{self.whole}: leave one out"
                )
            batch = self.whole // layout.replicas
        if batch is None:
            batch = (self.micro or 1) * count if self.micro and count else max(_USUAL_BATCH, count)
        if self.micro is not None:
            if batch % self.micro or count not in (0, batch // self.micro):
                raise UsageError(
                    f"--micro-batch {self.micro} does not divide the {batch} sequences of a "
                    f"replica{f' into {count} microbatches' if count else ''}"
                )
            count = batch // self.micro
        if layout.pp > 1:
            return batch, count or batch, ()
        return batch, count if count > 1 else 0, ()

    def _uneven(self) -> tuple[int, int, tuple[int, ...]]:
        numbers = self.microbatches
        if self.batch is not None:
            raise UsageError(
                "--batch is the same for all replicas: with unequal --microbatches, --micro-batch "
                "is the number of sequences of each"
            )
        micro = self.micro or max(1, (self.whole or 0) // sum(numbers))
        if self.whole not in (None, micro * sum(numbers)):
            raise UsageError(
                f"--global-batch {self.whole} is not {sum(numbers)} microbatches of {micro} "
                "sequences"
            )
        return micro * max(numbers), max(numbers), numbers


def parse_microbatches(text: str) -> tuple[int, ...]:
    """Reads the number of microbatches: ``4``, or of each replica: ``3,1``. Raises UsageError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise UsageError(f"{text!r}: write a number, or one for each replica, such as 3,1")
    numbers = tuple(int(word) for word in words if len(word) < 6)
    if len(numbers) < len(words) or not all(1 <= one <= _MOST_MICROBATCHES for one in numbers):
        raise UsageError(f"{text!r}: a number of microbatches is 1 to {_MOST_MICROBATCHES}")
    return numbers


def named_backends(text: str) -> list[str]:
    """Returns the backends of ``--ccl`` as ``torch:NAME``. Raises UsageError."""
    names = [one.strip() for one in text.split(",")]
    full = [name if name.startswith("torch:") else f"torch:{name}" for name in names]
    if not all(torch_backend_of(name) for name in full):
        raise UsageError(f"{text!r}: write a backend of torch, for example torch:nccl")
    return list(dict.fromkeys(full))
