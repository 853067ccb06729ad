"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark.kinds.pieces.plan import PIECES, PieceCase
from cclmark.kinds.pieces.result import PieceResult


def _report() -> Any:
    from cclmark.kinds.pieces.document import REPORT

    return REPORT


def _runner() -> Any:
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
