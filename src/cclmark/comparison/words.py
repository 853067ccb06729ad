"""A comparison of two configurations as text, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest

import msgspec

from cclmark.analysis.ratio import RatioVerdict
from cclmark.analysis.run_noise import noise_in_words
from cclmark.base.errors import UsageError, WrongDataError
from cclmark.base.printable import plain
from cclmark.comparison.figures import (
    MARGIN,
    Band,
    Compared,
    LaunchCost,
    Side,
    bands,
    compare,
    launch_cost,
)
from cclmark.document.insight_words import amount, listed
from cclmark.document.paint import Paint, unpainted
from cclmark.document.remarks import lacking
from cclmark.document.text import counted, escape, format_time_us
from cclmark.journal.journal_file import Journal
from cclmark.journal.resume import differing_settings
from cclmark.journal.surroundings import differences_told, surroundings_changed
from cclmark.kinds.registry import report_kind
from cclmark.work.sizes import format_size

_MOST_LISTED = 4  # sizes; more are a range
_MOST_LINES = 6


@dataclass
class _Group:
    """The cases that differ only in size and devices: sizes of each side, and numbers of cases."""

    before: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)
    common: int = 0
    only_before: int = 0
    only_after: int = 0

    def add(self, one: Compared) -> None:
        if one.absent != "before":
            self.before.add(one.size_bytes)
        if one.absent != "after":
            self.after.add(one.size_bytes)
        self.only_after += one.absent == "before"
        self.only_before += one.absent == "after"
        self.common += not one.absent


def coverage_lines(
    found: Sequence[Compared], libraries: tuple[str, str] | None, most: int = _MOST_LINES
) -> list[str]:
    """Returns a sentence for each kind of case that the two sides did not measure alike.

    ``libraries``: those of the two sides if a case of one is compared with a case of the other.
    ``most``: of the kinds; the number of the others follows.
    """
    groups: dict[str, _Group] = {}
    for one in found:
        thing = one.thing
        if libraries is not None and thing.ccl:
            thing = msgspec.structs.replace(thing, ccl=" → ".join(libraries))
        groups.setdefault(thing.group_words(), _Group()).add(one)
    shared, before, after = list[str](), list[str](), list[str]()
    for name, group in groups.items():
        if line := _line(name, group):
            of = after if not group.before else before if not group.after else shared
            of.append(line)
    # Of both sides in turn, so that both are among the first.
    turns = chain.from_iterable(zip_longest(before, after))
    lines = [*shared, *(line for line in turns if line is not None)]
    more = len(lines) - most
    if more <= 0:
        return lines
    return [*lines[:most], f"{amount(more, 'more kind')} of cases differ"]


def _line(name: str, group: _Group) -> str:
    """Returns the difference of a group; empty if both sides measured all of its cases."""
    if not group.only_before and not group.only_after:
        return ""
    if not group.after:
        return f"{name}: only before, {_sizes(group.before)}"
    if not group.before:
        return f"{name}: only after, {_sizes(group.after)}"
    if group.before != group.after:
        common = group.before & group.after
        return (
            f"sizes of {name}: {_sizes(group.before)} before, {_sizes(group.after)} after, "
            f"{amount(len(common), 'size') if common else 'no size'} in common"
        )
    only = [
        f"{amount(number, 'case')} only {side}"
        for number, side in ((group.only_before, "before"), (group.only_after, "after"))
        if number
    ]
    return f"{name}: {listed(only)}, {group.common:,} in common"


def _sizes(sizes: Collection[int]) -> str:
    """Returns few sizes, or the smallest and the largest of many with their number."""
    known = [format_size(size) for size in sorted(sizes)]
    if len(known) <= _MOST_LISTED:
        return listed(known)
    return f"{known[0]} to {known[-1]} ({len(known)} sizes)"


_MOST_SAID = 4  # reasons, and kinds of cases, in a message


def require_figures(run: Journal, name: str) -> None:
    """Raises UsageError for a journal without times. ``name`` is its name in the message."""
    kind = report_kind(run.kind)
    if not run.results or not kind.has_times:
        what = kind.noun if run.results else "no results"
        lacks = "".join(f"; {text}" for text in lacking(run))
        raise UsageError(f"{name} contains {what}, and no times to compare{lacks}")


def comparison_of(before: Side, after: Side, margin: float = MARGIN) -> Comparison:
    """Compares ``after`` with ``before`` at ``margin``, and finds other differences between them.

    Raises UsageError if they have nothing in common, WrongDataError if their outputs are wrong.
    """
    kinds = [_kinds(side) for side in (before, after)]
    if not kinds[0] & kinds[1]:
        raise UsageError(
            f"{before.name} contains {' and '.join(sorted(kinds[0]))}, and {after.name} "
            f"contains {' and '.join(sorted(kinds[1]))}: these are not compared. Use two "
            "journals of the same kind"
        )
    found = compare(before, after, margin)
    if all(one.before_s is None or one.after_s is None for one in found):
        raise _without_times(before, after, found)
    measured = coverage_lines(found, libraries_of(before, after))
    then, now = before.runs[0].header, after.runs[0].header
    if then.imported is not None or now.imported is not None:
        return Comparison(before, after, [*differences_told(then, now), *measured], found, margin)
    differences = [
        *differing_settings(then.settings, now.settings, sides=("before", "after")),
        *surroundings_changed(then, now, "after"),
        *measured,
    ]
    return Comparison(before, after, differences, found, margin)


def _without_times(before: Side, after: Side, found: Sequence[Compared]) -> UsageError:
    """The error for two sides of which no case has times on both, with the reasons."""
    wrong = [one for one in found if one.is_wrong]
    reasons = list(dict.fromkeys(one.reason for one in found if not (one.absent or one.is_wrong)))
    others = [*reasons[:_MOST_SAID], *coverage_lines(found, None, _MOST_SAID)]
    if not wrong:
        return UsageError(
            f"{before.name} and {after.name} have no measured case in common: {'; '.join(others)}. "
            "Cases are the same where operation, size, type, reduction, root, placement and number "
            "of ranks are"
        )
    rows: dict[str, set[int]] = {}
    for one in wrong:
        rows.setdefault(one.thing.group_words(), set()).add(one.size_bytes)
    words = [f"{name}: {_sizes(sizes)}" for name, sizes in rows.items()]
    more = [amount(len(words) - _MOST_LINES, "more kind") + " of cases"]
    said = "; ".join([*words[:_MOST_LINES], *(more if len(words) > _MOST_LINES else [])])
    sides = [
        side.name
        for side, word in ((before, "before"), (after, "after"))
        if any(one.reason.endswith(word) for one in wrong)
    ]
    remark = f". Besides: {'; '.join(others)}" if others else ""
    return WrongDataError(
        f"the outputs of {' and '.join(sides)} were wrong in {counted(len(wrong), 'case')}, and no "
        f"other case has times on both sides: {said}{remark}. cclmark report shows the wrong "
        "elements"
    )


def _kinds(side: Side) -> set[str]:
    """Returns the kinds of work of a side."""
    return {report_kind(run.kind).title for run in side.runs if run.results}


_STYLES: dict[RatioVerdict, str] = {
    "slower": "red",
    "faster": "green",
    "inconclusive": "yellow",
    "noise unknown": "yellow",
    "not comparable": "yellow",
}
_ORDER: tuple[RatioVerdict, ...] = (
    *("slower", "faster", "no difference", "inconclusive", "noise unknown", "not comparable"),
)
_MOST_REASONS = 5
_DEVICE = "device time"  # in the remark of a row


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison. ``differences``: between the two configurations, in words.

    ``margin``: the largest difference of a time, as a share, that does not matter.
    """

    before: Side
    after: Side
    differences: Sequence[str]
    found: Sequence[Compared]
    margin: float = MARGIN

    @cached_property
    def bands(self) -> list[Band]:
        """The cases of similar sizes judged together, slower bands first."""
        return sorted(bands(self.found, self.margin), key=lambda band: _rank(band.verdict))

    @cached_property
    def launches(self) -> LaunchCost | None:
        """The cost of a call and the device's time; None unless both were measured."""
        return launch_cost(self.found, self.margin)

    @cached_property
    def libraries(self) -> tuple[str, str] | None:
        """The library of each side, if each measured a single one and they differ."""
        return libraries_of(self.before, self.after)

    def group_of(self, one: Compared) -> str:
        """Returns the heading of the case's table, with both libraries if they differ."""
        thing = one.thing
        if self.libraries is not None and one.ratio is not None and thing.ccl:
            thing = msgspec.structs.replace(thing, ccl=" → ".join(self.libraries))
        return thing.group_words()


