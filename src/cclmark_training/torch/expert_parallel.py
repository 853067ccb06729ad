"""Expert parallel training: each rank has some of the experts; the rest is data parallel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.nn.parallel import DistributedDataParallel

from cclmark.work.models import Model
from cclmark_training.choices import EXPERT
from cclmark_training.torch.trainer import Filler, Setup, Trainer, group_name
from cclmark_training.torch.transformer import Experts, Mixture, Transformer

_EXPERTS = ".experts."


class ExpertParallel(Trainer):
    """Rows travel to the ranks of their experts and back (all_to_all_single), in both passes.

    Gradients of all other parameters are averaged by DistributedDataParallel. Those of an expert
    already contain the rows of all ranks, so they are only divided by the number of ranks.
    """

    def __init__(self, setup: Setup) -> None:
        training, ranks = setup.training, setup.ranks
        shape = training.model
        own = msgspec.structs.replace(shape, experts=shape.experts // ranks)
        model = setup.model_on_meta()
        with torch.device("meta"):
            _replace_experts(model, own, ranks, setup.dtype)
        model.to_empty(device=setup.device)
        first = setup.rank * own.experts

        def filler(name: str, parameter: nn.Parameter) -> Filler | None:
            if _EXPERTS not in name:
                return None
            whole = torch.Size((shape.experts, *parameter.shape[1:]))
            return Filler(whole, parameter, lambda value: value[first : first + own.experts])

        setup.fill(model, filler)
        experts = {name: one for name, one in model.named_parameters() if _EXPERTS in name}
        for parameter in experts.values():
            parameter.register_hook(lambda gradient: gradient / ranks)
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, list(experts))
        ids = [setup.device.index] if setup.device.type == "cuda" else None
        self._model = DistributedDataParallel(model, device_ids=ids)
        super().__init__(setup, self._model, setup.optimizer(self._model.parameters()))
        self.groups = {group_name(): EXPERT}

    def holding_gradients(self) -> AbstractContextManager[object]:
        """See Trainer."""
        return self._model.no_sync()

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """See Trainer."""
        for name, parameter in self._model.module.named_parameters():
            if _EXPERTS not in name:
                yield name, parameter


def _replace_experts(model: Transformer, own: Model, ranks: int, dtype: torch.dtype) -> None:
    """Leaves this rank's experts only."""
    for layer in model.layers.values():
        mixture = layer.network
        assert isinstance(mixture, Mixture)
        mixture.experts = Experts(own).to(dtype)
        mixture.compute = partial(_compute_elsewhere, mixture.experts, ranks)


def _compute_elsewhere(experts: Experts, ranks: int, rows: Tensor, counts: Tensor) -> Tensor:
    """The outputs of rows, sorted by expert, from the ranks of their experts.

    ``counts``: this rank's rows for each expert of all ranks.
    """
    sent = counts.view(ranks, -1)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    to_ranks, from_ranks = sent.sum(dim=1).tolist(), received.sum(dim=1).tolist()
    world = dist.group.WORLD
    got = all_to_all_single_autograd(rows, from_ranks, to_ranks, world)
    # Rows arrive sorted by rank, then by expert.
    experts_of_rows = torch.arange(sent.shape[1], device=rows.device).repeat(ranks)
    order = experts_of_rows.repeat_interleave(received.flatten()).argsort(stable=True)
    outputs = experts.on_all(got[order], received.sum(dim=0))[order.argsort()]
    return all_to_all_single_autograd(outputs, to_ranks, from_ranks, world)
