"""Slow-downs of a collective and a compute beside each other as text."""

from __future__ import annotations

from cclmark.analysis.overlap_summaries import SlowDown
from cclmark.analysis.ratio import RatioEstimate
from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size


def size_text(case: Case) -> str:
    """The size of a case: ``1 MiB``."""
    return format_size(case.size_bytes) if moves_data(case.operation) else "-"


def slow_down_text(slow_down: SlowDown | None) -> str:
    """The slow-down with its interval: ``1.18 (1.16 to 1.20)``."""
    if slow_down is None:
        return "-"
    if slow_down.estimate is None:
        return f"{slow_down.ratio:.3f}"
    return ratio_text(slow_down.estimate)


def ratio_text(estimate: RatioEstimate | None) -> str:
    """A ratio with its interval: ``1.18 (1.16 to 1.20)``."""
    if estimate is None:
        return "-"
    return f"{estimate.ratio:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
