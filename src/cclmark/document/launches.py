"""Describes the size up to which launches, not devices, determine the time of an operation."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.findings import OperationFindings
from cclmark.document.text import format_time_us
from cclmark.plan.sizes import format_size


def all_launches_in_words(found: Sequence[OperationFindings]) -> str:
    """Describes all operations of a run in one sentence; empty if no operation is affected."""
    texts = [(one.name, text) for one in found if (text := launches_in_words(one))]
    if not texts:
        return ""
    if len(found) > 1:
        return f"{'; '.join(f'{name}: {text}' for name, text in texts)}."
    text = texts[0][1]
    return f"{text[0].upper()}{text[1:]}."


def launches_in_words(found: OperationFindings) -> str:
    """Describes one operation; empty if launches determine no time, or if that is unknown."""
    largest, smallest = found.launch_bound, found.latency
    if largest is None:
        return ""
    words = f"launches determine the time up to {format_size(largest.case.size_bytes)}"
    if smallest.device is not None and smallest.summary is not None:
        call, device = (
            format_time_us(summary.time_s)
            for summary in (smallest.summary, smallest.device.summary)
        )
        size = format_size(smallest.case.size_bytes)
        return f"{words}: at {size} a call costs {call} µs, the device needs {device} µs"
    reason = largest.device_reason or smallest.device_reason
    return f"{words}; device times unknown: {reason}" if reason else words
