"""Trainings: steps of a model in parallel, with a variant in a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    MIXABLE,
    MIXED,
    NONE,
    PIPELINE,
    REPLICATED,
    SAME_DATA,
    TENSOR,
    Optimizer,
    Parallelism,
    TrainingType,
)

TRAIN = "train"


class Training(msgspec.Struct, frozen=True, omit_defaults=True):
    """Training steps of one model with one variant in one round.

    ``batch``: sequences of a rank in a step; with tensor and pipeline parallelism all ranks work on
    the same ones. ``sequence``: tokens in each. ``microbatches``: parts of the batch of a
    pipeline, 0 without one. ``dtype``: of parameters and arithmetic, see choices.DTYPES.
    ``balance_weight``: of the auxiliary loss of experts, 0 for none. ``peak_flops``: the peak rate
    of a device in FLOP/s as the user gave it, 0 for the published one.
    """

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

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """See work.items.Outlined."""
        return self.without_variant(), {
            "variant": [self.variant.describe()],
            "model": [self.model.describe()],
            "ccl": [self.ccl],
        }

    @property
    def kind(self) -> str:
        """The kind of work, see work.items."""
        return TRAIN

    @property
    def work(self) -> str:
        """The command that performs the work."""
        return "train"

    @property
    def library(self) -> str:
        """The backend of torch that communicates."""
        return self.ccl

    @property
    def size_bytes(self) -> int:
        """0: a training step has messages of several sizes."""
        return 0

    @property
    def replicas(self) -> int:
        """The number of ranks that work on different sequences."""
        return 1 if self.parallel in SAME_DATA else self.ranks

    @property
    def comparable_ranks(self) -> tuple[int, ...]:
        """The ranks that hold some parameters that are equal after each step, bit for bit.

        Of a pipeline these are the stages that share the weights of the embedding.
        """
        if self.parallel in REPLICATED:
            return tuple(range(self.ranks))
        if self.parallel == PIPELINE and self.model.tied:
            return (0, self.ranks - 1)
        return ()

    @property
    def tokens(self) -> int:
        """The tokens of a step of all ranks together."""
        return self.replicas * self.batch * self.sequence

    @property
    def operations(self) -> float:
        """The floating-point operations of a step of all ranks together."""
        return self.tokens * self.model.operations_per_token(self.sequence)

    def describe(self) -> str:
        """The training in words, for messages."""
        return (
            f"{self.model.name} with {self.parallel}, batch {self.batch} x {self.sequence}, "
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
    if one.parallel == TENSOR:
        _check_heads(model, ranks)
    if one.parallel == PIPELINE:
        _check_pipeline(one)
    elif one.microbatches:
        raise UsageError("--microbatches requires --parallel pp")
    if one.parallel == EXPERT and (not model.experts or model.experts % ranks):
        what = f"{model.experts} experts" if model.experts else "no experts"
        raise UsageError(
            f"--parallel ep distributes experts over {ranks} ranks, but {model.name} has {what}"
        )
    if one.compiled and one.parallel not in COMPILABLE:
        raise UsageError(f"--compile is supported with none, ddp and zero1, not {one.parallel}")
    if one.balance_weight and not model.experts:
        raise UsageError(f"--balance-loss requires experts, and {model.name} has none")
    if one.dtype == MIXED and one.parallel not in MIXABLE:
        raise UsageError(
            f"--dtype {MIXED} is supported with {', '.join(MIXABLE)}, not {one.parallel}: choose "
            "bfloat16 or float32"
        )


def _check_heads(model: Model, ranks: int) -> None:
    if model.experts:
        raise UsageError(f"--parallel tp does not support experts, which {model.name} has")
    for what, number in (
        ("key and value heads", model.key_value_heads),
        ("columns of the feed-forward network", model.hidden),
    ):
        if number % ranks:
            raise UsageError(f"--parallel tp: {ranks} ranks cannot share {number} {what} equally")


def _check_pipeline(one: Training) -> None:
    if one.model.layers < one.ranks:
        raise UsageError(
            f"--parallel pp: {one.model.layers} layers are fewer than {one.ranks} ranks"
        )
    if one.microbatches < one.ranks:
        raise UsageError(
            f"--parallel pp: {one.microbatches} microbatches are fewer than {one.ranks} ranks: "
            "raise --batch or --microbatches"
        )
    if one.batch % one.microbatches:
        raise UsageError(
            f"--microbatches {one.microbatches} does not divide the batch of {one.batch} sequences"
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


def named_backends(text: str) -> list[str]:
    """Returns the backends of ``--ccl`` as ``torch:NAME``. Raises UsageError."""
    names = [one.strip() for one in text.split(",")]
    full = [name if name.startswith("torch:") else f"torch:{name}" for name in names]
    if not all(torch_backend_of(name) for name in full):
        raise UsageError(f"{text!r}: write a backend of torch, for example torch:nccl")
    return list(dict.fromkeys(full))
