"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_training.objects.plan import OBJECTS, ObjectCall
from cclmark_training.objects.result import ObjectResult


def _report() -> Any:
    from cclmark_training.objects.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark_training.objects.run import run

    return run


KIND = Kind(
    OBJECTS,
    ObjectCall,
    ObjectResult,
    "objects",
    _report,
    runner=_runner,
    usual_s=2.0,
)
