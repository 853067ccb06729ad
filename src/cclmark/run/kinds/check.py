"""Checks of a backend of torch.distributed on one rank."""

from __future__ import annotations

from cclmark.kinds.check.plan import Check
from cclmark.plan.items import items_of
from cclmark.run.context import RankContext
from cclmark.run.torch_backend import describe_backend, load_torch
from cclmark.run.torch_check import TorchChecker


def run(context: RankContext) -> None:
    """Loads torch, introduces the rank and runs the checks; rank 0 reports."""
    rank, job = context.rank, context.job
    checks = items_of(rank.planned, Check)
    backend = checks[0].backend
    context.share_processors(alone=False)
    rank.enter("loading the library")
    torch = load_torch(backend, job.modules)
    context.introduce([describe_backend(torch, backend)])
    TorchChecker(rank, checks, torch, job.runtime, context.devices[0].info.index).run()
    rank.enter("finished")
