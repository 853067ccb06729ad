"""Measurement of one training on one rank: steps with and without communication, and the checks.

The order is: steps without communication, the training itself, then again as many without
communication, so that a drift of the clock affects both alike; at last, outside all timed steps,
a profile of some steps. The training starts from the initial values and is not interrupted by
other steps, so its losses and its parameters are those of a program that only trains.
"""

from __future__ import annotations

import gc
import inspect
import math
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as torch's users call it
from torch import Tensor

from cclmark._engine import Device, MissingError, RankGroup
from cclmark.base.errors import RefusedError
from cclmark.base.statistics import median
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import free_on_all
from cclmark.rank.torch_backend import module_of, one_line
from cclmark.work.inject import RankFaults
from cclmark_training.choices import COMBINED, DDP, EXPERT, FSDP, NONE, PIPELINE, TENSOR, ZERO1
from cclmark_training.memory import memory_of, shortage
from cclmark_training.plan import Training
from cclmark_training.result import (
    GroupCalls,
    ReplicaCheck,
    ReplicaDifference,
    StepTimeline,
    TrainingResult,
)
from cclmark_training.torch.call_recorder import CallRecorder, calls_of
from cclmark_training.torch.stepping import Profiler, Sampled, Stepper, clock_of
from cclmark_training.torch.trainer import Setup, StepFunction, Trainer

# Modules below this package: each imports parts of torch that the others do not need.
_TRAINERS = {
    NONE: ("trainer", "OneRank"),
    DDP: ("trainer", "DataParallel"),
    ZERO1: ("trainer", "DataParallel"),
    **dict.fromkeys((FSDP, TENSOR, PIPELINE, COMBINED), ("meshed", "Meshed")),
    EXPERT: ("expert_parallel", "ExpertParallel"),
}


@dataclass(frozen=True)
class Feature:
    """Features of torch that a training requires, and the first version with them.

    ``parameter``: an optional one of the function or of the constructor of the class ``name``.
    """

    since: str
    module: str
    name: str
    parameter: str = ""

    def missing(self) -> str:
        """What is missing, in words; empty if nothing is."""
        found = _found(self.module, self.name)
        if found is None:
            return f"{self.module}.{self.name}"
        if not self.parameter:
            return ""
        parameter = inspect.signature(found).parameters.get(self.parameter)
        if parameter is None or parameter.default is inspect.Parameter.empty:
            return f"optional parameter {self.parameter} of {self.module}.{self.name}"
        return ""


_MESHED = (
    Feature("2.6", "torch.distributed.fsdp", "fully_shard"),
    Feature("2.6", "torch.distributed.fsdp", "MixedPrecisionPolicy"),
    Feature("2.5", "torch.distributed.pipelining", "Schedule1F1B"),
    # Where replicas have unequal numbers of microbatches, the loss is scaled instead.
    Feature("2.7", "torch.distributed.pipelining", "Schedule1F1B", "scale_grads"),
    Feature("2.7", "torch.distributed.tensor", "distribute_tensor", "src_data_rank"),
)
_FEATURES = {
    **dict.fromkeys((FSDP, TENSOR, PIPELINE, COMBINED), _MESHED),
    EXPERT: (
        Feature("2.5", "torch.distributed._functional_collectives", "all_to_all_single_autograd"),
    ),
}
_GROUPED_QUERIES = ("2.5", "parameter enable_gqa of scaled_dot_product_attention")


def require_features(parallel: str) -> None:
    """Raises MissingError if this torch lacks what the parallelism requires."""
    needed = _FEATURES.get(parallel, ())
    absent = [(one.since, text) for one in needed if (text := one.missing())]
    if not _has_grouped_queries():
        absent.append(_GROUPED_QUERIES)
    if absent:
        least = max(since for since, _ in absent)
        raise MissingError(
            f"train with --parallel {parallel} requires torch {least} or newer: this torch "
            f"{torch.__version__} has no {', no '.join(text for _, text in absent)}"
        )


def _found(module: str, name: str) -> Callable[..., object] | None:
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def _has_grouped_queries() -> bool:
    """Whether attention supports groups of queries. Functions in C have no signature."""
    one = torch.zeros(1, 1, 1, 1)
    try:
        F.scaled_dot_product_attention(one, one, one, enable_gqa=False)
    except TypeError:
        return False
    return True


