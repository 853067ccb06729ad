"""The record of this kind of work."""

from __future__ import annotations

from cclmark.kinds.pieces.plan import PIECES, PieceCase
from cclmark.kinds.pieces.result import PieceResult
from cclmark.results.kind import Kind

KIND = Kind(
    PIECES,
    PieceCase,
    PieceResult,
    "pieces",
    __package__,
)
