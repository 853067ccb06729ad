"""A page that compares configurations: differences, and curves on the same axes."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark import __version__
from cclmark.base.printable import plain
from cclmark.comparison.figures import Compared, Side
from cclmark.comparison.words import (
    Comparison,
    launches_in_words,
    margin_in_words,
    noise_said,
    reasons_said,
    shown_of,
    tally,
)
from cclmark.document.blocks import Evidence, Finding, Severity, Table
from cclmark.document.chart_model import Chart, ChartCurve, Level, Lines
from cclmark.document.naming import NamedRun, group_titles, groups_of
from cclmark.document.page.page import Page, Rows, Section, shortened
from cclmark.document.text import counted, format_time_us
from cclmark.journal.page_journals import stem_of
from cclmark.kinds.collective.charts import collective_charts
from cclmark.work.cases import Case
from cclmark.work.sizes import format_size


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


_COLUMNS = (
    *("comparison", "case", "ccl", "size_bytes", "figure", "before_us", "after_us"),
    *("ratio", "low", "high", "verdict", "reason"),
)


_TOO_WIDE = "the interval contains 1 and reaches beyond the margin"


def comparison_page(comparisons: Sequence[Comparison]) -> Page:
    """Creates the page of one or more comparisons with a common side before."""
    several = len(comparisons) > 1
    sides = [comparisons[0].before, *(one.after for one in comparisons)]
    names = _names(sides)
    runs = [
        NamedRun(name if len(side.runs) == 1 else f"first of {name}", side.runs[0])
        for name, side in zip(names, sides, strict=True)
    ]
    sections = []
    for number, (one, name) in enumerate(zip(comparisons, names[1:], strict=True)):
        mark = f"-{number}" if several else ""
        title = f"{name} against {names[0]}"
        sections.append(
            Section(
                f"ratios{mark}",
                title if several else "Ratios",
                words=_changes(one),
                charts=ratio_charts(one, mark),
                tables=_means(one),
            )
        )
    sections += _overlays(runs)
    return Page(
        title=f"{', '.join(names[1:])} against {names[0]}",
        subtitle=runs[0].journal.header.machine.hostname
        + "".join(f", {name}: {_runs(side)}" for name, side in zip(names, sides, strict=True)),
        lead=[
            (f"{name}: " if several else "") + tally(one.found) + "."
            for one, name in zip(comparisons, names[1:], strict=True)
        ],
        insights=[
            (name if several else "", _insights(one))
            for one, name in zip(comparisons, names[1:], strict=True)
        ],
        sections=sections,
        rows=_rows(comparisons, names[1:]),
        made_by=f"Made by cclmark {__version__}. A ratio is the time after over the time before.",
    )


def _names(sides: Sequence[Side]) -> list[str]:
    """Returns the files' names without extensions if these are unique, otherwise in full."""
    stems = []
    for side in sides:
        first, more = side.name, ""
        if len(side.runs) > 1:
            first, _, number = side.name.rpartition(" and ")
            more = f" and {number}"
        stems.append(stem_of(first) + more)
    if len(set(stems)) == len(stems):
        return stems
    return [side.name for side in sides]


def _runs(side: Side) -> str:
    return f"{len(side.runs)} run{'s' * (len(side.runs) > 1)}"


