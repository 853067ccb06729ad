"""The record of this kind of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cclmark.plan.items import PROFILE
from cclmark.plan.profiled import ProfiledOperation
from cclmark.results.item_results import ProfileResult
from cclmark.results.kind import Kind

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind


def _report() -> ReportKind:
    from cclmark.kinds.profile.document import REPORT

    return REPORT


KIND = Kind(
    PROFILE,
    ProfiledOperation,
    ProfileResult,
    "operations",
    _report,
)
