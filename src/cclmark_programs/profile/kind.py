"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.item_results import ProfileResult
from cclmark.journal.kind import Kind
from cclmark.work.items import PROFILE
from cclmark.work.profiled import ProfiledOperation


def _report() -> Any:
    from cclmark_programs.profile.document import REPORT

    return REPORT


KIND = Kind(
    PROFILE,
    ProfiledOperation,
    ProfileResult,
    "operations",
    _report,
)
