"""Pairs that stand out, in words: the same in every format. Safe to print: see report.text."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.copies import Checks
from cclmark.analysis.transfer_results import Deviation
from cclmark.plan.transfers import Transfer
from cclmark.report.kinds.matrix import Matrix, figure
from cclmark.report.wording.text import BYTES_PER_GB, US_PER_S


def relative(value: float, usual: float, *, lower_is_better: bool) -> str:
    """``43% lower, worse``: how far a value is from what is usual, and which way is good."""
    lower = value < usual
    word = "better" if lower == lower_is_better else "worse"
    return f"{abs(value / usual - 1):.0%} {'lower' if lower else 'higher'}, {word}"


def deviation_text(one: Deviation, names: Sequence[str]) -> str:
    """A copy that stands out, with what is usual and what was measured."""
    latency = one.transfer.measure == "latency"
    scale, unit = (US_PER_S, "µs") if latency else (1 / BYTES_PER_GB, "GB/s")
    start, end = (names[rank] for rank in one.pair)
    share = relative(one.value, one.usual, lower_is_better=latency)
    return (
        f"{start} → {end}: {figure(one.value * scale)} {unit}, usual for {one.kind} "
        f"{figure(one.usual * scale)} {unit} ({share}): {series_title(one.transfer.series())}"
    )


def series_title(series: Transfer) -> str:
    """What was measured, as the heading of its matrix."""
    figure_of = "latency" if series.measure == "latency" else "bandwidth"
    return Matrix(series, figure_of, [], []).title


def checks_text(checks: Checks) -> str:
    """How many copies were checked, and what has nothing to check."""
    text = f"{checks.checked} of {checks.copies} copies checked, {checks.wrong} wrong"
    if not checks.unverifiable:
        return text
    latencies = "latency" if checks.unverifiable == 1 else "latencies"
    return f"{text}; {checks.unverifiable} {latencies} of loads and stores have no output to check"
