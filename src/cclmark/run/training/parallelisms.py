"""The trainer of each parallelism."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from cclmark.plan.training_choices import DDP, EXPERT, FSDP, NONE, PIPELINE, TENSOR, ZERO1
from cclmark.run.training.trainer import Setup, Trainer

# Modules below this package: each imports parts of torch that the others do not need.
_TRAINERS = {
    NONE: ("data_parallel", "OneRank"),
    DDP: ("data_parallel", "DataParallel"),
    ZERO1: ("data_parallel", "DataParallel"),
    FSDP: ("sharded", "Sharded"),
    TENSOR: ("tensor_parallel", "TensorParallel"),
    PIPELINE: ("pipeline", "Pipeline"),
    EXPERT: ("expert_parallel", "ExpertParallel"),
}


def trainer_of(setup: Setup) -> Trainer:
    """Creates the model, distributes it and returns its trainer; a collective call."""
    module, name = _TRAINERS[setup.training.parallel]
    create: Callable[[Setup], Trainer]
    create = getattr(import_module(f"cclmark.run.training.{module}"), name)
    return create(setup)
