"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_training.check.plan import CHECK, Check
from cclmark_training.check.result import CheckResult


def _report() -> Any:
    from cclmark_training.check.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark_training.check.run import run

    return run


KIND = Kind(
    CHECK,
    Check,
    CheckResult,
    "checks",
    _report,
    runner=_runner,
    usual_s=0.05,
)