def trainer_of(setup: Setup) -> Trainer:
    """Creates the model, distributes it and returns its trainer; a collective call."""
    module, name = _TRAINERS[setup.training.parallel]
    create: Callable[[Setup], Trainer]
    create = getattr(import_module(f"cclmark_training.torch.{module}"), name)
    return create(setup)


_LEAST_PROFILED, _MOST_PROFILED = 3, 20

_CHUNK = 1 << 24


_WEIGHTS = 65521  # a prime: swapped elements change the sum


_HALF = 32


_ABSENT = (-1.0, -1.0)  # instead of the words of a checksum: the rank has no such parameter


@torch.no_grad()
def checksum(tensor: Tensor) -> int:
    """The sum of all elements' bits times weights by position, modulo 2^64."""
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    flat = tensor.detach().contiguous().view(kind).flatten()
    total = 0
    for begin in range(0, flat.numel(), _CHUNK):
        part = flat[begin : begin + _CHUNK].long()
        places = torch.arange(begin, begin + part.numel(), device=part.device)
        total += int((part * (places % _WEIGHTS + 1)).sum().item())
    return total % (1 << 64)


def compare_replicas(
    named: Iterable[tuple[str, Tensor | None]], rank_group: RankGroup, ranks: int
) -> ReplicaCheck:
    """Compares the parameters of all ranks that hold them (None: this rank does not).

    The reference is what more than half of them hold.
    """
    listed = list(named)
    words = [word for _, tensor in listed for word in _words_of(tensor)]
    gathered = rank_group.gather(words)
    by_rank = [gathered[rank * len(words) : (rank + 1) * len(words)] for rank in range(ranks)]
    elements = sum(tensor.numel() for _, tensor in listed if tensor is not None)
    return ReplicaCheck(elements, differences_of([name for name, _ in listed], by_rank))


def _words_of(tensor: Tensor | None) -> tuple[float, float]:
    if tensor is None:
        return _ABSENT
    one = checksum(tensor)
    return float(one >> _HALF), float(one & ((1 << _HALF) - 1))


def differences_of(
    names: Sequence[str], words_by_rank: Sequence[Sequence[float]]
) -> list[ReplicaDifference]:
    """The ranks that differ from the majority, with the number of tensors and the first one.

    Without a majority it is unknown which rank is wrong: all that hold the tensor are returned.
    """
    differing: dict[int, list[str]] = {}
    for number, name in enumerate(names):
        held = {
            rank: one
            for rank, words in enumerate(words_by_rank)
            if (one := tuple(words[2 * number : 2 * number + 2])) != _ABSENT
        }
        usual, ranks = Counter(held.values()).most_common(1)[0]
        has_majority = 2 * ranks > len(held)
        for rank, one in held.items():
            if one != usual or not has_majority:
                differing.setdefault(rank, []).append(name)
    return [
        ReplicaDifference(rank, len(tensors), tensors[0])
        for rank, tensors in sorted(differing.items())
    ]


#: Steps use these batches in turn.
BATCHES = 16


def token_batches(
    seed: int, vocabulary: int, sequences: range, length: int, device: torch.device
) -> list[Tensor]:
    """BATCHES tensors (sequences, length + 1) of 64-bit tokens; the last column is only a target.

    ``sequences``: the numbers of this rank's sequences in each batch of all ranks. The frequency of
    token k is nearly proportional to 1 / (k + 1.5), as in natural languages (Zipf's law), so that
    the loss falls.
    """
    return [
        torch.stack(
            [_sequence(seed, batch, number, vocabulary, length + 1) for number in sequences]
        ).to(device)
        for batch in range(BATCHES)
    ]


def _sequence(seed: int, batch: int, number: int, vocabulary: int, length: int) -> Tensor:
    # torch's generator on the host uses 32 bits of a seed.
    own_seed = zlib.crc32(f"{seed} {number} {batch}".encode())
    generator = torch.Generator().manual_seed(own_seed)
    uniform = torch.rand(length, generator=generator, dtype=torch.float64)
    tokens = torch.exp(uniform * math.log(vocabulary + 1)).long() - 1
    return tokens.clamp_(0, vocabulary - 1)


