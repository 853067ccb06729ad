"""Trainings on one rank."""

from __future__ import annotations

import os

from cclmark import _engine as engine
from cclmark.kinds.train.plan import Training
from cclmark.plan.items import items_of
from cclmark.plan.libraries import torch_backend_of
from cclmark.run.context import RankContext
from cclmark.run.torch_backend import (
    ProcessGroup,
    describe_backend,
    load_torch,
    one_line,
    tensor_device,
)

_NO_LOG = "10"  # above the levels of messages that torch's profiler prints
_PATIENCE_S = 60.0  # torch's timeout exceeds the deadline of a phase by this time


def run(context: RankContext) -> None:
    """Loads torch, introduces the rank and measures the trainings; rank 0 reports."""
    rank, job = context.rank, context.job
    trainings = items_of(rank.planned, Training)
    backend = torch_backend_of(trainings[0].ccl) or ""
    context.share_processors(alone=False)
    rank.enter("loading the library")
    os.environ.setdefault("KINETO_LOG_LEVEL", _NO_LOG)
    torch = load_torch(backend, job.modules)
    context.introduce([describe_backend(torch, backend)])
    from cclmark.kinds.train.torch.training_runner import TrainingRunner  # which imports torch

    device = tensor_device(torch, job.runtime, context.devices[0].info.index)
    group = ProcessGroup(rank, torch, backend, device, job.settings.timeout_s + _PATIENCE_S)
    rank.enter("communicator creation")
    try:
        group.make()
    except Exception as error:  # any exception means that the backend is unavailable
        raise engine.MissingError(
            f"torch cannot create a process group with backend {backend}: {one_line(error)}"
        ) from None
    runner = TrainingRunner(rank, device, context.devices[0], backend)
    for index, training in enumerate(trainings):
        rank.case_index = index
        result = runner.run(index, training)
        if job.rank == 0:
            rank.report(result)
    rank.enter("shutdown")
    group.close()
    rank.case_index = -1
    rank.enter("finished")
