"""Two configurations beside each other: for people, for a pull request, for a program."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from cclmark.analysis.compare import (
    Compared,
    Side,
    Verdict,
    bands,
)
from cclmark.analysis.run_noise import noise_in_words
from cclmark.plan.cases import Case
from cclmark.report.markdown import escape
from cclmark.report.paint import Paint, unpainted
from cclmark.report.text import format_time_us, plain
from cclmark.report.things import flows_of, group_of, size_of

_STYLES: dict[Verdict, str] = {
    "slower": "red",
    "faster": "green",
    "not comparable": "yellow",
}
_ORDER: tuple[Verdict, ...] = ("slower", "faster", "no difference", "not comparable")
_MOST_REASONS = 5


@dataclass(frozen=True)
class Comparison:
    """What was compared, ``differences`` between the two in words, and what came of it."""

    before: Side
    after: Side
    differences: Sequence[str]
    found: Sequence[Compared]

    @cached_property
    def libraries(self) -> tuple[str, str] | None:
        """The library of each side, where each measured one and they are two."""
        names = [
            {result.case.ccl for run in side.runs for result in run.results}
            for side in (self.before, self.after)
        ]
        if names[0] == names[1] or any(len(each) != 1 for each in names):
            return None
        return names[0].pop(), names[1].pop()

    def group_of(self, one: Compared) -> str:
        """What the rows of its table share; of libraries both where they are two."""
        thing = one.thing
        if self.libraries is not None and one.ratio is not None and isinstance(thing, Case):
            thing = msgspec.structs.replace(thing, ccl=" → ".join(self.libraries))
        return group_of(thing)


def comparison_lines(comparison: Comparison, paint: Paint = unpainted) -> list[str]:
    """A table for each operation, what it comes to, and why some could not be compared."""
    lines = [_title(comparison)]
    lines += [f"  differs    {plain(text)}" for text in comparison.differences]
    if not comparison.differences:
        lines.append("  differs    nothing that the journals tell")
    lines += [f"  incomplete {text}" for text in _incomplete(comparison)]
    if noise := noise_said(comparison):
        lines.append(f"  noise      {noise}")
    shown = _in_groups(comparison.found)
    group = ""
    for one in shown:
        name = plain(comparison.group_of(one))
        if name != group:
            group = name
            head = f"{'size':>10} {'before µs':>11} {'after µs':>11} {'ratio':>7}  95 % interval"
            lines += ["", paint(name, "bold"), paint(head, "dim")]
        lines.append(_row(one, paint))
    lines.append("")
    means = ", ".join(f"{band.name} {band.ratio:.3f} ({band.count})" for band in bands(shown))
    if means:
        lines.append(f"  time after over time before, geometric means: {means}")
    lines.append(f"  {tally(comparison.found)}")
    lines += [f"  {text}" for text in _reasons(comparison.found)]
    return lines


def comparison_markdown(comparison: Comparison) -> str:
    """What it comes to, what differs beyond noise, and everything folded away below."""
    differences = [f"- {escape(text)}" for text in comparison.differences]
    differences += [f"- incomplete: {escape(text)}" for text in _incomplete(comparison)]
    shown = _in_groups(comparison.found)
    apart = [one for one in shown if one.verdict in ("slower", "faster")]
    parts = [f"**{escape(_title(comparison))}**: {escape(tally(comparison.found))}."]
    if differences:
        parts.append("\n".join(differences))
    if means := bands(shown):
        head = "| sizes | time after / before | cases |\n| ---: | ---: | ---: |\n"
        rows = [f"| {band.name} | {band.ratio:.3f} | {band.count} |" for band in means]
        parts.append(head + "\n".join(rows))
    if apart:
        parts.append(_markdown_table(comparison, apart))
    if len(apart) < len(shown):
        table = _markdown_table(comparison, shown)
        parts.append(f"<details><summary>All {len(shown)}</summary>\n\n{table}\n\n</details>")
    parts += [f"- {escape(text)}" for text in _reasons(comparison.found)]
    if noise := noise_said(comparison):
        parts.append(escape(f"Noise: {noise}."))
    return "\n\n".join(parts) + "\n"


def comparison_json(comparisons: Sequence[Comparison]) -> str:
    """All of it, times in seconds, one object for each second side."""
    return json.dumps([_object(one) for one in comparisons], indent=1, ensure_ascii=False) + "\n"


def _object(comparison: Comparison) -> dict[str, object]:
    return {
        "before": comparison.before.name,
        "after": comparison.after.name,
        "runs": [len(comparison.before.runs), len(comparison.after.runs)],
        "ccls": comparison.libraries,
        "differences": list(comparison.differences),
        "incomplete": _incomplete(comparison),
        "bands": [
            {"name": band.name, "ratio": band.ratio, "count": band.count}
            for band in bands(comparison.found)
        ],
        "cases": [
            {
                "what": one.thing.describe(),
                "ccl": one.thing.ccl if isinstance(one.thing, Case) else None,
                "size_bytes": one.size_bytes,
                "verdict": one.verdict,
                "reason": one.reason or None,
                "before_s": one.before_s,
                "after_s": one.after_s,
                "ratio": one.ratio,
                "low": one.low,
                "high": one.high,
                "noise_assumed": one.assumed,
                "lost": one.lost,
            }
            for one in comparison.found
        ],
    }


def _incomplete(comparison: Comparison) -> list[str]:
    """What journals of either side lack."""
    sides = (comparison.before, comparison.after)
    return list(dict.fromkeys(text for side in sides for text in side.incomplete))


def _title(comparison: Comparison) -> str:
    sides = []
    for side in (comparison.before, comparison.after):
        runs = f" ({len(side.runs)} runs)" if len(side.runs) > 1 else ""
        sides.append(plain(side.name) + runs)
    return f"{sides[1]} against {sides[0]}"


def noise_said(comparison: Comparison) -> str:
    """What a reader should know of the noise from run to run; empty where there is nothing."""
    if any(one.assumed for one in comparison.found):
        return f"assumed: {noise_in_words()}; three runs of each would tell (FILE,FILE,FILE)"
    if any(one.judged for one in comparison.found) and not _took_turns(comparison):
        return (
            "measured within each side, whose runs did not take turns: what changed on the machine "
            "in between counts as a difference"
        )
    return ""


def _took_turns(comparison: Comparison) -> bool:
    """Whether the runs of neither side were all over before the other's began."""
    starts = [
        sorted(run.header.started_at for run in side.runs)
        for side in (comparison.before, comparison.after)
    ]
    return starts[0][0] < starts[1][-1] and starts[1][0] < starts[0][-1]