def _insights(comparison: Comparison) -> list[Finding]:
    slower = [one for one in comparison.found if one.verdict == "slower" and one.ratio]
    faster = [one for one in comparison.found if one.verdict == "faster" and one.ratio]
    kinds: tuple[tuple[Severity, str, list[Compared]], ...] = (
        ("look", "slower", slower),
        ("good", "faster", faster),
    )
    found = []
    for kind, word, ones in kinds:
        if ones:
            far = max(ones, key=lambda one: abs((one.ratio or 1.0) - 1))
            text = f"{len(ones)} {word} beyond noise, the most {_what(far)}"
            ratio = far.ratio or 1.0
            evidence = Evidence("ratio", ratio, "times", _what(far))
            text += f": {far.ratio:.3f} times as long."
            found.append(Finding(word, kind, text, evidence=(evidence,)))
    wrong = [one for one in comparison.found if one.is_wrong]
    if wrong:
        found.insert(
            0,
            Finding(
                "wrong-data",
                "bad",
                f"Wrong data in {counted(len(wrong), 'case')}: see the reasons below.",
            ),
        )
    inconclusive = sum(one.verdict == "inconclusive" for one in comparison.found)
    if not any(one.judged for one in comparison.found):
        found.append(
            Finding(
                "no-case-judged",
                "unknown",
                "No case could be judged: see the reasons below.",
            )
        )
    elif inconclusive:
        text = f"{counted(inconclusive, 'case')} inconclusive: {_TOO_WIDE}."
        found.append(Finding("inconclusive-cases", "unknown", text))
    elif not slower and not faster and all(one.judged for one in comparison.found):
        found.append(
            Finding(
                "nothing-found",
                "good",
                f"No difference beyond the margin of {comparison.margin * 100:.3g} %.",
            )
        )
    if launches := launches_in_words(comparison):
        found.append(Finding("launch-bound", "note", f"{launches[0].upper()}{launches[1:]}."))
    said = "; ".join(comparison.differences) or "none that the journals record"
    found.append(Finding("differences", "note", f"Differences between them: {said}."))
    found += [
        Finding("cases-not-judged", "unknown", f"{text}.")
        if is_unknown
        else Finding("cases-not-compared", "note", f"{text}.")
        for text, is_unknown in reasons_said(comparison.found)
    ]
    if noise := noise_said(comparison):
        found.append(Finding("noise-between-runs", "note", f"Noise from run to run is {noise}."))
    found.append(Finding("margin", "note", f"Margin: {margin_in_words(comparison.margin)}."))
    for side, word in ((comparison.before, "before"), (comparison.after, "after")):
        found += [Finding("ended-early", "look", f"{text}.") for text in side.incomplete]
        notices = dict.fromkeys(text for run in side.runs for text in run.header.notices)
        found += [Finding("notice", "note", f"{word}: {text}.") for text in notices]
    return found


def _changes(comparison: Comparison) -> list[str]:
    if not any(one.ratio is not None for one in comparison.found):
        return []
    return [
        "Above 1 is slower. Where the band contains 1 no difference is proven, whatever the curve "
        "looks like; sizes without a band have too few samples."
    ]


def _means(comparison: Comparison) -> list[Table]:
    if not comparison.bands:
        return []
    rows = [
        [
            f"{band.operation}, {band.name}",
            band.verdict,
            band.count_in_words,
            f"{band.ratio:.3f}",
            "" if band.low is None else f"{band.low:.3f}",
            "" if band.high is None else f"{band.high:.3f}",
        ]
        for band in comparison.bands
    ]
    head = ["sizes", "verdict", "cases", "time after / before", "low", "high"]
    return [Table("Cases of like sizes together", head, rows, "<<>>>>")]


def _overlays(runs: Sequence[NamedRun]) -> list[Section]:
    """Draws the first run of each side on the same axes."""
    groups = groups_of(runs)
    sections = []
    for group, title in zip(groups, group_titles(groups), strict=True):
        charts: list[Chart] = collective_charts(group, title, runs)
        if charts:
            key = group.key.replace(" ", "-").replace(".", "-")
            sections.append(Section(key, title, charts=charts))
    return sections


def _what(one: Compared) -> str:
    return one.thing.describe()


def _rows(comparisons: Sequence[Comparison], names: Sequence[str]) -> Rows:
    several = len(comparisons) > 1
    lines = []
    for comparison, name in zip(comparisons, names, strict=True):
        shown = shown_of(comparison)
        shown += [one for one in comparison.found if one.ratio is None]
        for one in sorted(shown, key=lambda one: one.verdict != "slower"):
            times = [None if time is None else time * 1e6 for time in (one.before_s, one.after_s)]
            figures = [*times, one.ratio, one.low, one.high]
            lines.append(
                [
                    *([name] if several else []),
                    _what(one),
                    one.thing.ccl,
                    one.size_bytes,
                    "device time" if one.by_device else "time",
                    *(None if value is None else shortened(value) for value in figures),
                    one.verdict,
                    plain(one.reason),
                ]
            )
    return Rows(_COLUMNS if several else _COLUMNS[1:], lines, "comparison.csv")
