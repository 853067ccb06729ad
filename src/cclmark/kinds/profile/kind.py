"""The record of this kind of work."""

from __future__ import annotations

from cclmark.plan.items import PROFILE
from cclmark.plan.profiled import ProfiledOperation
from cclmark.results.item_results import ProfileResult
from cclmark.results.kind import Kind

KIND = Kind(
    PROFILE,
    ProfiledOperation,
    ProfileResult,
    "operations",
    __package__,
    has_ranks=False,
)
