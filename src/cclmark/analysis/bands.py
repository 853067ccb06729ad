"""Cases of like sizes judged together.

Cases of a run share its level, and each has noise besides. So the mean of a band is surer than one
of its cases, by less than if they were independent: see "Comparing runs" in docs/methodology.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.compare import MARGIN, Compared, Figures
from cclmark.analysis.ratio import Observation, Point, RatioEstimate, Verdict, estimate
from cclmark.analysis.run_noise import SHARED_PART, RunNoise
from cclmark.plan.cases import Case
from cclmark.plan.transfers import Transfer

# Up to so many bytes.
_BANDS = ((32 << 10, "up to 32 KiB"), (1 << 20, "to 1 MiB"), (math.inf, "above 1 MiB"))


@dataclass(frozen=True)
class Band:
    """``count`` cases of one ``operation`` and of like sizes, ``name``d by these.

    ``ratio`` is the mean of their ratios, weighted by how sure they are where there is an
    ``estimate``; there is none where the figures come without samples.
    """

    operation: str
    name: str
    count: int
    ratio: float
    verdict: Verdict
    estimate: RatioEstimate | None = None

    @property
    def low(self) -> float | None:
        """The lower end of the 95 % interval of the ratio."""
        return None if self.estimate is None else self.estimate.low

    @property
    def high(self) -> float | None:
        """The upper end."""
        return None if self.estimate is None else self.estimate.high


def bands(found: Sequence[Compared], margin: float = MARGIN) -> list[Band]:
    """The bands of each operation: of what could be judged, or, where nothing could, as of imported
    figures, of all that has a ratio.
    """
    judged = any(one.judged for one in found)
    groups: dict[tuple[str, str], list[Figures]] = {}
    for one in found:
        if one.figures is not None and one.alike and one.judged is judged:
            groups.setdefault((_operation(one.thing), _band(one.size_bytes)), []).append(
                one.figures
            )
    result = []
    for (operation, name), figures in groups.items():
        joint = joint_estimate(figures) if judged else None
        if joint is None:
            logs = [math.log(one.after_s / one.before_s) for one in figures]
            ratio = math.exp(math.fsum(logs) / len(logs))
            result.append(Band(operation, name, len(figures), ratio, "not comparable"))
        else:
            verdict = joint.verdict(margin)
            result.append(Band(operation, name, len(figures), joint.ratio, verdict, joint))
    return result


def joint_estimate(cases: Sequence[Figures]) -> RatioEstimate | None:
    """The mean ratio of ``cases`` that the same runs measured; None where it is not known.

    Each run is one observation: the weighted mean of its logarithms. Of the variance assumed of a
    case from run to run, SHARED_PART is common to the run, and the rest independent.
    """
    runs = (max(len(one.before) for one in cases), max(len(one.after) for one in cases))
    cases = [one for one in cases if (len(one.before), len(one.after)) == runs]
    precisions = [_precision(one) for one in cases]
    whole = math.fsum(precisions)
    weights = [precision / whole for precision in precisions]
    before = [
        _observation([one.before[run] for one in cases], [one.noise[0] for one in cases], weights)
        for run in range(runs[0])
    ]
    after = [
        _observation([one.after[run] for one in cases], [one.noise[1] for one in cases], weights)
        for run in range(runs[1])
    ]
    return estimate(before, after)


def _precision(case: Figures) -> float:
    """The weight of a case: by its assumed noise alone, which is known before it is measured."""
    if case.noise[0] is None or case.noise[1] is None:
        return 1.0
    return 1 / (case.noise[0].variance(case.before_s) + case.noise[1].variance(case.after_s))


def _observation(
    points: Sequence[Point], noises: Sequence[RunNoise | None], weights: Sequence[float]
) -> Observation:
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
    return Observation(log, samples if known else None, shared**2 + own if assumed else None)


def _operation(thing: Case | Transfer) -> str:
    if isinstance(thing, Case):
        return f"{thing.operation} · {thing.ccl}"
    return f"{thing.measure} {thing.direction} {thing.means}"


def _band(size_bytes: int) -> str:
    return next(name for most, name in _BANDS if size_bytes <= most)
