"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_planning.need.plan import NEED, Need
from cclmark_planning.need.result import NeedResult


def _report() -> Any:
    from cclmark_planning.need.document import REPORT

    return REPORT


KIND = Kind(
    NEED,
    Need,
    NeedResult,
    "needs",
    _report,
)