def libraries_of(before: Side, after: Side) -> tuple[str, str] | None:
    """Returns the library of each side; None unless each measured a single one and they differ."""
    names = [
        {result.case.ccl for run in side.runs for result in run.cases} for side in (before, after)
    ]
    if names[0] == names[1] or any(len(each) != 1 for each in names):
        return None
    return names[0].pop(), names[1].pop()


def comparison_lines(comparison: Comparison, paint: Paint = unpainted) -> list[str]:
    """Returns the bands, a table for each operation, the counts, and why verdicts are missing."""
    lines = [_title(comparison)]
    lines += [f"  differs    {text}" for text in comparison.differences]
    if not comparison.differences:
        lines.append("  differs    nothing that the journals record")
    lines += [f"  incomplete {text}" for text in _incomplete(comparison)]
    if noise := noise_said(comparison):
        lines.append(f"  noise      {noise}")
    if any(one.judged for one in comparison.found):
        lines.append(f"  margin     {margin_in_words(comparison.margin)}")
    if launches := launches_in_words(comparison):
        lines.append(f"  launches   {launches}")
    lines += _band_lines(comparison, paint)
    group = ""
    for one in shown_of(comparison):
        name = comparison.group_of(one)
        if name != group:
            group = name
            head = f"{'size':>10} {'before µs':>11} {'after µs':>11} {'ratio':>7}  95 % interval"
            lines += ["", paint(name, "bold"), paint(head, "dim")]
        lines.append(_row(one, paint))
    lines += ["", f"  {tally(comparison.found)}"]
    lines += [f"  {text}" for text, _ in reasons_said(comparison.found)]
    return lines