_PROFILED_S = 0.3
_IN_TORCH = ("cpu", "cuda")  # all other devices belong to plug-ins, which bring their profilers


_UNKNOWN = -1.0


_OUT_OF_HOST_MEMORY = "can't allocate memory"  # of torch's allocator on the host


# Of torch's allocator, its other errors and those of NCCL; of cuBLAS, which allocates by itself.
_OUT_OF_DEVICE_MEMORY = ("out of memory", "cublas_status_alloc_failed")


_DIGITS = 9


T = TypeVar("T")


class TrainingRunner:
    """Measures trainings on one rank, in step with the same object on the others."""

    def __init__(
        self, rank: Rank, device: torch.device, engine_device: Device, backend: str
    ) -> None:
        self._rank = rank
        self._device = device
        self._module = module_of(torch, device)
        self._engine_device = engine_device
        self._backend = backend
        self._on_host = engine_device.info.runtime == "host"
        gc.collect()
        gc.freeze()  # later collections skip the objects of this program and of torch
        job = rank.job
        self._faults = RankFaults.of_rank(job.settings.inject, job.rank, job.ranks)

    def run(self, index: int, training: Training) -> TrainingResult:
        """Measures one training. Raises RefusedError if it cannot fit into the memory."""
        begin_s, started_at_s = time.monotonic(), time.time()
        rank, job = self._rank, self._rank.job
        rank.enter("preparing")
        require_features(training.parallel)
        free_bytes = free_on_all(self._engine_device, rank.rank_group, len(job.ranks_here))
        need = memory_of(training)
        if need.total > free_bytes:
            raise RefusedError(shortage(training, free_bytes, on_host=self._on_host))
        setup = Setup(training, job.rank, job.ranks, self._device, job.settings.seed)
        try:
            result = within_memory(
                training,
                free_bytes,
                lambda: self._measure(index, setup),
                on_host=self._on_host,
            )
        except Exception as error:
            lacking = _lacking_of_plug_in(error, self._device, self._module)
            if not lacking:
                raise
            raise MissingError(
                f"train with --parallel {training.parallel} requires what torch's plug-in for "
                f"{self._device.type} devices does not have: {lacking}; try another release of it, "
                "or another --parallel"
            ) from None
        result.estimated_bytes, result.free_bytes = need.total, free_bytes
        result.started_at_s, result.duration_s = started_at_s, time.monotonic() - begin_s
        return result

    def _measure(self, index: int, setup: Setup) -> TrainingResult:
        rank, settings, training = self._rank, self._rank.job.settings, setup.training
        batches = token_batches(
            *(settings.seed, training.model.vocabulary, setup.sequences),
            *(training.sequence, self._device),
        )
        clock = clock_of(self._device)
        stepper = Stepper(rank, clock, batches, self._faults.delay_s)
        steps, precision = settings.iterations, settings.precision
        trainer = trainer_of(setup)
        before = Sampled()
        if trainer.alone is not None:
            self._begin(stepper, trainer.alone)
            half = None if steps is None else math.ceil(steps / 2)
            before = stepper.sample(trainer.alone, half, precision, settings.max_time_s / 2)
            del trainer
            self._release()
            rank.enter("preparing")
            trainer = trainer_of(setup)
        stepper = Stepper(rank, clock, batches, self._faults.delay_s)
        self._reset_peak()
        begin_s = time.monotonic()
        warmed = self._begin(stepper, trainer.step)
        timed = stepper.sample(trainer.step, steps, precision, settings.max_time_s)
        training_s = time.monotonic() - begin_s
        allocated, reserved = self._peaks()
        check = self._check(trainer, training)
        after = self._alone_after(trainer.alone, stepper, len(before.slowest_s))
        losses = _averaged(warmed, timed, trainer.loss_ranks)
        finite = next((at for at, one in enumerate(losses) if not math.isfinite(one)), None)
        groups = self._calls(trainer, stepper, training)
        timeline, reason = self._timeline(trainer, stepper, median(timed.slowest_s))
        if groups and timeline is not None and not any(timeline.communication_s):
            timeline, reason = None, f"torch's profiler records no operation of {self._backend}"
        result = TrainingResult(
            index=index,
            training=training,
            status="ok",
            converged=timed.converged,
            warmup_steps=len(warmed.losses[0]) if warmed.losses else 0,
            losses=losses[:finite],  # JSON has no other numbers
            step_s=timed.step_s,
            alone_s=[one + other for one, other in zip(before.step_s, after.step_s, strict=True)],
            timeline=timeline,
            timeline_reason=reason,
            peak_allocated_bytes=allocated,
            peak_reserved_bytes=reserved,
            check=check,
            training_s=training_s,
            groups=groups,
        )
        _judge(result, finite)
        del trainer
        self._release()
        return result

    def _begin(self, stepper: Stepper, step: StepFunction) -> Sampled:
        gc.collect()
        return stepper.warm_up(step, self._rank.job.settings.warmup)

    def _alone_after(self, alone: StepFunction | None, stepper: Stepper, steps: int) -> Sampled:
        if alone is None:
            return Sampled()
        stepper.enter("warm-up", 1)
        stepper.run(alone, 1)
        return stepper.sample(alone, steps, 0.0, 0.0)

    def _check(self, trainer: Trainer, training: Training) -> ReplicaCheck | None:
        if not training.comparable_ranks or not self._rank.job.settings.check:
            return None
        self._rank.enter("verification")
        for element in self._faults.corrupted:
            held = (one for _, one in trainer.replicated() if one is not None)
            if (parameter := next(held, None)) is not None:
                _flip(parameter, element % parameter.numel())
        return compare_replicas(trainer.replicated(), self._rank.rank_group, self._rank.job.ranks)

    def _calls(self, trainer: Trainer, stepper: Stepper, training: Training) -> list[GroupCalls]:
        """What a step calls in each group; empty for one rank, and if it cannot be seen."""
        # The methods of a group in Python are called directly, without operators of torch.
        if self._rank.job.ranks < 2 or type(dist.group.WORLD) is not dist.ProcessGroup:
            return []
        stepper.enter("tracing", 1)
        with CallRecorder() as recorder:
            stepper.run(trainer.step, 1)
        return calls_of(recorder, trainer.groups, training, self._rank.rank_group)

    def _timeline(
        self, trainer: Trainer, stepper: Stepper, step_s: float
    ) -> tuple[StepTimeline | None, str]:
        if self._rank.job.ranks < 2:
            return None, "one rank does not communicate"
        if self._device.type not in _IN_TORCH:
            return None, f"torch's profiler does not record {self._device.type} devices"
        steps = max(_LEAST_PROFILED, min(_MOST_PROFILED, int(_PROFILED_S / step_s)))
        self._profile(trainer.step, stepper, 2)  # initialises the profiler
        busy = self._profile(trainer.step, stepper, steps)
        alone = None
        if trainer.alone is not None:
            alone = self._profile(trainer.alone, stepper, steps)
        if any(one == _UNKNOWN for row in busy for one in row):
            return None, "torch's profiler recorded no work of the device on at least one rank"
        return StepTimeline(
            steps=steps,
            step_s=[row[0] for row in busy],
            communication_s=[row[1] for row in busy],
            exposed_s=[row[2] for row in busy],
            compute_s=[row[3] for row in busy],
            compute_alone_s=_known_of_all(alone),
        ), ""

    def _profile(self, step: StepFunction, stepper: Stepper, steps: int) -> list[list[float]]:
        """Step, communication, exposed communication and compute by rank, in seconds."""
        stepper.enter("tracing", steps + 1)
        rank_group = self._rank.rank_group
        profiler = Profiler(self._device, self._backend)

        def run() -> None:
            rank_group.barrier()  # starting the profiler takes some ranks longer
            for _ in range(steps + 1):  # the timeline counts from the end of the first one
                stepper.run(step, 1)
                profiler.end_step()

        busy = profiler.profile(run)
        own = [_UNKNOWN] * 4
        if busy is not None:
            own = [busy.step_s, busy.communication_s, busy.exposed_s, busy.compute_s]
        gathered = rank_group.gather([round(one, _DIGITS) for one in own])
        return [gathered[place : place + 4] for place in range(0, len(gathered), 4)]

    def _reset_peak(self) -> None:
        if self._module is not None:
            self._module.reset_peak_memory_stats(self._device)

    def _peaks(self) -> tuple[list[int], list[int]]:
        """The peaks of torch's allocator by rank: allocated and reserved bytes."""
        if self._module is None:
            return [], []
        own = [
            float(self._module.max_memory_allocated(self._device)),
            float(self._module.max_memory_reserved(self._device)),
        ]
        gathered = [int(one) for one in self._rank.rank_group.gather(own)]
        return gathered[::2], gathered[1::2]

    def _release(self) -> None:
        gc.collect()
        if self._module is not None:
            self._module.empty_cache()


