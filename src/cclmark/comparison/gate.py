"""Decides whether a comparison passes: cases that are slower by a margin, lost or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from cclmark.analysis.ratio import LEAST_RUNS, RatioEstimate
from cclmark.comparison.figures import Band, Compared

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
