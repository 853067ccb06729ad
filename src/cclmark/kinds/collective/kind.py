"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.item_results import CaseResult
from cclmark.journal.kind import Kind
from cclmark.work.cases import Case
from cclmark.work.items import COLLECTIVE

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark.kinds.collective.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
    from cclmark.kinds.collective.run import run

    return run


KIND = Kind(
    COLLECTIVE,
    Case,
    CaseResult,
    "cases",
    _report,
    forgiven=("timeout",),
    has_device_times=True,
    runner=_runner,
)
