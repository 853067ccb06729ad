"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_planning.predict.plan import PREDICT, Prediction
from cclmark_planning.predict.result import PredictResult


def _report() -> Any:
    from cclmark_planning.predict.document import REPORT

    return REPORT


KIND = Kind(
    PREDICT,
    Prediction,
    PredictResult,
    "predictions",
    _report,
)
