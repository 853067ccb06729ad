"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.kind import Kind
from cclmark.kinds.check.plan import CHECK, Check
from cclmark.kinds.check.result import CheckResult

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark.kinds.check.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
    from cclmark.kinds.check.run import run

    return run


KIND = Kind(
    CHECK,
    Check,
    CheckResult,
    "checks",
    _report,
    runner=_runner,
)
