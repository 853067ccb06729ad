"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cclmark.journal.kind import Kind
from cclmark.kinds.pieces.plan import PIECES, PieceCase
from cclmark.kinds.pieces.result import PieceResult

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind
    from cclmark.rank.context import RankContext


def _report() -> ReportKind:
    from cclmark.kinds.pieces.document import REPORT

    return REPORT


def _runner() -> Callable[[RankContext], None]:
    from cclmark.kinds.pieces.run import run

    return run


KIND = Kind(
    PIECES,
    PieceCase,
    PieceResult,
    "pieces",
    _report,
    runner=_runner,
)
