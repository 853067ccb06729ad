"""A run beside the one that it repeats, in a few lines."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.repeat import Repeat
from cclmark.analysis.statistics import median
from cclmark.report.text import plain

_MOST_LINES = 40  # more than these are shown only where they differ


def repeat_lines(found: Sequence[Repeat], name: str) -> list[str]:
    """What took longer or shorter than in the journal ``name``, and how much."""
    if not found:
        return [f"  nothing that was measured now has figures in {plain(name)}"]
    differing = [one for one in found if one.apart]
    shown = found if len(found) <= _MOST_LINES else differing[:_MOST_LINES]
    labels = [_label(one) for one in shown]
    width = max(map(len, labels), default=0)
    lines = [f"  time now over time in {plain(name)}:"]
    lines += [
        f"    {label:<{width}}  {one.ratio:7.3f}{_verdict(one)}"
        for label, one in zip(labels, shown, strict=True)
    ]
    slower = sum(one.ratio > 1 for one in differing)
    text = f"  {len(found)} in both, median ratio {median([one.ratio for one in found]):.3f}; "
    text += f"{slower} slower and {len(differing) - slower} faster beyond their 95 % intervals"
    unknown = sum(one.apart is None for one in found)
    return [*lines, text + (f", {unknown} with too few samples to say" if unknown else "")]


def _label(one: Repeat) -> str:
    cycle = f" cycle {one.cycle}" if one.cycle else ""
    return plain(f"{one.thing.describe()}{cycle}")


def _verdict(one: Repeat) -> str:
    if not one.apart:
        return ""
    return "  slower" if one.ratio > 1 else "  faster"
