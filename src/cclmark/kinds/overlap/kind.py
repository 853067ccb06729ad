"""The record of this kind of work."""

from __future__ import annotations

from cclmark.kinds.overlap.plan import OVERLAP, Overlap
from cclmark.kinds.overlap.result import OverlapResult
from cclmark.results.kind import Kind

KIND = Kind(
    OVERLAP,
    Overlap,
    OverlapResult,
    "overlaps",
    __package__,
    in_rounds=True,
)
