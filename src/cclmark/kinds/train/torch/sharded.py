"""Training with sharded parameters: FSDP2."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from cclmark.kinds.train.torch.distributed_tensors import fill_distributed
from cclmark.kinds.train.torch.trainer import Setup, StepFunction, run_step


class Sharded:
    """``fully_shard`` on each layer, on the ends of the model and on the rest of it.

    As in torchtitan, the embedding is a unit of its own, and the last norm with the output head is
    one that stays gathered until its backward pass. An output head that is tied to the embedding
    requires these weights at both ends: the embedding, positions and norm are then the root unit,
    which is gathered once in a step. The other units are gathered in the forward pass and again in
    the backward pass, and gradients are reduced and scattered. There is no step without
    communication: parameters that are not gathered do not exist.
    """

    loss_ranks: list[int] | None = None

    def __init__(self, setup: Setup) -> None:
        mesh = init_device_mesh(setup.device.type, (setup.ranks,))
        model = setup.model_on_meta()
        policy = MixedPrecisionPolicy()
        if setup.is_mixed:
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        shard = partial(fully_shard, mesh=mesh, mp_policy=policy)
        for layer in model.layers.values():
            shard(layer)
        if model.head is not None and model.embedding is not None and model.norm is not None:
            shard(model.embedding)
            shard([model.norm, model.head], reshard_after_forward=False)
        shard(model)
        model.to_empty(device=setup.device)
        fill_distributed(setup, model)
        self._model = model
        self._optimizer = setup.optimizer(model.parameters())
        self.alone: StepFunction | None = None

    def step(self, tokens: Tensor) -> Tensor:
        """See Trainer."""
        return run_step(self._model, tokens, self._optimizer)

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """See Trainer."""
        yield from ()
