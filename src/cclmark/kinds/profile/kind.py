"""The record of this kind of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cclmark.journal.item_results import ProfileResult
from cclmark.journal.kind import Kind
from cclmark.work.items import PROFILE
from cclmark.work.profiled import ProfiledOperation

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
