"""Initial values of parameters that are DTensors."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

from cclmark_training.torch.trainer import Filler, Setup, Trainer
from cclmark_training.torch.transformer import Gated, Transformer


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


class Sharded(Trainer):
    """``fully_shard`` on each layer, on the ends of the model and on the rest of it.

    As in torchtitan, the embedding is a separate unit, and the last norm with the output head is
    one that stays gathered until its backward pass. An output head that is tied to the embedding
    requires these weights at both ends: the embedding, positions and norm are then the root unit,
    which is gathered once in a step. The other units are gathered in the forward pass and again in
    the backward pass, and gradients are reduced and scattered. There is no step without
    communication: parameters that are not gathered do not exist.
    """

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
        super().__init__(model, setup.optimizer(model.parameters()))


_COLUMNS = ("attention.project", "network.up", "network.gate")
_ROWS = ("attention.output", "network.down")


class TensorParallel(Trainer):
    """Layers as in Megatron (Shoeybi et al., arXiv 1909.08053): two all-reduces per layer and pass.

    The first matrix of a pair is distributed by columns (whole heads), the second by rows. Norms
    are equal on all ranks. Unlike in Megatron, so are the embedding and an output head tied to it.
    An untied output head is distributed by columns, and its outputs are gathered.
    """

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
        parameters = list(model.parameters())
        # Operations on lists of tensors require all of one kind.
        groups = [
            {"params": [one for one in parameters if isinstance(one, DTensor) == distributed]}
            for distributed in (True, False)
        ]
        kind, options = setup.optimizer_options()
        super().__init__(model, kind(groups, **options))
