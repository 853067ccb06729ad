"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark.kinds.overlap.plan import OVERLAP, Overlap
from cclmark.kinds.overlap.result import OverlapResult


def _report() -> Any:
    from cclmark.kinds.overlap.document import REPORT

    return REPORT


def _runner() -> Any:
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
