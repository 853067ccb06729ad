"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.kind import Kind
from cclmark.kinds.overlap.plan import OVERLAP, Overlap
from cclmark.kinds.overlap.result import OverlapResult

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark.kinds.overlap.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
    from cclmark.kinds.overlap.run import run

    return run


KIND = Kind(
    OVERLAP,
    Overlap,
    OverlapResult,
    "overlaps",
    _report,
    in_rounds=True,
    runner=_runner,
)
