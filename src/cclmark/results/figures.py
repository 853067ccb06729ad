"""Selects a result's figure for the device's time, and the one for the cost of a call."""

from __future__ import annotations

from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Summary

AUTO = "auto"  # the timing that measures both where they differ
THROUGHPUT = "throughput"  # the timing that measures the cost of a call alone


def device_summary(result: CaseResult, timing: str) -> Summary | None:
    """Returns the device's time of a case, None if only the cost of a call was measured.

    With ``timing`` auto a case without a second figure is not bound by launches: its own summary is
    the device's time.
    """
    if result.device is not None:
        return result.device.summary
    return result.summary if timing == AUTO and not result.device_reason else None
