"""Pipeline parallel training: each rank has some of the layers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from cclmark_training.torch.trainer import Setup, Trainer, halves
from cclmark_training.torch.transformer import loss_of


class Pipeline(Trainer):
    """One stage for each rank and the schedule 1F1B (Narayanan et al., arXiv 2104.04473).

    The first stage has the embedding, the last one the output head. If they share weights, both
    stages hold these, and their gradients are added.
    """

    def __init__(self, setup: Setup) -> None:
        training, rank, ranks = setup.training, setup.rank, setup.ranks
        shape = training.model
        layers = range(rank * shape.layers // ranks, (rank + 1) * shape.layers // ranks)
        self._is_first, self._is_last = rank == 0, rank == ranks - 1
        self._is_tied = shape.tied
        self._stage = setup.model_on_meta(layers, first=self._is_first, last=self._is_last)
        self._stage.to_empty(device=setup.device)
        setup.fill(self._stage)
        stage = PipelineStage(self._stage, rank, ranks, setup.device)
        # Otherwise the last stage keeps and concatenates the logits of all microbatches.
        parameters = inspect.signature(Schedule1F1B.step).parameters
        without = "return_outputs" in parameters
        self._options = {"return_outputs": False} if without else {}
        self._schedule = Schedule1F1B(stage, training.microbatches, loss_fn=loss_of)
        # A collective call of all ranks.
        ends = dist.new_group([0, ranks - 1]) if shape.tied else None
        self._ends = ends if self._is_first or self._is_last else None
        super().__init__(self._stage, setup.optimizer(self._stage.parameters()))
        self._no_loss = torch.zeros((), device=setup.device)
        self.loss_ranks = [ranks - 1]

    def step(self, tokens: Tensor) -> Tensor:
        """See Trainer."""
        self._optimizer.zero_grad(set_to_none=True)
        inputs, targets = halves(tokens)
        losses: list[Tensor] = []
        if self._is_first:
            self._schedule.step(inputs, **self._options)
        elif self._is_last:
            self._schedule.step(target=targets, losses=losses, **self._options)
        else:
            self._schedule.step(**self._options)
        if self._ends is not None and self._stage.embedding is not None:
            dist.all_reduce(self._stage.embedding.weight.grad, group=self._ends)
        self._optimizer.step()
        return torch.stack(losses).mean().detach() if losses else self._no_loss

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """See Trainer."""
        if self._is_tied:
            # A middle stage has no embedding.
            embedding = self._stage.embedding
            yield "embedding.weight", embedding.weight if embedding is not None else None
