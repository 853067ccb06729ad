"""Trainings on one rank."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from cclmark.rank.context import RankContext
from cclmark.rank.torch_backend import ProcessGroup
from cclmark.work.items import items_of
from cclmark.work.libraries import torch_backend_of
from cclmark_training.plan import Training
from cclmark_training.result import TrainingResult
from cclmark_training.torch_loop import TorchLoop

_NO_LOG = "10"  # above the levels of messages that torch's profiler prints


def run(context: RankContext) -> None:
    """Loads torch, introduces the rank and measures the trainings; rank 0 reports."""
    os.environ.setdefault("KINETO_LOG_LEVEL", _NO_LOG)
    _TrainingLoop(context, items_of(context.rank.planned, Training)).run()


class _TrainingLoop(TorchLoop):
    has_variants = True

    def __init__(self, context: RankContext, trainings: Sequence[Training]) -> None:
        super().__init__(context, trainings, torch_backend_of(trainings[0].ccl) or "")
        self._trainings = trainings

    def require(self, torch: Any) -> None:
        """See TorchLoop."""
        from cclmark_training.torch.training_runner import TrainingRunner  # imports torch

        self._runner_type = TrainingRunner

    def open(self, torch: Any, device: Any, group: ProcessGroup) -> None:
        """See TorchLoop."""
        self._runner = self._runner_type(self.rank, device, self.context.devices[0], self.backend)

    def measure(self, index: int) -> TrainingResult:
        """See TorchLoop."""
        return self._runner.run(index, self._trainings[index])
