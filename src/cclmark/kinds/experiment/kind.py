"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.kind import Kind
from cclmark.kinds.experiment.plan import EXPERIMENT, Trial
from cclmark.kinds.experiment.result import TrialResult

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark.kinds.experiment.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
    from cclmark.kinds.experiment.run import run

    return run


KIND = Kind(
    EXPERIMENT,
    Trial,
    TrialResult,
    "trials",
    _report,
    in_rounds=True,
    # Without a variant an experiment has no result; what overlap measures by default is one.
    requires_variant=True,
    runner=_runner,
)
