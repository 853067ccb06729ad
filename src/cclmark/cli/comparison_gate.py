"""The gate of ``cclmark compare``: the exit code that a comparison earns, and its reasons."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cclmark.analysis.gate import Outcome, judge
from cclmark.analysis.ratio import MOST_RUNS
from cclmark.errors import EXIT_OK, EXIT_WRONG, UsageError
from cclmark.report.comparison import Comparison
from cclmark.report.text import plain

_MANY_RUNS = 20  # more than a user will make: another way of timing needs fewer


def gate(comparisons: Sequence[Comparison], margin: float, *, allow_inconclusive: bool) -> int:
    """Reports on standard error what is slower by ``margin`` or lost; returns the exit code.

    Raises UsageError where that cannot be decided: it must not be taken for a pass.
    """
    sides = [side for each in comparisons for side in (each.before, each.after)]
    for text in dict.fromkeys(text for side in sides for text in side.incomplete):
        _say(text)
    outcomes = [(each, judge(each.found, each.bands, margin)) for each in comparisons]
    failed = [_say_failures(each, outcome, margin) for each, outcome in outcomes]
    if any(failed):
        return EXIT_WRONG
    for each, outcome in outcomes:
        if not any(one.judged for one in each.found):
            reason = next(one.reason for one in each.found if one.figures is not None)
            raise UsageError(
                f"--fail-if-slower: nothing of {each.after.name} can be judged: {reason}"
            )
        if outcome.undecided and not allow_inconclusive:
            raise UsageError(_undecided(each, outcome, margin))
    return EXIT_OK


def _say_failures(each: Comparison, outcome: Outcome, margin: float) -> bool:
    """Whether there are any."""
    at = f"{margin * 100:.3g} %"
    if outcome.slower:
        worst = max(outcome.slower, key=lambda one: one.ratio or 0.0)
        _say(
            f"{len(outcome.slower)} slower by {at} or more, the worst "
            f"{worst.thing.describe()}: {worst.ratio:.3f} times as long"
        )
    for band in outcome.slower_bands:
        _say(
            f"{band.operation}, {band.name}: its {band.count} cases together are slower by {at} or "
            f"more: {band.ratio:.3f} times as long ({band.low:.3f} - {band.high:.3f})"
        )
    if outcome.lost:
        one = outcome.lost[0]
        _say(
            f"{len(outcome.lost)} measured before and not after, as {one.thing.describe()}: "
            f"{one.reason}, {each.after.name}"
        )
    return bool(outcome.slower or outcome.slower_bands or outcome.lost)


def _undecided(each: Comparison, outcome: Outcome, margin: float) -> str:
    hardest = outcome.hardest
    assert hardest is not None
    at = f"{margin * 100:.3g} %"
    runs = outcome.runs_needed
    need = (
        f"more than {MOST_RUNS} runs of each side would be needed"
        if runs is None
        else f"{runs} runs of each side are needed to decide all"
    )
    text = (
        f"--fail-if-slower: {len(outcome.undecided)} of {len(each.found)} cases are inconclusive "
        f"at {at}: {need} (most for {hardest.thing.describe()}). Give several runs of each side "
        "with commas between"
    )
    if (runs is None or runs > _MANY_RUNS) and any(
        one.estimate is not None and one.estimate.assumed and one.calls is None
        for one in outcome.undecided
    ):
        text += ", measure with --timing auto, whose device times vary less,"
    return f"{text} or pass with --allow-inconclusive"


def _say(text: str) -> None:
    print(f"cclmark: {plain(text)}", file=sys.stderr)
