"""Initial values of parameters that are DTensors."""

from __future__ import annotations

from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from cclmark.kinds.train.torch.trainer import Filler, Setup
from cclmark.kinds.train.torch.transformer import Transformer


def fill_distributed(setup: Setup, model: Transformer) -> None:
    """Sets the initial values: each rank creates a whole parameter and keeps its part."""
    setup.fill(model, _filler)


def _filler(name: str, parameter: nn.Parameter) -> Filler | None:
    if not isinstance(parameter, DTensor):
        return None
    mesh, placements = parameter.device_mesh, parameter.placements

    def part_of(whole: Tensor) -> Tensor:
        # Without a source rank, nothing is communicated.
        return distribute_tensor(whole, mesh, placements, src_data_rank=None).to_local()

    return Filler(parameter.shape, parameter.to_local(), part_of)
