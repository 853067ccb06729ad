"""What tracing costs: the time in batches that are traced beside that in others."""

from __future__ import annotations

from collections.abc import Callable

from cclmark.document.text import format_time_us
from cclmark.trace.batch_time import BatchTime


def batch_text(batch: BatchTime, untraced_s: float | None, text: Callable[[float], str]) -> str:
    """Returns the times, and their difference if there are enough batches.

    ``untraced_s``: the median of the measurement. ``text``: formats a time in seconds.
    """
    several = "one batch"
    if len(batch.times_s) > 1:
        ends_s = (min(batch.times_s), max(batch.times_s))
        ends = " to ".join(map(format_time_us, ends_s))
        several = f"median of {len(batch.times_s)}, {ends}"
    traced = f"in batches of {batch.number}, {text(batch.time_s)} each while traced ({several})"
    if not untraced_s:
        return traced
    both = f"{traced}; untraced {text(untraced_s)}"
    change = batch.change_from(untraced_s)
    if change is None:
        return f"{both} (median); the cost of tracing requires more batches: lower -n"
    return f"{both} (median, {change:+.1%})"