def _band_lines(comparison: Comparison, paint: Paint) -> list[str]:
    """Returns a line for each band: the time after over the time before."""
    if not comparison.bands:
        return []
    names = [f"{band.operation}, {band.name}" for band in comparison.bands]
    width = max(map(len, names))
    head = f"{'cases of like sizes together':<{width}}  {'cases':>8} {'ratio':>7}  95 % interval"
    lines = ["", paint(f"  {head}", "dim")]
    for name, band in zip(names, comparison.bands, strict=True):
        figures = f"{band.count_in_words:>8} {band.ratio:>7.3f}  {_interval(band):<14}"
        text = f"  {name:<{width}}  {figures}"
        lines.append(_painted(f"{text} {_word(band.verdict)}".rstrip(), band.verdict, paint))
    return lines


def comparison_markdown(comparison: Comparison) -> str:
    """Returns the verdict, the significant differences, and all results in a folded section."""
    differences = [f"- {escape(text)}" for text in comparison.differences]
    differences += [f"- incomplete: {escape(text)}" for text in _incomplete(comparison)]
    shown = shown_of(comparison)
    apart = [one for one in shown if one.differs]
    parts = [f"**{escape(_title(comparison))}**: {escape(tally(comparison.found))}."]
    if differences:
        parts.append("\n".join(differences))
    if launches := launches_in_words(comparison):
        parts.append(escape(f"Launches: {launches}."))
    if comparison.bands:
        head = (
            "| sizes | cases | ratio | 95 % interval | |\n| :--- | ---: | ---: | :---: | :--- |\n"
        )
        rows = [
            f"| {escape(band.operation)}, {band.name} | {band.count_in_words} | {band.ratio:.3f} | "
            f"{_interval(band)} | {_word(band.verdict)} |"
            for band in comparison.bands
        ]
        parts.append(head + "\n".join(rows))
    if apart:
        parts.append(_markdown_table(comparison, apart))
    if len(apart) < len(shown):
        table = _markdown_table(comparison, shown)
        parts.append(f"<details><summary>All {len(shown)}</summary>\n\n{table}\n\n</details>")
    parts += [f"- {escape(text)}" for text, _ in reasons_said(comparison.found)]
    if noise := noise_said(comparison):
        parts.append(escape(f"Noise: {noise}."))
    if any(one.judged for one in comparison.found):
        parts.append(escape(f"Margin: {margin_in_words(comparison.margin)}."))
    return "\n\n".join(parts) + "\n"


