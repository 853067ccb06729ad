"""The record of this kind of work."""

from __future__ import annotations

from cclmark.plan.cases import Case
from cclmark.plan.items import COLLECTIVE
from cclmark.results.item_results import CaseResult
from cclmark.results.kind import Kind

KIND = Kind(
    COLLECTIVE,
    Case,
    CaseResult,
    "cases",
    __package__,
    forgiven=("timeout",),
    has_device_times=True,
)
