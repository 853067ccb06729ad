"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_planning.scaling.plan import SCALING, ScaledJob
from cclmark_planning.scaling.result import ScaledResult


def _report() -> Any:
    from cclmark_planning.scaling.document import REPORT

    return REPORT


KIND = Kind(
    SCALING,
    ScaledJob,
    ScaledResult,
    "steps",
    _report,
)
