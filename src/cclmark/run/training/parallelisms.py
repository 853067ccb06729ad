"""The trainer of each parallelism."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module

from cclmark import _engine as engine
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


# The versions of torch with fully_shard and distribute_tensor's src_data_rank; with enable_gqa of
# the attention, which all models use.
_LEAST_TORCH = {FSDP: (2, 7), TENSOR: (2, 7)}
_LEAST_OF_ALL = (2, 5)


def require_version(found: str, parallel: str) -> None:
    """Raises MissingError if the version ``found`` of torch lacks what the parallelism requires."""
    least = _LEAST_TORCH.get(parallel, _LEAST_OF_ALL)
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is not None and tuple(map(int, numbers.groups())) < least:
        raise engine.MissingError(
            f"train with --parallel {parallel} requires torch {least[0]}.{least[1]} or newer, but "
            f"this is torch {found}"
        )


def trainer_of(setup: Setup) -> Trainer:
    """Creates the model, distributes it and returns its trainer; a collective call."""
    module, name = _TRAINERS[setup.training.parallel]
    create: Callable[[Setup], Trainer]
    create = getattr(import_module(f"cclmark.run.training.{module}"), name)
    return create(setup)
