"""Training with sharded parameters: FSDP2."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from cclmark.run.training.distributed_tensors import fill_distributed
from cclmark.run.training.trainer import Setup, Step, run_step
from cclmark.run.training.transformer import Transformer, on_meta


class Sharded:
    """``fully_shard`` on each layer and on the whole model.

    Parameters are gathered for each layer in the forward pass and again in the backward pass, and
    gradients are reduced and scattered. There is no step without communication: parameters that are
    not gathered do not exist.
    """

    loss_ranks: list[int] | None = None

    def __init__(self, setup: Setup) -> None:
        mesh = init_device_mesh(setup.device.type, (setup.ranks,))
        model = on_meta(lambda: Transformer(setup.training.model), setup.dtype)
        for layer in model.layers.values():
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        model.to_empty(device=setup.device)
        fill_distributed(setup, model)
        self._model = model
        self._optimizer = setup.optimizer(model.parameters())
        self.alone: Step | None = None

    def step(self, tokens: Tensor) -> Tensor:
        """See Trainer."""
        return run_step(self._model, tokens, self._optimizer)

    def replicated(self) -> Iterator[tuple[str, Tensor]]:
        """See Trainer."""
        yield from ()
