"""A comparison as a document: cases side by side, bands, ratios over sizes, and what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Literal

from cclmark.analysis.ratio import RatioVerdict
from cclmark.base.printable import plain
from cclmark.comparison.figures import Band, Compared, LaunchCost
from cclmark.comparison.words import Comparison, noise_said, shown_of, tally
from cclmark.document.blocks import (
    Document,
    Evidence,
    Finding,
    Severity,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.chart_model import ChartCurve, Level, Lines
from cclmark.document.text import counted, format_time_us, us_text
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size

_LOOKS: dict[RatioVerdict, Severity] = {
    "slower": "bad",
    "faster": "good",
    "inconclusive": "look",
    "noise unknown": "unknown",
    "not comparable": "unknown",
}
_MOST_REASONS = 5
_DEVICE = "device time"  # in the remark of a row
_TOO_WIDE = "the interval contains 1 and reaches beyond the margin"


_MORE_RUNS = (
    "Measure each side twice more with `cclmark rerun FILE`, then `cclmark compare FILE,FILE,FILE "
    "FILE,FILE,FILE`."
)


def comparison_document(comparison: Comparison) -> Document:
    """Composes everything that a comparison says."""
    return Document(
        comparison.title,
        "",
        blocks=[*_tables(comparison), *ratio_charts(comparison)],
        findings=[*_verdicts(comparison), *_not_judged(comparison.found), *_context(comparison)],
        outcome=tally(comparison.found),
        notes=["a ratio is the time after divided by the time before: above 1 is slower"],
    )


def _interval(one: Compared | Band) -> str:
    least = one.least if isinstance(one, Compared) else None
    if least is not None:
        return f"{least.low:.3f} - {least.high:.3f} or wider"
    if one.low is None or one.high is None:
        return ""
    return f"{one.low:.3f} - {one.high:.3f}"


_UNDECIDED = ("inconclusive", "noise unknown")


def _decided(
    head: str, text: Callable[[Compared | Band], str], side: Literal["<", ">"] = "<"
) -> TableColumn:
    """A column with the text of cases that noise does not decide; the verdict has the word."""
    return TableColumn(
        head,
        lambda one: "-" if one.verdict in _UNDECIDED else text(one),
        side,
        number=lambda one: text(one) if one.verdict in _UNDECIDED else "",
    )


_RATIO = (
    _decided("after / before", lambda one: f"{one.ratio:.3f}", ">"),
    _decided("95 % interval", _interval),
    TableColumn("verdict", lambda one: one.verdict, look=lambda one: _LOOKS.get(one.verdict, "")),
)
_OF_BAND = (
    TableColumn("sizes", lambda band: f"{band.operation}, {band.name}"),
    TableColumn("cases", lambda band: band.count_in_words, ">"),
    *_RATIO,
)
_OF_CASE = (
    TableColumn("size", lambda one: one.thing.size_words(), ">"),
    TableColumn("between", lambda one: one.thing.flow_words()),
    TableColumn("before µs", lambda one: us_text(one.before_s), ">"),
    TableColumn("after µs", lambda one: us_text(one.after_s), ">"),
    *_RATIO,
    TableColumn("of", lambda one: _DEVICE if one.by_device else ""),
    TableColumn(
        "what ran", lambda one: " → ".join(map(plain, one.ran)) if one.ran_differently else ""
    ),
)


def _tables(comparison: Comparison) -> Iterator[Table]:
    if comparison.bands:
        yield table_of("cases of like sizes together", _OF_BAND, comparison.bands)
    for name, group in groupby(shown_of(comparison), comparison.group_of):
        cases = [*group]
        is_detail = not any(one.differs for one in cases)
        yield table_of(name, _OF_CASE, cases, is_detail=is_detail, on_page=False)


def _verdicts(comparison: Comparison) -> Iterator[Finding]:
    found = comparison.found
    if wrong := [one for one in found if one.is_wrong]:
        text = f"wrong data in {counted(len(wrong), 'case')}: see the reasons below"
        yield Finding("wrong-data", "bad", text)
    kinds: tuple[tuple[Severity, RatioVerdict], ...] = (("look", "slower"), ("good", "faster"))
    for kind, word in kinds:
        if ones := [one for one in found if one.verdict == word and one.ratio]:
            far = max(ones, key=lambda one: abs((one.ratio or 1.0) - 1))
            where, ratio = far.thing.describe(), far.ratio or 1.0
            text = f"{len(ones)} {word} beyond noise, the most {where}: {ratio:.3f} times as long"
            yield Finding(word, kind, text, evidence=(Evidence.of("ratio", ratio, where, 1),))
    if not any(one.judged for one in found):
        text = "no case could be judged: see the reasons below"
        yield Finding("no-case-judged", "unknown", text, advice=_MORE_RUNS)
    elif inconclusive := sum(one.verdict == "inconclusive" for one in found):
        text = f"{counted(inconclusive, 'case')} inconclusive: {_TOO_WIDE}"
        yield Finding("inconclusive-cases", "unknown", text, advice=_MORE_RUNS)
    elif all(one.judged and not one.differs for one in found):
        text = f"no difference beyond the margin of {comparison.margin * 100:.3g} %"
        yield Finding("nothing-found", "good", text)


def _context(comparison: Comparison) -> Iterator[Finding]:
    """What verdicts depend on: the journals, launches, other differences, the noise, the margin."""
    for text in comparison.incomplete:
        yield Finding("ended-early", "look", text)
    if (found := comparison.launches) is not None:
        cost = Evidence.of("time_us", found.after_s, "a call after", found.before_s)
        yield Finding("launch-bound", "note", _launches(found), evidence=(cost,))
    for text in comparison.differences or ("none that the journals record",):
        yield Finding("differences", "note", text, subject="differences between them")
    if noise := noise_said(comparison):
        yield Finding("noise-between-runs", "note", f"noise from run to run is {noise}")
    if any(one.judged for one in comparison.found):
        margin = Evidence.of("margin_percent", comparison.margin)
        text = f"margin of {_margin(comparison.margin)}"
        yield Finding("margin", "note", text, evidence=(margin,))
    for side, word in ((comparison.before, "before"), (comparison.after, "after")):
        for text in dict.fromkeys(text for run in side.runs for text in run.header.notices):
            yield Finding("notice", "note", text, subject=word)


def _not_judged(found: Sequence[Compared]) -> Iterator[Finding]:
    """The reasons why cases have no verdict, the most frequent first."""
    kinds: dict[RatioVerdict, tuple[str, str, Severity]] = {
        "noise unknown": ("not judged", "cases-not-judged", "unknown"),
        "not comparable": ("not comparable", "cases-not-compared", "note"),
    }
    counts = Counter((one.verdict, plain(one.reason)) for one in found if one.verdict in kinds)
    more = len(counts) - _MOST_REASONS
    for number, ((verdict, reason), count) in enumerate(counts.most_common(_MOST_REASONS), 1):
        words, rule, severity = kinds[verdict]
        rest = f"; {more} more reasons" if more > 0 and number == _MOST_REASONS else ""
        yield Finding(rule, severity, f"{count} {words}: {reason}{rest}")


def _margin(margin: float) -> str:
    """Explains the verdicts at that margin."""
    return (
        f"{margin * 100:.3g} %: no difference where the interval is within it, inconclusive where "
        "it contains 1 and reaches beyond; slower and faster where it does not contain 1"
    )


def _launches(found: LaunchCost) -> str:
    """Describes the cost of launch-bound calls and the device's time."""
    reading = {
        "slower": "the process after launches more slowly",
        "faster": "the process after launches faster",
    }.get(found.verdict, "within the variation between processes")
    device = {
        "no difference": "unchanged",
        "inconclusive": "not precise enough",
    }.get(found.device, found.device)
    estimate = found.estimate
    return (
        f"calls cost {format_time_us(found.after_s)} µs against {format_time_us(found.before_s)} "
        f"in {counted(found.count, 'case')} set by launches (ratio {estimate.ratio:.3f}, "
        f"{estimate.low:.3f} - {estimate.high:.3f}): {reading}; device time {device}. "
        f"Rows marked '{_DEVICE}' compare the device's times of these cases"
    )


