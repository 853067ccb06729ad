"""The gate of ``cclmark compare``: the exit code of a comparison, and the reasons for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cclmark.analysis.gate import GateOutcome, judge
from cclmark.analysis.ratio import MOST_RUNS
from cclmark.errors import EXIT_OK, EXIT_WRONG, UsageError
from cclmark.printable import plain
from cclmark.report.comparison import Comparison
from cclmark.results.item_results import KINDS

_MANY_RUNS = 20  # more than a user will start: another timing needs fewer


def gate(comparisons: Sequence[Comparison], margin: float, *, allow_inconclusive: bool) -> int:
    """Reports cases slower by ``margin`` and lost cases on standard error; returns the exit code.

    Raises UsageError if this cannot be decided, because the check must not pass then.
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
                f"--fail-if-slower: no case of {each.after.name} can be judged: {reason}"
            )
        if (outcome.undecided or outcome.unlike) and not allow_inconclusive:
            reasons = [_unlike(each, outcome), _undecided(each, outcome, margin)]
            said = "; ".join(filter(None, reasons))
            raise UsageError(f"--fail-if-slower: {said}, or use --allow-inconclusive")
    return EXIT_OK


def _say_failures(each: Comparison, outcome: GateOutcome, margin: float) -> bool:
    """Reports the failures of a comparison; returns whether there are any."""
    at = f"{margin * 100:.3g} %"
    if outcome.slower:
        worst = max(outcome.slower, key=lambda one: one.ratio or 0.0)
        _say(
            f"{len(outcome.slower)} slower by {at} or more, the worst "
            f"{worst.thing.describe()}: {worst.ratio:.3f} times as long"
        )
    for band in outcome.slower_bands:
        _say(
            f"{band.operation}, {band.name}: {band.count_in_words} cases together are slower by "
            f"{at} or more: {band.ratio:.3f} times as long ({band.low:.3f} - {band.high:.3f})"
        )
    if outcome.lost:
        one = outcome.lost[0]
        _say(
            f"{len(outcome.lost)} measured before but not after, for example "
            f"{one.thing.describe()}: {one.reason}, {each.after.name}"
        )
    return bool(outcome.slower or outcome.slower_bands or outcome.lost)


def _unlike(each: Comparison, outcome: GateOutcome) -> str:
    """Describes the cases that no number of runs decides, and why; empty without any."""
    if not outcome.unlike:
        return ""
    first = outcome.unlike[0]
    return (
        f"{len(outcome.unlike)} of {len(each.found)} cases cannot be compared, for example "
        f"{first.thing.describe()}: {first.reason}. Measure both sides with the same settings"
    )


def _undecided(each: Comparison, outcome: GateOutcome, margin: float) -> str:
    """Describes the inconclusive cases and how to decide them; empty without any."""
    if not outcome.undecided:
        return ""
    runs = outcome.runs_needed
    text = (
        f"{len(outcome.undecided)} of {len(each.found)} cases are inconclusive at "
        f"{margin * 100:.3g} %: "
    )
    if runs is not None and runs <= _MANY_RUNS:
        return f"{text}{runs} runs of each side decide them. List these runs as FILE,FILE,..."
    number = f"more than {MOST_RUNS}" if runs is None else runs
    text += f"they vary too much from run to run ({number} runs of each side would decide them). "
    if _auto_would_help(each, outcome):
        return f"{text}Measure with --timing auto, whose device times vary less, raise the margin"
    return f"{text}Raise the margin"


def _auto_would_help(each: Comparison, outcome: GateOutcome) -> bool:
    """Whether the variation comes from launches, in a case of a run without --timing auto.

    Copies and pairs of ranks do not have that option.
    """
    if all(run.header.settings.timing == "auto" for run in (*each.before.runs, *each.after.runs)):
        return False
    return any(
        KINDS[one.thing.kind].has_device_times
        and one.estimate is not None
        and one.estimate.assumed
        and one.calls is None
        for one in outcome.undecided
    )


def _say(text: str) -> None:
    print(f"cclmark: {plain(text)}", file=sys.stderr)