def _in_groups(found: Sequence[Compared]) -> list[Compared]:
    """Those with a ratio, each table's together, in the order in which tables begin."""
    groups: dict[str, list[Compared]] = {}
    for one in found:
        if one.ratio is not None:
            groups.setdefault(group_of(one.thing), []).append(one)
    return [one for group in groups.values() for one in group]


def _row(one: Compared, paint: Paint) -> str:
    assert one.before_s is not None
    assert one.after_s is not None
    times = f"{format_time_us(one.before_s):>11} {format_time_us(one.after_s):>11}"
    verdict = "" if one.verdict == "no difference" else paint(one.verdict, _STYLES[one.verdict])
    what = f"  {plain(flows)}" if (flows := flows_of(one.thing)) else ""
    figures = f"{times} {one.ratio:>7.3f}  {_interval(one):<14}"
    return f"{size_of(one.thing):>10} {figures} {verdict}{what}".rstrip()


def _interval(one: Compared) -> str:
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
        what = f"{comparison.group_of(one)} {flows_of(one.thing)}".rstrip()
        cells = [
            *(escape(what), size_of(one.thing)),
            *(format_time_us(one.before_s), format_time_us(one.after_s)),
            *(f"{one.ratio:.3f}", _interval(one)),
            "" if one.verdict == "no difference" else one.verdict,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tally(found: Sequence[Compared]) -> str:
    """How many of each verdict."""
    counts = Counter(one.verdict for one in found)
    words = [f"{counts[verdict]} {verdict}" for verdict in _ORDER if counts[verdict]]
    return f"{len(found)} cases: {', '.join(words)}"


def _reasons(found: Sequence[Compared]) -> list[str]:
    """Why some were not compared: the most frequent first."""
    counts = Counter(plain(one.reason) for one in found if one.verdict == "not comparable")
    lines = [f"{count} not comparable: {reason}" for reason, count in counts.most_common()]
    more = len(lines) - _MOST_REASONS
    return lines[:_MOST_REASONS] + ([f"and {more} more reasons"] if more > 0 else [])
