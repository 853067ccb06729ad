"""The trainer of each parallelism, imported when it is first needed."""

from __future__ import annotations

from cclmark.plan.trainings import DDP, NONE, ZERO1
from cclmark.run.training.trainer import Setup, Trainer


def trainer_of(setup: Setup) -> Trainer:
    """Creates the model, distributes it and returns its trainer; a collective call."""
    parallel = setup.training.parallel
    if parallel == NONE:
        from cclmark.run.training.data_parallel import OneRank

        return OneRank(setup)
    if parallel in (DDP, ZERO1):
        from cclmark.run.training.data_parallel import DataParallel

        return DataParallel(setup)
    raise ValueError(f"unknown parallelism {parallel}")
