"""Training on one rank, and with equal parameters on all ranks: DDP and ZeRO-1."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from cclmark.kinds.train.choices import ZERO1
from cclmark.kinds.train.torch.trainer import Setup, StepFunction, run_step


class OneRank:
    """Training without other ranks."""

    loss_ranks: list[int] | None = None

    def __init__(self, setup: Setup) -> None:
        self._model = setup.whole_model()
        if setup.training.compiled:
            self._model.compile()
        self._forward = setup.forward_of(self._model)
        self._optimizer = setup.optimizer(self._model.parameters())
        self.alone: StepFunction | None = None

    def step(self, tokens: Tensor) -> Tensor:
        """See Trainer."""
        return run_step(self._forward, tokens, self._optimizer)

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """See Trainer."""
        yield from ()


class DataParallel:
    """DistributedDataParallel, for ZeRO-1 with ZeroRedundancyOptimizer.

    The step without communication skips the all-reduce of gradients (``no_sync``), and with ZeRO-1
    the broadcasts of the updated parameters: the replicas differ afterwards.
    """

    loss_ranks: list[int] | None = None

    def __init__(self, setup: Setup) -> None:
        model = setup.whole_model()
        if setup.training.compiled:
            model.compile()
        ids = [setup.device.index] if setup.device.type == "cuda" else None
        self._model = DistributedDataParallel(model, device_ids=ids)
        self._forward = setup.forward_of(self._model)
        self._local_optimizer = None
        if setup.training.parallel == ZERO1:
            kind, options = setup.optimizer_options()
            sharded = ZeroRedundancyOptimizer(self._model.parameters(), kind, **options)
            self._local_optimizer = sharded.optim
            self._optimizer = sharded
        else:
            self._optimizer = setup.optimizer(self._model.parameters())
        self.alone: StepFunction | None = self._without_communication

    def step(self, tokens: Tensor) -> Tensor:
        """See Trainer."""
        return run_step(self._forward, tokens, self._optimizer)

    def _without_communication(self, tokens: Tensor) -> Tensor:
        update = self._local_optimizer.step if self._local_optimizer is not None else None
        with self._model.no_sync():
            return run_step(self._forward, tokens, self._optimizer, update)

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """See Trainer."""
        yield from self._model.module.named_parameters()
