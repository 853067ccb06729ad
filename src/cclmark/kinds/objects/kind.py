"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.kind import Kind
from cclmark.kinds.objects.plan import OBJECTS, ObjectCall
from cclmark.kinds.objects.result import ObjectResult

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark.kinds.objects.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
    from cclmark.kinds.objects.run import run

    return run


KIND = Kind(
    OBJECTS,
    ObjectCall,
    ObjectResult,
    "objects",
    _report,
    runner=_runner,
)
