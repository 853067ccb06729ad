"""The trainer of each parallelism."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's users call it

from cclmark import _engine as engine
from cclmark.kinds.train.choices import DDP, EXPERT, FSDP, NONE, PIPELINE, TENSOR, ZERO1
from cclmark.kinds.train.torch.trainer import Setup, Trainer

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


@dataclass(frozen=True)
class Feature:
    """Features of torch that a training requires, and the first version with them.

    ``parameter``: an optional one of the function or of the constructor of the class ``name``.
    """

    since: str
    module: str
    name: str
    parameter: str = ""

    def missing(self) -> str:
        """What is missing, in words; empty if nothing is."""
        found = _found(self.module, self.name)
        if found is None:
            return f"{self.module}.{self.name}"
        if not self.parameter:
            return ""
        parameter = inspect.signature(found).parameters.get(self.parameter)
        if parameter is None or parameter.default is inspect.Parameter.empty:
            return f"optional parameter {self.parameter} of {self.module}.{self.name}"
        return ""


_TENSORS = Feature("2.7", "torch.distributed.tensor", "distribute_tensor", "src_data_rank")
_FEATURES = {
    FSDP: (
        Feature("2.6", "torch.distributed.fsdp", "fully_shard"),
        Feature("2.6", "torch.distributed.fsdp", "MixedPrecisionPolicy"),
        _TENSORS,
    ),
    TENSOR: (_TENSORS,),
    PIPELINE: (
        Feature("2.5", "torch.distributed.pipelining", "Schedule1F1B"),
        # Without arguments, the stages exchange their shapes in the first step.
        Feature("2.6", "torch.distributed.pipelining", "PipelineStage", "input_args"),
    ),
    EXPERT: (
        Feature("2.5", "torch.distributed._functional_collectives", "all_to_all_single_autograd"),
    ),
}
_GROUPED_QUERIES = ("2.5", "parameter enable_gqa of scaled_dot_product_attention")


def require_features(parallel: str) -> None:
    """Raises MissingError if this torch lacks what the parallelism requires."""
    needed = _FEATURES.get(parallel, ())
    absent = [(one.since, text) for one in needed if (text := one.missing())]
    if not _has_grouped_queries():
        absent.append(_GROUPED_QUERIES)
    if absent:
        least = max(since for since, _ in absent)
        raise engine.MissingError(
            f"train with --parallel {parallel} requires torch {least} or newer: this torch "
            f"{torch.__version__} has no {', no '.join(text for _, text in absent)}"
        )


def _found(module: str, name: str) -> Callable[..., object] | None:
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def _has_grouped_queries() -> bool:
    """Whether attention supports groups of queries. Functions in C have no signature."""
    one = torch.zeros(1, 1, 1, 1)
    try:
        F.scaled_dot_product_attention(one, one, one, enable_gqa=False)
    except TypeError:
        return False
    return True


def trainer_of(setup: Setup) -> Trainer:
    """Creates the model, distributes it and returns its trainer; a collective call."""
    module, name = _TRAINERS[setup.training.parallel]
    create: Callable[[Setup], Trainer]
    create = getattr(import_module(f"cclmark.kinds.train.torch.{module}"), name)
    return create(setup)