def comparison_json(comparisons: Sequence[Comparison]) -> str:
    """Returns the complete comparisons, times in seconds, one object for each second side."""
    return json.dumps([_object(one) for one in comparisons], indent=1, ensure_ascii=False) + "\n"


def _object(comparison: Comparison) -> dict[str, object]:
    return {
        "before": comparison.before.name,
        "after": comparison.after.name,
        "runs": [len(comparison.before.runs), len(comparison.after.runs)],
        "ccls": comparison.libraries,
        "differences": list(comparison.differences),
        "incomplete": _incomplete(comparison),
        "margin": comparison.margin,
        "launches": _launches_object(comparison.launches),
        "bands": [
            {
                "operation": band.operation,
                "name": band.name,
                "ratio": band.ratio,
                "low": band.low,
                "high": band.high,
                "verdict": band.verdict,
                "count": band.count,
                "all_count": band.all_count,
            }
            for band in comparison.bands
        ],
        "cases": [
            {
                "what": one.thing.describe(),
                "ccl": one.thing.ccl or None,
                "size_bytes": one.size_bytes,
                "verdict": one.verdict,
                "reason": one.reason or None,
                "figure": "device" if one.by_device else "time",
                "before_s": one.before_s,
                "after_s": one.after_s,
                "ratio": one.ratio,
                "low": one.low,
                "high": one.high,
                "call_before_s": None if one.calls is None else one.calls.before_s,
                "call_after_s": None if one.calls is None else one.calls.after_s,
                "noise": _noise_word(one),
                "noise_assumed": one.assumed,
                "least_low": None if one.least is None else one.least.low,
                "least_high": None if one.least is None else one.least.high,
                "lost": one.lost,
                "ran_before": one.ran[0] or None,
                "ran_after": one.ran[1] or None,
            }
            for one in comparison.found
        ],
    }


def _launches_object(found: LaunchCost | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "count": found.count,
        "call_before_s": found.before_s,
        "call_after_s": found.after_s,
        "ratio": found.estimate.ratio,
        "low": found.estimate.low,
        "high": found.estimate.high,
        "verdict": found.verdict,
        "device_verdict": found.device,
    }


def margin_in_words(margin: float) -> str:
    """Explains the verdicts at that margin."""
    return (
        f"{margin * 100:.3g} %: no difference where the interval is within it, inconclusive where "
        "it contains 1 and reaches beyond; slower and faster where it does not contain 1"
    )


def launches_in_words(comparison: Comparison) -> str:
    """Describes the cost of launch-bound calls and the device's time; empty if there are none."""
    found = comparison.launches
    if found is None:
        return ""
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


def _incomplete(comparison: Comparison) -> list[str]:
    """Describes missing parts of the journals of both sides."""
    sides = (comparison.before, comparison.after)
    return list(dict.fromkeys(text for side in sides for text in side.incomplete))


def _title(comparison: Comparison) -> str:
    sides = []
    for side in (comparison.before, comparison.after):
        runs = f" ({len(side.runs)} runs)" if len(side.runs) > 1 else ""
        sides.append(side.name + runs)
    return f"{sides[1]} against {sides[0]}"


def noise_said(comparison: Comparison) -> str:
    """Describes the noise from run to run as far as it affects the verdicts; empty otherwise."""
    words = {_noise_word(one) for one in comparison.found}
    said = []
    if "unknown" in words:
        said.append(
            "unknown for this machine: intervals 'or wider' contain the noise of the samples only"
        )
    if "history" in words:
        said.append("of this machine, measured by the runs in its history")
    if "assumed" in words:
        said.append(f"assumed: {noise_in_words()}")
    if said:
        return f"{'; '.join(said)}; three runs of each side measure it (FILE,FILE,FILE)"
    if any(one.judged for one in comparison.found) and not _took_turns(comparison):
        return (
            "measured within each side, whose runs did not take turns: changes of the machine "
            "in between count as a difference"
        )
    return ""


def _noise_word(one: Compared) -> str | None:
    """Returns the origin of the noise from run to run; None for a case without a ratio."""
    if one.estimate is None:
        return None if one.least is None else "unknown"
    if one.estimate.by_history:
        return "history"
    return "assumed" if one.estimate.assumed else "measured"


