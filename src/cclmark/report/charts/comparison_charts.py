"""Charts of two configurations: the time after over the time before, for each case."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.analysis.compare import Compared
from cclmark.plan.cases import Case
from cclmark.plan.sizes import format_size
from cclmark.document.chart_model import ChartCurve, Level, Lines
from cclmark.report.comparison import Comparison
from cclmark.document.text import format_time_us


def ratio_charts(comparison: Comparison, mark: str = "") -> list[Lines]:
    """Returns a chart for each operation with two sizes or more; ``mark`` makes keys unique."""
    groups: dict[str, dict[str, list[Compared]]] = {}
    for one in comparison.found:
        if one.ratio is None or not isinstance(one.thing, Case) or one.thing.pair is not None:
            continue
        groups.setdefault(_name(one.thing), {}).setdefault(one.thing.placement, []).append(one)
    charts = []
    for name, curves in groups.items():
        series = [
            _curve(placement, sorted(found, key=lambda one: one.size_bytes), number, len(curves))
            for number, (placement, found) in enumerate(curves.items())
        ]
        if all(len(one.x) < 2 for one in series):
            continue
        worst = max((high, size) for one in series for high, size in zip(one.y, one.x, strict=True))
        least = min((low, size) for one in series for low, size in zip(one.y, one.x, strict=True))
        charts.append(
            Lines(
                key=f"{name.replace(' ', '-')}-ratio{mark}",
                title=f"{name}: time after over time before",
                says=f"Time after over time before of {name} by message size with its 95 % "
                f"interval: from {least[0]:.3f} at {format_size(int(least[1]))} to {worst[0]:.3f} "
                f"at {format_size(int(worst[1]))}. Above 1 is slower. Where the band contains 1 no "
                "difference is proven; where there is no band there are too few samples.",
                x_title="message size",
                y_title="ratio (above 1: slower)",
                series=series,
                levels=[Level("equal", 1.0)],
                zero_based=False,
            )
        )
    return charts


def _name(case: Case) -> str:
    words = [case.operation, case.dtype, case.reduction or ""]
    words.append("" if case.root is None else f"root {case.root}")
    return " ".join(filter(None, [*words, case.ccl]))


def _curve(placement: str, found: Sequence[Compared], number: int, curves: int) -> ChartCurve:
    ratios = [one.ratio or 0.0 for one in found]
    some = any(one.low is not None for one in found)
    return ChartCurve(
        name=placement,
        x=[one.size_bytes for one in found],
        y=ratios,
        low=[one.low for one in found] if some else (),
        high=[one.high for one in found] if some else (),
        colour=number,
        dashed=placement == "in-place" and curves > 1,
        hover=[_words(one) for one in found],
    )


def _words(one: Compared) -> str:
    words = [f"{one.ratio:.3f}: {one.verdict}"]
    if one.by_device:
        words.append("device time")
    if one.low is not None and one.high is not None:
        words.append(f"95 % interval {one.low:.3f} to {one.high:.3f}")
    if one.before_s is not None and one.after_s is not None:
        words.append(
            f"{format_time_us(one.before_s)} µs before, {format_time_us(one.after_s)} after"
        )
    return "; ".join(words)
