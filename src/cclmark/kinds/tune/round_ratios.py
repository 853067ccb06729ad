"""The ratios of tuned and default times in the rounds of a proof, by size or by place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from cclmark.analysis.paired import paired_ratio
from cclmark.analysis.ratio import RatioEstimate
from cclmark.kinds.tune.prove import Trio

_LEAST_ROUNDS = 2  # for a ratio

# A size in bytes, or an operation and a size.
K = TypeVar("K", int, tuple[str, int])


def ratios_of(rounds: Sequence[Mapping[K, Trio]]) -> dict[K, RatioEstimate]:
    """The ratios of tuned and default times where two rounds or more have both."""
    return {at: paired_ratio([logs]) for at, logs in _logs(rounds).items()}


def joint_ratio(rounds: Sequence[Mapping[K, Trio]]) -> tuple[K, RatioEstimate] | None:
    """The largest key, and the ratio of tuned and default times over all of them.

    None without times. Keys with fewer rounds than others are left out.
    """
    logs = _logs(rounds)
    most = max(map(len, logs.values()), default=0)
    whole = {at: one for at, one in logs.items() if len(one) == most}
    return (max(whole), paired_ratio(list(whole.values()))) if whole else None


def _logs(rounds: Sequence[Mapping[K, Trio]]) -> dict[K, list[float]]:
    """The logarithms of the ratios of tuned and default times, if there are enough."""
    found: dict[K, list[float]] = {}
    for each in rounds:
        for at, trio in sorted(each.items()):
            if trio.tuned_s and trio.default_s:
                found.setdefault(at, []).append(math.log(trio.tuned_s / trio.default_s))
    return {at: logs for at, logs in sorted(found.items()) if len(logs) >= _LEAST_ROUNDS}
