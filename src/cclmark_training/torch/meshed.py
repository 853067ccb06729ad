"""Shards, tensor and pipeline parallelism, each of them alone or several on a mesh of ranks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from cclmark.base.grouping import by_key
from cclmark_training.layout import MESH, PIPELINE, REPLICAS, SHARDS, TENSOR, TIED
from cclmark_training.torch.trainer import Filler, Setup, Trainer, group_name, halves
from cclmark_training.torch.transformer import Gated, Transformer, loss_of


class Meshed(Trainer):
    """A stage of the model, distributed over tensor ranks, then replicated or sharded.

    Of a pipeline (Narayanan et al., arXiv 2104.04473), the first stage has the embedding, the last
    one the output head. If they share weights, both stages hold these, and their gradients are
    added.
    """

    def __init__(self, setup: Setup) -> None:
        training, layout = setup.training, setup.training.degrees
        self._setup, self._layout = setup, layout
        self._place = stage, _, _ = layout.place_of(setup.rank)
        sizes = {name: layout.sizes[name] for name in MESH if name in layout.sizes}
        mesh = init_device_mesh(
            setup.device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes)
        )
        self._is_first, self._is_last = stage == 0, stage == layout.pp - 1
        self._model = model = _stage_on_meta(setup, stage)
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        if TENSOR in sizes:
            _distribute(model, mesh[TENSOR], by_sequence=training.by_sequence)
        tensors = {
            name: parameter
            for name, parameter in model.named_parameters()
            if isinstance(parameter, DTensor)
        }
        shards = mesh[SHARDS] if SHARDS in sizes else None
        # Otherwise the parts of a batch would gather the parameters again, and uneven replicas
        # would not do so equally often.
        self._keeps = bool(layout.pp > 1 or training.uneven)
        if shards is not None:
            _shard(setup, model, shards, keeps=self._keeps)
        model.to_empty(device=setup.device)

        def filler(name: str, parameter: nn.Parameter) -> Filler | None:
            if not isinstance(parameter, DTensor):
                return None
            part = partial(_part_of, tensors.get(name), shards)
            return Filler(shapes[name], parameter.to_local(), part)

        setup.fill(model, filler)
        forward: nn.Module = model
        if shards is None and tensors and (REPLICAS in sizes or training.by_sequence):
            _localize(model)
        if REPLICAS in sizes:
            ids = [setup.device.index] if setup.device.type == "cuda" else None
            group = mesh[REPLICAS].get_group()
            forward = DistributedDataParallel(model, device_ids=ids, process_group=group)
        super().__init__(setup, forward, _optimizer_of(setup, model))
        self._replicated = forward if REPLICAS in sizes else None
        self.groups = {group_name(mesh[name].get_group()): name for name in sizes}
        self._ends = self._group_of_ends() if layout.pp > 1 and training.model.tied else None
        self._schedule = None
        if layout.pp > 1:
            self._schedule = _schedule_of(setup, forward, stage, mesh[PIPELINE].get_group())
        # Otherwise the last stage keeps and concatenates the logits of all microbatches.
        parameters = inspect.signature(Schedule1F1B.step).parameters
        self._options = {"return_outputs": False} if "return_outputs" in parameters else {}
        self._no_loss = torch.zeros((), device=setup.device)
        self.loss_ranks = [
            layout.rank_at(layout.pp - 1, replica, 0) for replica in range(layout.replicas)
        ]

    def _group_of_ends(self) -> dist.ProcessGroup | None:
        """The group of the first and the last stage, None on a rank between them."""
        layout, own = self._layout, None
        for replica in range(layout.replicas):
            for part in range(layout.tp):
                # A collective call of all ranks.
                ranks = [layout.rank_at(stage, replica, part) for stage in (0, layout.pp - 1)]
                group = dist.new_group(ranks)
                if self._setup.rank in ranks:
                    own = group
                    self.groups = {**self.groups, group_name(group): TIED}
        return own

    def step(self, tokens: Tensor) -> Tensor:
        """See Trainer."""
        if self._schedule is None:
            return super().step(tokens)
        self._optimizer.zero_grad(set_to_none=True)
        inputs, targets = halves(tokens)
        losses: list[Tensor] = []
        if self._is_first:
            # Without the column of the last target in its strides, which torch compares.
            self._schedule.step(inputs.contiguous(), **self._options)
        elif self._is_last:
            self._schedule.step(target=targets, losses=losses, **self._options)
        else:
            self._schedule.step(**self._options)
        if self._ends is not None and self._model.embedding is not None:
            gradient = self._model.embedding.weight.grad
            dist.all_reduce(_local(gradient), group=self._ends)
        self._optimizer.step()
        if not losses:
            return self._no_loss
        found = torch.stack(losses).detach()
        return found.sum() if self._setup.training.uneven else found.mean()

    @contextmanager
    def _holding_shards(self) -> Iterator[None]:
        sharded: Any = self._model
        sharded.set_requires_gradient_sync(False)
        if self._keeps:
            sharded.set_reshard_after_backward(False)
        yield
        sharded.set_requires_gradient_sync(True)
        sharded.set_reshard_after_backward(True)

    def holding_gradients(self) -> AbstractContextManager[object]:
        """See Trainer."""
        if isinstance(self._replicated, DistributedDataParallel):
            return self._replicated.no_sync()
        if self._layout.fsdp > 1:
            return self._holding_shards()
        return super().holding_gradients()

    def replicated(self) -> Iterator[tuple[str, Tensor | None]]:
        """See Trainer."""
        layout, training = self._layout, self._setup.training
        stage, _, own_part = self._place
        own = dict(self._model.named_parameters())
        if training.has_tied_stages:
            for part in range(layout.tp):
                # A middle stage has no embedding.
                held = own.pop(_TIED_WEIGHT, None) if part == own_part else None
                yield self._named(_TIED_WEIGHT, None, part), held
        if layout.dp == 1:
            return
        for other in range(layout.pp):
            names = [name for name, _ in _stage_on_meta(self._setup, other).named_parameters()]
            for part in range(layout.tp):
                for name in names:
                    if name != _TIED_WEIGHT or not training.has_tied_stages:
                        held = own[name] if (other, part) == (stage, own_part) else None
                        yield self._named(name, other, part), held

    def _named(self, name: str, stage: int | None, part: int) -> str:
        words = [f"stage {stage}"] if stage is not None and self._layout.pp > 1 else []
        words += [f"tp rank {part}"] if self._layout.tp > 1 else []
        return f"{name} of {', '.join(words)}" if words else name


_TIED_WEIGHT = "embedding.weight"


def _local(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _stage_on_meta(setup: Setup, stage: int) -> Transformer:
    layers, stages = setup.training.model.layers, setup.training.degrees.pp
    own = range(stage * layers // stages, (stage + 1) * layers // stages)
    return setup.model_on_meta(own, first=stage == 0, last=stage == stages - 1)


def _part_of(distributed: DTensor | None, shards: DeviceMesh | None, whole: Tensor) -> Tensor:
    """The part of a parameter that this rank holds. Without a source rank, nothing is sent."""
    if distributed is not None:
        mesh, placements = distributed.device_mesh, distributed.placements
        whole = distribute_tensor(whole, mesh, placements, src_data_rank=None).to_local()
    if shards is not None:
        whole = distribute_tensor(whole, shards, [Shard(0)], src_data_rank=None).to_local()
    return whole


def _optimizer_of(setup: Setup, model: Transformer) -> torch.optim.Optimizer:
    """Operations on lists of tensors require all of one kind and on one mesh."""
    by_mesh = by_key(
        (one.device_mesh if isinstance(one, DTensor) else None, one) for one in model.parameters()
    )
    kind, options = setup.optimizer_options()
    return kind([{"params": group} for group in by_mesh.values()], **options)


def _shard(setup: Setup, model: Transformer, mesh: DeviceMesh, *, keeps: bool) -> None:
    """``fully_shard`` on each layer, on the ends of the model and on the rest of it.

    As in torchtitan, the embedding is a separate unit, and the last norm with the output head is
    one that stays gathered until its backward pass. An output head that is tied to the embedding
    requires these weights at both ends: the embedding, positions and norm are then the root unit,
    which is gathered once in a step. The other units are gathered in the forward pass and again in
    the backward pass, unless ``keeps``, and gradients are reduced and scattered. There is no step
    without communication: parameters that are not gathered do not exist.
    """
    policy = MixedPrecisionPolicy()
    if setup.is_mixed:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    shard = partial(fully_shard, mesh=mesh, mp_policy=policy)
    if keeps:
        shard = partial(shard, reshard_after_forward=False)
    for layer in model.layers.values():
        shard(layer)
    if model.head is not None and model.embedding is not None and model.norm is not None:
        shard(model.embedding)
        shard([model.norm, model.head], reshard_after_forward=False)
    shard(model)


_COLUMNS = ("attention.project", "network.up", "network.gate")
_ROWS = ("attention.output", "network.down")


def _distribute(model: Transformer, mesh: DeviceMesh, *, by_sequence: bool) -> None:
    """Layers as in Megatron (Shoeybi et al., arXiv 1909.08053): two all-reduces per layer and pass.

    The first matrix of a pair is distributed by columns (whole heads), the second by rows. Norms
    are equal on all ranks. Unlike in Megatron, so are the embedding and an output head tied to it.
    An untied output head is distributed by columns, and its outputs are gathered.

    ``by_sequence`` (Korthikanti et al., arXiv 2205.05198): between the matrices each rank has a
    part of the sequence, so that a reduce-scatter and an all-gather replace each all-reduce. Unlike
    in Megatron, the last norm has the whole sequence.
    """
    whole = Shard(1) if by_sequence else Replicate()
    for number, layer in enumerate(model.layers.values()):
        names = {name for name, _ in layer.named_modules()}
        plan: dict[str, ParallelStyle] = {
            name: ColwiseParallel() for name in _COLUMNS if name in names
        }
        plan |= {name: RowwiseParallel(output_layouts=whole) for name in _ROWS if name in names}
        if by_sequence or isinstance(layer.network, Gated):
            # Otherwise the gradients of the input of both matrices are summed one by one.
            plan["network"] = PrepareModuleInput(
                input_layouts=whole, desired_input_layouts=Replicate()
            )
        if by_sequence:
            plan["attention"] = PrepareModuleInput(
                input_layouts=(whole, None), desired_input_layouts=(Replicate(), None)
            )
            norm = partial(SequenceParallel, use_local_output=True)
            plan |= {"attention_norm": norm(), "network_norm": norm()}
        parallelize_module(layer, mesh, plan)
        if by_sequence and number == 0 and model.is_first:
            split = PrepareModuleInput(
                input_layouts=(Replicate(), None),
                desired_input_layouts=(whole, None),
                use_local_output=True,
            )
            parallelize_module(layer, mesh, split)
    if by_sequence and not model.is_first:
        model.sequence_parts = mesh.size()
    if by_sequence and model.norm is not None:
        gather = PrepareModuleInput(
            input_layouts=whole, desired_input_layouts=Replicate(), use_local_output=True
        )
        parallelize_module(model.norm, mesh, gather)
    if model.head is not None:
        head = ColwiseParallel(output_layouts=Replicate())
        parallelize_module(model, mesh, {"head": head})


def _localize(model: Transformer) -> None:
    """Replaces each DTensor by its local part, which is a DTensor again in the forward pass only.

    DistributedDataParallel requires plain tensors. A norm that has a part of the sequence has a
    part of its gradient: the way back from a DTensor sums it over the tensor ranks.
    """
    held: list[tuple[nn.Module, str, nn.Parameter, Callable[[Tensor], DTensor]]] = []
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if isinstance(parameter, DTensor):
                local = nn.Parameter(parameter.detach().to_local())
                spread = partial(
                    DTensor.from_local,
                    device_mesh=parameter.device_mesh,
                    placements=parameter.placements,
                    run_check=False,
                    shape=parameter.shape,
                    stride=parameter.stride(),
                )
                held.append((module, name, local, spread))
                setattr(module, name, local)

    def distribute(*_: object) -> None:
        for module, name, local, spread in held:
            delattr(module, name)
            setattr(module, name, spread(local))

    def restore(*_: object) -> None:
        for module, name, local, _spread in held:
            delattr(module, name)
            setattr(module, name, local)

    model.register_forward_pre_hook(distribute)
    model.register_forward_hook(restore)


def _schedule_of(
    setup: Setup, forward: nn.Module, stage: int, group: dist.ProcessGroup
) -> Schedule1F1B:
    """The schedule 1F1B with the shapes of what stages exchange: they need not be sent."""
    training, layout = setup.training, setup.training.degrees
    is_first, is_last = stage == 0, stage == layout.pp - 1
    meta = partial(torch.empty, device="meta")
    length = training.sequence // (layout.tp if training.by_sequence else 1)
    dtype = torch.bfloat16 if setup.is_mixed else setup.dtype
    between = meta(training.micro_batch, length, training.model.width, dtype=dtype)
    between.requires_grad_()
    tokens = meta(training.micro_batch, training.sequence, dtype=torch.int64)
    logits = meta(training.micro_batch, training.sequence, training.model.vocabulary, dtype=dtype)
    piped = PipelineStage(
        forward,
        stage,
        layout.pp,
        setup.device,
        input_args=(tokens if is_first else between,),
        output_args=(logits if is_last else between,),
        group=group,
    )
    if not training.uneven:
        return Schedule1F1B(piped, setup.parts, loss_fn=loss_of)

    def weighted(logits: Tensor, targets: Tensor) -> Tensor:
        return loss_of(logits, targets) * setup.weight

    # The schedule would divide reduced gradients, on each replica by its own number of parts.
    return Schedule1F1B(piped, setup.parts, loss_fn=weighted, scale_grads=False)