def _took_turns(comparison: Comparison) -> bool:
    """Whether neither side's runs all started before the other side's."""
    starts = [
        sorted(run.header.started_at for run in side.runs)
        for side in (comparison.before, comparison.after)
    ]
    return starts[0][0] < starts[1][-1] and starts[1][0] < starts[0][-1]


def shown_of(comparison: Comparison) -> list[Compared]:
    """Returns the cases with a ratio, grouped by table; slower tables and rows come first."""
    groups: dict[str, list[Compared]] = {}
    for one in comparison.found:
        if one.ratio is not None:
            groups.setdefault(one.thing.group_words(), []).append(one)
    for group in groups.values():
        group.sort(key=lambda one: one.verdict != "slower")
    tables = sorted(groups.values(), key=lambda group: group[0].verdict != "slower")
    return [one for table in tables for one in table]


def _rank(verdict: RatioVerdict) -> int:
    return _ORDER.index(verdict)


def _word(verdict: RatioVerdict) -> str:
    return "" if verdict == "no difference" else verdict


def _remark(one: Compared) -> str:
    """Returns the verdict, whether the times are the device's, and a change of what ran."""
    ran = " → ".join(map(plain, one.ran)) if one.ran_differently else ""
    return ", ".join(filter(None, (_word(one.verdict), _DEVICE if one.by_device else "", ran)))


def _painted(text: str, verdict: RatioVerdict, paint: Paint) -> str:
    style = _STYLES.get(verdict)
    return text if style is None else paint(text, style)


def _row(one: Compared, paint: Paint) -> str:
    assert one.before_s is not None
    assert one.after_s is not None
    times = f"{format_time_us(one.before_s):>11} {format_time_us(one.after_s):>11}"
    what = f"  {flows}" if (flows := one.thing.flow_words()) else ""
    figures = f"{times} {one.ratio:>7.3f}  {_interval(one):<14}"
    row = f"{one.thing.size_words():>10} {figures} {_remark(one)}{what}".rstrip()
    return _painted(row, one.verdict, paint)


def _interval(one: Compared | Band) -> str:
    least = one.least if isinstance(one, Compared) else None
    if least is not None:
        return f"{least.low:.3f} - {least.high:.3f} or wider"
    if one.low is None or one.high is None:
        return ""
    return f"{one.low:.3f} - {one.high:.3f}"


def _markdown_table(comparison: Comparison, found: Sequence[Compared]) -> str:
    lines = [
        "| case | size | before µs | after µs | ratio | 95 % interval | |",
        "| :--- | ---: | ---: | ---: | ---: | :---: | :--- |",
    ]
    for one in found:
        assert one.before_s is not None
        assert one.after_s is not None
        what = f"{comparison.group_of(one)} {one.thing.flow_words()}".rstrip()
        cells = [
            *(escape(what), one.thing.size_words()),
            *(format_time_us(one.before_s), format_time_us(one.after_s)),
            *(f"{one.ratio:.3f}", _interval(one)),
            escape(_remark(one)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tally(found: Sequence[Compared]) -> str:
    """Counts the cases by verdict."""
    counts = Counter(one.verdict for one in found)
    words = [f"{counts[verdict]} {verdict}" for verdict in _ORDER if counts[verdict]]
    return f"{len(found)} cases: {', '.join(words)}"


def reasons_said(found: Sequence[Compared]) -> list[tuple[str, bool]]:
    """Counts the reasons why cases have no verdict, the most frequent first.

    With each reason, whether it is that the noise is unknown.
    """
    words = {"noise unknown": "not judged", "not comparable": "not comparable"}
    counts = Counter((one.verdict, plain(one.reason)) for one in found if one.verdict in words)
    lines = [
        (f"{count} {words[verdict]}: {reason}", verdict == "noise unknown")
        for (verdict, reason), count in counts.most_common()
    ]
    more = len(lines) - _MOST_REASONS
    if more > 0:
        text, is_unknown = lines[_MOST_REASONS - 1]
        lines[_MOST_REASONS - 1] = (f"{text}; {more} more reasons", is_unknown)
    return lines[:_MOST_REASONS]
