"""Tensor parallel training: matrices of each layer are distributed over the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

from cclmark.kinds.train.torch.distributed_tensors import fill_distributed
from cclmark.kinds.train.torch.trainer import Setup, StepFunction, run_step
from cclmark.kinds.train.torch.transformer import Gated

_COLUMNS = ("attention.project", "network.up", "network.gate")
_ROWS = ("attention.output", "network.down")


class TensorParallel:
    """Layers as in Megatron (Shoeybi et al., arXiv 1909.08053): two all-reduces per layer and pass.

    The first matrix of a pair is distributed by columns (whole heads), the second by rows. Norms
    are equal on all ranks. Unlike in Megatron, so are the embedding and an output head tied to it.
    An untied output head is distributed by columns, and its outputs are gathered.
    """

    loss_ranks: list[int] | None = None

    def __init__(self, setup: Setup) -> None:
        mesh = init_device_mesh(setup.device.type, (setup.ranks,))
        model = setup.model_on_meta()
        for layer in model.layers.values():
            names = {name for name, _ in layer.named_modules()}
            plan: dict[str, ParallelStyle] = {
                name: ColwiseParallel() for name in _COLUMNS if name in names
            }
            plan |= {name: RowwiseParallel() for name in _ROWS if name in names}
            if isinstance(layer.network, Gated):
                # Otherwise the gradients of the input of both matrices are summed one by one.
                plan["network"] = PrepareModuleInput(
                    input_layouts=Replicate(), desired_input_layouts=Replicate()
                )
            parallelize_module(layer, mesh, plan)
        if model.head is not None:
            head = ColwiseParallel(output_layouts=Replicate())
            parallelize_module(model, mesh, {"head": head})
        model.to_empty(device=setup.device)
        fill_distributed(setup, model)
        self._model = model
        parameters = list(model.parameters())
        # Operations on lists of tensors require all of one kind.
        groups = [
            {"params": [one for one in parameters if isinstance(one, DTensor) == distributed]}
            for distributed in (True, False)
        ]
        kind, options = setup.optimizer_options()
        self._optimizer = kind(groups, **options)
        self.alone: StepFunction | None = None

    def step(self, tokens: Tensor) -> Tensor:
        """See Trainer."""
        return run_step(self._model, tokens, self._optimizer)

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """See Trainer."""
        yield from ()
