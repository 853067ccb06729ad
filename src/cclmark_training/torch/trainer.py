"""Interface of a parallelism, and the parts that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from cclmark_training.choices import ADAMW, MIXED, ZERO1
from cclmark_training.layout import REPLICAS
from cclmark_training.plan import Training
from cclmark_training.torch.transformer import Mixture, Transformer, initial_value, loss_of

_BETAS = (0.9, 0.95)  # Brown et al., Language Models are Few-Shot Learners, appendix B
_WEIGHT_DECAY = 0.1

#: Executes one step with tokens (sequences, length + 1); returns the loss without its graph.
StepFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Setup:
    """A training and this rank's place in it."""

    training: Training
    rank: int
    ranks: int
    device: torch.device
    seed: int

    @property
    def dtype(self) -> torch.dtype:
        """The type of the parameters."""
        if self.is_mixed:
            return torch.float32
        found: torch.dtype = getattr(torch, self.training.dtype)
        return found

    @property
    def is_mixed(self) -> bool:
        """Whether products are computed in bfloat16 from float32 parameters."""
        return self.training.dtype == MIXED

    def forward_of(self, model: nn.Module) -> Callable[[Tensor], Tensor]:
        """The forward pass of a model: with mixed types, under autocast."""

        def under_autocast(tokens: Tensor) -> Tensor:
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                logits: Tensor = model(tokens)
            return logits

        return under_autocast if self.is_mixed else model

    @property
    def sequences(self) -> range:
        """The numbers of this rank's sequences in the batch of all ranks."""
        counts = self.training.sequences
        begin = sum(counts[: self.replica])
        return range(begin, begin + counts[self.replica])

    @property
    def replica(self) -> int:
        """The replica to which this rank belongs."""
        return self.training.degrees.place_of(self.rank)[1]

    @property
    def parts(self) -> int:
        """The parts of this rank's batch that are computed one after the other."""
        training = self.training
        return training.uneven[self.replica] if training.uneven else training.microbatches or 1

    @property
    def weight(self) -> float:
        """The weight of the mean loss of a part, so that the mean over the replicas of the sums of
        their losses is the mean over all sequences of the step.
        """
        training = self.training
        return training.replicas * training.micro_batch / training.global_batch

    def model_on_meta(
        self, layers: range | None = None, *, first: bool = True, last: bool = True
    ) -> Transformer:
        """The model, or a part of it, whose parameters have a shape and a type, but no memory."""
        with torch.device("meta"):
            model = Transformer(self.training.model, layers, first=first, last=last).to(self.dtype)
        for layer in model.layers.values():
            if isinstance(layer.network, Mixture):
                layer.network.balance_weight = self.training.balance_weight
        return model

    def whole_model(self) -> Transformer:
        """The whole model on the device, with its initial values, compiled if it is to be."""
        model = self.model_on_meta()
        model.to_empty(device=self.device)
        self.fill(model)
        if self.training.compiled:
            model.compile()
        return model

    @torch.no_grad()
    def fill(
        self, model: Transformer, part: Callable[[str, nn.Parameter], Filler] | None = None
    ) -> None:
        """Sets the initial values. ``part``: how a parameter gets its part of a whole one."""
        for name, parameter in model.named_parameters():
            filler = part(name, parameter) if part is not None else None
            shape = filler.shape if filler is not None else parameter.shape
            like = filler.local if filler is not None else parameter
            value = initial_value(name, shape, self.training.model, self.seed, like)
            like.copy_(value if filler is None else filler.part_of(value))

    def optimizer(self, parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer of the training."""
        kind, options = self.optimizer_options()
        return kind(parameters, **options)

    def optimizer_options(self) -> tuple[type[torch.optim.Optimizer], dict[str, object]]:
        """The class of the optimizer, and its arguments besides the parameters."""
        options: dict[str, object] = {"lr": self.training.learning_rate}
        if self.device.type == "cuda":
            options["fused"] = True
        if self.training.optimizer == ADAMW:
            return torch.optim.AdamW, {**options, "betas": _BETAS, "weight_decay": _WEIGHT_DECAY}
        return torch.optim.SGD, options


@dataclass(frozen=True)
class Filler:
    """A distributed parameter: the shape of the whole, the local part, and its selection."""

    shape: torch.Size
    local: Tensor
    part_of: Callable[[Tensor], Tensor]


def group_name(group: dist.ProcessGroup | None = None) -> str:
    """The name of a group in torch, of all ranks by default.

    Empty for a plug-in's group in Python, whose calls are not torch's operators.
    """
    group = group if group is not None else dist.group.WORLD
    assert group is not None
    try:
        return str(group.group_name)
    except RuntimeError:  # no name was set
        return ""


def halves(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The inputs of the model and its targets, which are the next tokens."""
    return tokens[:, :-1], tokens[:, 1:]


class Trainer:
    """A model that is trained in parallel.

    ``setup``: see Setup. ``forward``: the forward pass of a part of the batch.

    ``alone``: a step of this rank without communication, None if there is none. ``loss_ranks``: the
    ranks whose losses, averaged, are the loss of the step; None for all. ``groups``: the names of
    process groups in torch, and of what they serve.
    """

    alone: StepFunction | None = None
    loss_ranks: list[int] | None = None
    groups: Mapping[str, str] = {}

    def __init__(
        self,
        setup: Setup,
        forward: Callable[[Tensor], Tensor],
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._forward = forward
        self._optimizer = optimizer
        self._parts, self._weight = setup.parts, setup.weight

    def step(self, tokens: Tensor) -> Tensor:
        """See StepFunction."""
        return self._run(tokens, self._optimizer.step)

    def _run(self, tokens: Tensor, update: Callable[[], object]) -> Tensor:
        """A whole step: gradients are reset, forward, backward, and ``update``."""
        self._optimizer.zero_grad(set_to_none=True)
        inputs, targets = halves(tokens)
        if self._parts == 1 and self._weight == 1:
            loss = loss_of(self._forward(inputs), targets)
            loss.backward()
        else:
            loss = self._accumulated(inputs, targets)
        update()
        return loss.detach()

    def _accumulated(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Adds up the gradients of all parts and returns the sum of their weighted losses."""
        losses: list[Tensor] = []
        parts = zip(inputs.chunk(self._parts), targets.chunk(self._parts), strict=True)
        for number, (part, wanted) in enumerate(parts, start=1):
            with nullcontext() if number == self._parts else self.holding_gradients():
                loss = loss_of(self._forward(part), wanted) * self._weight
                loss.backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def holding_gradients(self) -> AbstractContextManager[object]:
        """Within it, gradients are added up and not yet reduced over the replicas."""
        return nullcontext()

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """The parameters that must be equal on the comparable ranks of the training, by name.

        All ranks return the same names. None: this rank does not hold the parameter.
        """
        yield from ()


class OneRank(Trainer):
    """Training without other ranks."""

    def __init__(self, setup: Setup) -> None:
        model = setup.whole_model()
        super().__init__(setup, setup.forward_of(model), setup.optimizer(model.parameters()))


class DataParallel(Trainer):
    """DistributedDataParallel, for ZeRO-1 with ZeroRedundancyOptimizer.

    The step without communication skips the all-reduce of gradients (``no_sync``), and with ZeRO-1
    the broadcasts of the updated parameters: the replicas differ afterwards.
    """

    def __init__(self, setup: Setup) -> None:
        ids = [setup.device.index] if setup.device.type == "cuda" else None
        self._model = DistributedDataParallel(setup.whole_model(), device_ids=ids)
        optimizer: torch.optim.Optimizer
        if setup.training.parallel == ZERO1:
            kind, options = setup.optimizer_options()
            optimizer = ZeroRedundancyOptimizer(self._model.parameters(), kind, **options)
            self._update = optimizer.optim.step
        else:
            optimizer = setup.optimizer(self._model.parameters())
            self._update = optimizer.step
        super().__init__(setup, setup.forward_of(self._model), optimizer)
        self.alone = self._without_communication
        self.groups = {group_name(): REPLICAS}

    def _without_communication(self, tokens: Tensor) -> Tensor:
        with self._model.no_sync():
            return self._run(tokens, self._update)

    def holding_gradients(self) -> AbstractContextManager[object]:
        """See Trainer."""
        return self._model.no_sync()

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """See Trainer."""
        yield from self._model.module.named_parameters()