def ratio_charts(comparison: Comparison) -> list[Lines]:
    """Returns a chart for each operation with two sizes or more."""
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
                key=f"{name.replace(' ', '-')}-ratio",
                title=f"{name}: time after over time before",
                says=f"Time after over time before of {name} by message size with its 95 % "
                f"interval: from {least[0]:.3f} at {format_size(int(least[1]))} to {worst[0]:.3f} "
                f"at {format_size(int(worst[1]))}. Above 1 is slower. Where the band contains 1 no "
                "difference is proven; no band: too few samples, or noise that is unknown.",
                x_title="message size",
                y_title="ratio (above 1: slower)",
                series=series,
                levels=[Level("equal", 1.0)],
                zero_based=False,
                notes=[
                    "no difference is proven where the band contains 1, whatever the curve looks "
                    "like; sizes without a band have too few samples, or noise that is unknown"
                ],
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
        hover=[_hover(one) for one in found],
    )


def _hover(one: Compared) -> str:
    words = [f"{one.ratio:.3f}: {one.verdict}"]
    if one.by_device:
        words.append(_DEVICE)
    if one.low is not None and one.high is not None:
        words.append(f"95 % interval {one.low:.3f} to {one.high:.3f}")
    if one.before_s is not None and one.after_s is not None:
        words.append(
            f"{format_time_us(one.before_s)} µs before, {format_time_us(one.after_s)} after"
        )
    return "; ".join(words)
