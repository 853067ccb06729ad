"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.kind import Kind
from cclmark.kinds.train.plan import TRAIN, Training
from cclmark.kinds.train.result import TrainingResult

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark.kinds.train.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
    from cclmark.kinds.train.run import run

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