def _known_of_all(alone: list[list[float]] | None) -> list[float]:
    """The compute of each rank in a profile, empty if that of a rank is unknown."""
    found = [row[3] for row in alone or []]
    return [] if _UNKNOWN in found else found


def within_memory(
    training: Training, free_bytes: int, work: Callable[[], T], *, on_host: bool = False
) -> T:
    """The result of ``work``. Raises MissingError with what would fit if memory runs out."""
    try:
        return work()
    except RuntimeError as error:  # as are all errors of torch, its backends and their libraries
        cause = _exhausted(error)
        if not cause:
            raise
    raise MissingError(shortage(training, free_bytes, cause, on_host=on_host))


def _exhausted(error: BaseException | None) -> str:
    """Which memory ran out, in words, empty if the error has another cause.

    torch's pipeline raises its own error from that of a stage.
    """
    while error is not None:
        text = str(error)
        if _OUT_OF_HOST_MEMORY in text:
            return "the host ran out of memory"
        for line in text.splitlines():
            if any(phrase in line.lower() for phrase in _OUT_OF_DEVICE_MEMORY):
                return f"the device ran out of memory ({line.partition('. ')[0].strip()})"
        error = error.__cause__
    return ""


def _lacking_of_plug_in(error: Exception, device: torch.device, module: object) -> str:
    """What a vendor's plug-in of torch does not have, empty if the error has another cause."""
    cause: Exception | None = None if device.type in _IN_TORCH else error
    while cause is not None:
        of_module = isinstance(cause, AttributeError) and cause.obj is module
        if of_module or isinstance(cause, NotImplementedError):
            return one_line(cause)
        cause = cause.__cause__  # type: ignore[assignment]
    return ""


