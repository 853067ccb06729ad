"""A comparison of two configurations as a value, as JSON, and whether it passes a gate.

A gate fails for cases that are slower by a margin, lost or undecided.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, compress, zip_longest

import msgspec

from cclmark.analysis.ratio import LEAST_RUNS, RatioEstimate, RatioVerdict
from cclmark.analysis.run_noise import noise_in_words
from cclmark.base.errors import EmptyError, UsageError, WrongDataError
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
from cclmark.document.remarks import lacking
from cclmark.document.text import counted
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
    what = kind.noun if run.results else "no results"
    lacks = lacking(run)
    message = "; ".join([f"{name} contains {what}, and no times to compare", *lacks])
    if not run.results:
        raise EmptyError(message, name, "; ".join(lacks))
    if not kind.has_times:
        hint = (
            ": cclmark compare shows their differences"
            if kind.is_computed
            else f": cclmark report {name} OTHER -O both.html has both on one page"
        )
        raise UsageError(message + hint)


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


_ORDER: tuple[RatioVerdict, ...] = (
    *("slower", "faster", "no difference", "inconclusive", "noise unknown", "not comparable"),
)


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

    @property
    def title(self) -> str:
        """Names both sides, with the numbers of their runs."""
        names = [
            f"{side.name} ({len(side.runs)} runs)" if len(side.runs) > 1 else side.name
            for side in (self.after, self.before)
        ]
        return " against ".join(names)

    @property
    def incomplete(self) -> list[str]:
        """Describes missing parts of the journals of both sides."""
        return list(dict.fromkeys([*self.before.incomplete, *self.after.incomplete]))

    @cached_property
    def bands(self) -> list[Band]:
        """The cases of similar sizes judged together, slower bands first."""
        return sorted(bands(self.found, self.margin), key=lambda band: _ORDER.index(band.verdict))

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


def comparison_json(comparisons: Sequence[Comparison]) -> str:
    """Returns the complete comparisons, times in seconds, one object for each second side."""
    return json.dumps([_object(one) for one in comparisons], indent=1, ensure_ascii=False) + "\n"


_OF_BAND = ("operation", "name", "ratio", "low", "high", "verdict", "count", "all_count")


def _object(comparison: Comparison) -> dict[str, object]:
    return {
        "before": comparison.before.name,
        "after": comparison.after.name,
        "runs": [len(comparison.before.runs), len(comparison.after.runs)],
        "ccls": comparison.libraries,
        "differences": list(comparison.differences),
        "incomplete": comparison.incomplete,
        "margin": comparison.margin,
        "launches": _launches_object(comparison.launches),
        "bands": [{name: getattr(band, name) for name in _OF_BAND} for band in comparison.bands],
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


def noise_said(comparison: Comparison) -> str:
    """Describes the noise from run to run as far as it affects the verdicts; empty otherwise."""
    words = {_noise_word(one) for one in comparison.found}
    said = []
    if "unknown" in words:
        wider = any(one.least is not None for one in comparison.found)
        note = ": intervals 'or wider' contain the noise of the samples only" * wider
        said.append(f"unknown for this machine{note}")
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


def tally(found: Sequence[Compared]) -> str:
    """Counts the cases by verdict."""
    counts = Counter(one.verdict for one in found)
    words = [f"{counts[verdict]} {verdict}" for verdict in _ORDER if counts[verdict]]
    return f"{counted(len(found), 'case')}: {', '.join(words)}"


FALSE_SHARE = 0.05  # at most so many comparisons without any difference fail


@dataclass(frozen=True)
class GateOutcome:
    """``slower``: cases, and ``slower_bands``: bands, that are slower by the margin or more.

    ``lost``: cases measured before and not after. ``undecided``: cases that are neither slower by
    the margin nor certainly not slower by it. ``runs_needed``: the number of runs of each side that
    decides all of them, None if no number that can be planned does. ``unlike``: cases measured on
    both sides with times that cannot be compared, whatever the number of runs.
    """

    slower: Sequence[Compared]
    slower_bands: Sequence[Band]
    lost: Sequence[Compared]
    undecided: Sequence[Compared]
    unlike: Sequence[Compared] = ()
    runs_needed: int | None = None


def judge(found: Sequence[Compared], joint: Sequence[Band], margin: float) -> GateOutcome:
    """Judges a comparison and its bands with a gate at ``margin``, a share.

    A case or band fails only if it is significant among all of them (Holm, Scand. J. Stat. 6,
    1979). At most FALSE_SHARE of comparisons without a difference fail.
    """
    failing = _slower([one.estimate for one in found], margin)
    undecided = [
        one
        for one, fails in zip(found, failing, strict=True)
        if one.figures is not None
        and one.alike
        and not fails
        and (one.estimate is None or not one.estimate.excludes_slower_by(margin))
    ]
    return GateOutcome(
        slower=list(compress(found, failing)),
        slower_bands=list(compress(joint, _slower([one.estimate for one in joint], margin))),
        lost=[one for one in found if one.lost],
        undecided=undecided,
        unlike=[one for one in found if one.figures is not None and not one.alike],
        runs_needed=_needed(undecided, margin, sum(one.judged for one in found)),
    )


def _slower(estimates: Sequence[RatioEstimate | None], margin: float) -> list[bool]:
    """Whether each estimate of a family is slower by the margin, and significant among all of them.

    Cases and bands are two families, and only one direction of each fails: FALSE_SHARE holds for
    both together.
    """
    found = [False] * len(estimates)
    judged = [(one.chance, place, one) for place, one in enumerate(estimates) if one is not None]
    for rank, (chance, place, one) in enumerate(sorted(judged, key=lambda each: each[:2])):
        if chance > FALSE_SHARE / (len(judged) - rank):
            break
        found[place] = one.low > 1 and one.ratio >= 1 + margin
    return found


def _needed(undecided: Sequence[Compared], margin: float, judged: int) -> int | None:
    """The number of runs that decides all cases; None if no number does, or if all are decided.

    ``judged``: the number of cases with an estimate. A case without an estimate requires
    LEAST_RUNS runs, which measure the noise that is not assumed.
    """
    most = LEAST_RUNS if any(one.estimate is None for one in undecided) else 0
    for one in undecided:
        if one.estimate is not None:
            needed = one.estimate.runs_needed(margin, FALSE_SHARE / judged)
            if needed is None:
                return None
            most = max(most, needed)
    return most or None
