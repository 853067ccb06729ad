"""Judges cases of similar sizes together.

All cases of a run share the run's level, and each has its own noise besides. The mean of a band is
therefore more certain than one of its cases, but less than if they were independent: see "Comparing
runs" in docs/methodology.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.compare import MARGIN, Compared, ComparedTimes
from cclmark.analysis.ratio import (
    LogTime,
    RatioEstimate,
    RatioVerdict,
    RunMedian,
    WithInterval,
    estimate,
    freedom_of,
)
from cclmark.analysis.run_noise import SHARED_PART, RunNoise, band_of


@dataclass(frozen=True)
class Band(WithInterval):
    """The cases of one ``operation`` with similar sizes, for which ``name`` gives the range.

    ``count`` of the ``all_count`` cases were measured by all compared runs and are used. ``ratio``
    is the mean of their ratios, weighted by their precision if there is an ``estimate``. There is
    no estimate for figures without samples.
    """

    operation: str
    name: str
    count: int
    all_count: int
    ratio: float
    verdict: RatioVerdict
    estimate: RatioEstimate | None = None

    @property
    def count_in_words(self) -> str:
        """``8``, or ``7 of 8`` if the same runs did not measure all cases."""
        left_out = self.count < self.all_count
        return f"{self.count} of {self.all_count}" if left_out else f"{self.count}"


def bands(found: Sequence[Compared], margin: float = MARGIN) -> list[Band]:
    """The bands of each operation: of all judged cases, or of all cases with a ratio if no case
    could be judged, for example for imported figures.
    """
    judged = any(one.judged for one in found)
    groups: dict[tuple[str, str], list[ComparedTimes]] = {}
    for one in found:
        if one.figures is not None and one.alike and one.judged is judged:
            groups.setdefault((one.thing.operation_words(), band_of(one.size_bytes)), []).append(
                one.figures
            )
    result = []
    for (operation, name), figures in groups.items():
        used = of_shared_runs(figures) if judged else []
        joint = _joint(used) if used else None
        count = len(figures)
        if joint is None:
            logs = [math.log(one.after_s / one.before_s) for one in figures]
            ratio = math.exp(math.fsum(logs) / len(logs))
            result.append(Band(operation, name, count, count, ratio, "not comparable"))
        else:
            verdict = joint.verdict(margin)
            result.append(Band(operation, name, len(used), count, joint.ratio, verdict, joint))
    return result


def of_shared_runs(cases: Sequence[ComparedTimes]) -> list[ComparedTimes]:
    """The ``cases`` that the same runs of each side measured, with the points of these runs.

    In a run that ended early, cases are missing. The runs with the fewest cases are left out until
    more than half of the cases have points of all other runs. Returns none if no run of a side is
    left.
    """
    points = [one.points for one in cases]
    having = Counter(
        (side, run) for one in points for side, by_run in enumerate(one) for run in by_run
    )
    # Among runs with equally few cases the last is left out first: a run that ended early is mostly
    # the last.
    rarest_first = sorted(having, key=lambda each: (having[each], -each[1]))
    for left_out in range(len(rarest_first)):
        kept = sorted(rarest_first[left_out:])
        found = [
            (case, one)
            for case, one in zip(cases, points, strict=True)
            if all(run in one[side] for side, run in kept)
        ]
        if 2 * len(found) > len(cases):
            break
    else:
        return []
    before, after = ([run for side, run in kept if side == which] for which in (0, 1))
    if not before or not after:
        return []
    return [
        ComparedTimes([one[0][run] for run in before], [one[1][run] for run in after], case.noise)
        for case, one in found
    ]


def joint_estimate(cases: Sequence[ComparedTimes]) -> RatioEstimate | None:
    """The mean ratio of the ``cases`` that the same runs measured; None if it is unknown.

    Each run is one observation: the weighted mean of its logarithms. SHARED_PART of a case's
    assumed variance from run to run is common to all cases of the run, the rest is independent.
    """
    used = of_shared_runs(cases)
    return _joint(used) if used else None


def _joint(cases: Sequence[ComparedTimes]) -> RatioEstimate | None:
    precisions = [_precision(one) for one in cases]
    whole = math.fsum(precisions)
    weights = [precision / whole for precision in precisions]
    before, after = (
        [
            _observation(points, [one.noise[side] for one in cases], weights)
            for points in zip(*((one.before, one.after)[side] for one in cases), strict=True)
        ]
        for side in (0, 1)
    )
    noise_freedom = freedom_of(noise for one in cases for noise in one.noise)
    return estimate(before, after, noise_freedom)


def _precision(case: ComparedTimes) -> float:
    """The weight of a case, from its assumed noise only, which is known before the measurement."""
    if case.noise[0] is None or case.noise[1] is None:
        return 1.0
    return 1 / (case.noise[0].variance(case.before_s) + case.noise[1].variance(case.after_s))


def _observation(
    points: Sequence[RunMedian], noises: Sequence[RunNoise | None], weights: Sequence[float]
) -> LogTime:
    """One run's weighted mean over cases."""
    log = math.fsum(
        weight * math.log(time_s) for weight, (time_s, _) in zip(weights, points, strict=True)
    )
    samples = 0.0
    shared = own = 0.0
    known = assumed = True
    for weight, (time_s, by_samples), noise in zip(weights, points, noises, strict=True):
        if by_samples is None:
            known = False
        else:
            samples += weight**2 * by_samples
        if noise is None:
            assumed = False
        else:
            variance = noise.variance(time_s)
            shared += weight * math.sqrt(SHARED_PART * variance)
            own += weight**2 * (1 - SHARED_PART) * variance
    return LogTime(log, samples if known else None, shared**2 + own if assumed else None)