def _averaged(warmed: Sampled, timed: Sampled, ranks: list[int] | None) -> list[float]:
    """The loss of each step, averaged over ``ranks``, None for all."""
    parts = [one.losses for one in (warmed, timed) if one.losses]
    rows = [
        [loss for part in parts for loss in part[rank]]
        for rank in (ranks if ranks is not None else range(len(parts[0])))
    ]
    return [sum(column) / len(column) for column in zip(*rows, strict=True)]


def _judge(result: TrainingResult, not_finite: int | None) -> None:
    """Sets the status: wrong if parameters differ or a loss is not finite."""
    if not_finite is not None:
        result.status, result.reason = "wrong", f"the loss of step {not_finite + 1} is not finite"
    if result.check is not None and result.check.differences:
        result.status = "wrong"
        result.reason = _difference(result.check, result.training)


def _difference(check: ReplicaCheck, training: Training) -> str:
    """Which parameters differ, in words."""
    found, first = check.differences, check.differences[0]
    names = [str(one.rank) for one in found]
    ranks = f"ranks {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    ranks = ranks if len(names) > 1 else f"rank {ranks}"
    pairs = len(found) > 1 and training.degrees.dp == 2
    all_differ = pairs or len(found) == len(training.comparable_ranks)
    others = "each other" if all_differ else "the other ranks"
    return (
        f"the parameters of {ranks} differ from {others} after the training: {first.tensors} "
        f"tensors of rank {first.rank}, the first is {first.first}"
    )


@torch.no_grad()
def _flip(tensor: torch.Tensor, element: int) -> None:
    """Changes one element of a parameter: the injected fault."""
    flat = tensor.view(-1)
    flat[element] = flat[element] * 2 + 1
