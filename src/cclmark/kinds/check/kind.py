"""The record of this kind of work."""

from __future__ import annotations

from cclmark.kinds.check.plan import CHECK, Check
from cclmark.kinds.check.result import CheckResult
from cclmark.results.kind import Kind

KIND = Kind(
    CHECK,
    Check,
    CheckResult,
    "checks",
    __package__,
)
