"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark.kinds.scaling.plan import SCALING, ScaledJob
from cclmark.kinds.scaling.result import ScaledResult


def _report() -> Any:
    from cclmark.kinds.scaling.document import REPORT

    return REPORT


KIND = Kind(
    SCALING,
    ScaledJob,
    ScaledResult,
    "steps",
    _report,
)
