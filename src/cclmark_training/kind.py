"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_training.plan import TRAIN, Training
from cclmark_training.result import TrainingResult


def _report() -> Any:
    from cclmark_training.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark_training.run import run

    return run


KIND = Kind(
    TRAIN,
    Training,
    TrainingResult,
    "trainings",
    _report,
    in_rounds=True,
    runner=_runner,
    usual_s=40.0,
)
