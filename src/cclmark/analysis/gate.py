"""Whether a comparison passes: what is slower by a margin, lost, or cannot be decided at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from cclmark.analysis.bands import Band
from cclmark.analysis.compare import Compared
from cclmark.analysis.ratio import LEAST_RUNS, RatioEstimate

FALSE_SHARE = 0.05  # of comparisons without any difference, how many may fail at most


@dataclass(frozen=True)
class Outcome:
    """``slower``: cases, and ``slower_bands``: bands, that are slower by the margin or more.

    ``lost``: measured before and not after. ``undecided``: neither slower by the margin nor
    certainly not. ``runs_needed`` is how many runs of each side decide all of these, None where no
    number of runs that can be planned does. ``unlike``: measured on both sides, with times that
    cannot be compared, whatever the number of runs.
    """

    slower: Sequence[Compared]
    slower_bands: Sequence[Band]
    lost: Sequence[Compared]
    undecided: Sequence[Compared]
    unlike: Sequence[Compared] = ()
    runs_needed: int | None = None


def judge(found: Sequence[Compared], joint: Sequence[Band], margin: float) -> Outcome:
    """What a gate at ``margin``, a share, has to say of a comparison and of its bands.

    Many cases are looked at, so a case or band that fails has to be significant among all of them
    (Holm, Scand. J. Stat. 6, 1979): of comparisons without a difference at most FALSE_SHARE fail.
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
    return Outcome(
        slower=list(compress(found, failing)),
        slower_bands=list(compress(joint, _slower([one.estimate for one in joint], margin))),
        lost=[one for one in found if one.lost],
        undecided=undecided,
        unlike=[one for one in found if one.figures is not None and not one.alike],
        runs_needed=_needed(undecided, margin, sum(one.judged for one in found)),
    )


def _slower(estimates: Sequence[RatioEstimate | None], margin: float) -> list[bool]:
    """Which of one family are slower by the margin, and by more than noise among all of them.

    Cases and bands are two families, and of each only one direction fails: FALSE_SHARE holds for
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
    """``judged``: how many cases the gate looks at. A case without an estimate needs LEAST_RUNS,
    which measure the noise that is not assumed.
    """
    most = LEAST_RUNS if any(one.estimate is None for one in undecided) else 0
    for one in undecided:
        if one.estimate is not None:
            needed = one.estimate.runs_needed(margin, FALSE_SHARE / judged)
            if needed is None:
                return None
            most = max(most, needed)
    return most or None
