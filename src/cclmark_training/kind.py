"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.kind import Kind
from cclmark_training.plan import TRAIN, Training
from cclmark_training.result import TrainingResult

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark_training.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
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
)
