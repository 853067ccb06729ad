"""Compares the cost of a call, which depends on the launching process, with the device's time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.analysis.bands import joint_estimate, of_shared_runs
from cclmark.analysis.compare import MARGIN, Compared
from cclmark.analysis.ratio import RatioEstimate, RatioVerdict, geometric_mean


@dataclass(frozen=True)
class LaunchCost:
    """The cost of a call in ``count`` launch-bound cases, as geometric means in seconds.

    ``estimate`` is its ratio, with the noise of launches. ``device``: the joint verdict on the
    device times of the same cases.
    """

    count: int
    before_s: float
    after_s: float
    estimate: RatioEstimate
    verdict: RatioVerdict
    device: RatioVerdict


def launch_cost(found: Sequence[Compared], margin: float = MARGIN) -> LaunchCost | None:
    """The cost over all launch-bound cases whose device time was judged; None without any."""
    pairs = [
        (one.figures, one.calls)
        for one in found
        if one.figures is not None and one.calls is not None
    ]
    if not pairs:
        return None
    calls = of_shared_runs([each for _, each in pairs])
    cost = joint_estimate(calls)
    device = joint_estimate([each for each, _ in pairs])
    if cost is None or device is None:
        return None
    return LaunchCost(
        count=len(calls),
        before_s=geometric_mean([one.before_s for one in calls]),
        after_s=geometric_mean([one.after_s for one in calls]),
        estimate=cost,
        verdict=cost.verdict(margin),
        device=device.verdict(margin),
    )
