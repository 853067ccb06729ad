"""The record of this kind of work."""

from __future__ import annotations

from cclmark.kinds.train.plan import TRAIN, Training
from cclmark.kinds.train.result import TrainingResult
from cclmark.results.kind import Kind

KIND = Kind(
    TRAIN,
    Training,
    TrainingResult,
    "trainings",
    __package__,
    in_rounds=True,
)
