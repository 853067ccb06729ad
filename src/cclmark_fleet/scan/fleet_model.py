"""Effects of devices on the rates of pairs, robustly.

log b_ij = a_level + u_i + u_j + w_ij. ``a`` is a quantile of the pairs of a level in a round, so
that drift and the load of the round are part of it; ``u`` are medians over the tests of a device
less the effects of its partners (median polish, damped, after Tukey, Exploratory Data Analysis,
1977); ``w`` remain. Medians tolerate fewer than half of wrong values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from cclmark_fleet.scan.fleet_shape import FleetShape

_OF_ROUND = 32  # pairs of a level from which a round has its own expectation
_POLISHES = 8
_FEW = 3  # devices whose spread is as uncertain as large
_CLEAR = 10  # tests from which their noise is known
_TO_SIGMA = 1.4826  # of a median absolute deviation, for a normal distribution
LEAST_SIGMA = 0.002


@dataclass(frozen=True)
class PairTests:
    """Tests of pairs, a row each. ``rate_bps``: NaN for a test that failed.

    ``round_of``: the number of the round. ``is_confirming``: whether it is one of the second pass.
    ``spread``: the 95th percentile of a test's times over their median, less 1; NaN if unknown.
    """

    first: Any
    second: Any
    round_of: Any
    rate_bps: Any
    spread: Any
    is_confirming: Any

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, float, float, bool]]) -> PairTests:
        """From (first, second, round, rate, spread, is_confirming)."""
        columns = [*zip(*rows, strict=True)] if rows else [()] * 6
        kinds: tuple[Any, ...] = (np.int64, np.int64, np.int64, float, float, bool)
        return cls(*(np.array(one, kind) for one, kind in zip(columns, kinds, strict=True)))

    def where(self, mask: Any) -> PairTests:
        """The rows of a mask."""
        return PairTests(*(getattr(self, one.name)[mask] for one in fields(self)))


def levels_of(shape: FleetShape, first: Any, second: Any) -> Any:
    """The level of each pair, see FleetShape.level."""
    keys = [shape.node_of, *(one.of for one in shape.groupings)]
    found = np.full(len(first), len(keys))
    for at in range(len(keys) - 1, -1, -1):
        of = np.asarray(keys[at])
        found[of[first] == of[second]] = at
    return found


def grouped_median(keys: Any, values: Any, size: int) -> Any:
    """The upper median of the values of each key below ``size``; NaN where there are none."""
    order = np.argsort(keys, kind="stable")
    counts = np.bincount(keys, minlength=size)
    begins = np.cumsum(counts) - counts
    rows = np.full((size, int(counts.max(initial=0)) + 1), np.inf)
    own = keys[order]
    rows[own, np.arange(len(keys)) - begins[own]] = values[order]
    rows.sort(axis=1)
    return np.where(counts > 0, rows[np.arange(size), counts // 2], np.nan)


def sigma_of(values: Any) -> float:
    """The standard deviation by the median absolute deviation; 0 for fewer than 3 values."""
    values = values[np.isfinite(values)]
    if len(values) < 3:
        return 0.0
    return float(_TO_SIGMA * np.median(np.abs(values - np.median(values))))


def expectations(values: Any, level: Any, round_of: Any, quantiles: Sequence[float]) -> Any:
    """The expectation of each value: a quantile of its level and round, or of its level.

    ``quantiles``: by level, see quantiles_of.
    """
    expected = np.empty(len(values))
    for one in np.unique(level):
        rows = np.flatnonzero(level == one)
        quantile = quantiles[int(one)]
        expected[rows] = np.quantile(values[rows], quantile, method="higher")
        rounds, numbers = np.unique(round_of[rows], return_inverse=True)
        counts = np.bincount(numbers)
        for at in np.flatnonzero(counts >= _OF_ROUND) if len(rounds) > 1 else ():
            own = rows[numbers == at]
            expected[own] = np.quantile(values[own], quantile, method="higher")
    return expected


def quantiles_of(shape: FleetShape) -> list[float]:
    """By level, the quantile that is the median of the pairs without the slowest of its parties.

    Of k parties that meet in pairs, one slow party has 2/k of them: that is the rest's median. The
    parties are devices, nodes, and the groups below a level. Of two, no test tells which one is
    slow, so their members are the parties.
    """
    counts = [shape.devices, len(shape.node_names), *(len(one.names) for one in shape.groupings)]
    found = []
    for level in range(len(counts)):
        several = [one for one in counts[level::-1] if one > 2]
        found.append(min(0.9, 0.5 + 1 / several[0]) if several else 0.9)
    return found


def by_pair(first: Any, second: Any, values: Any, size: int) -> tuple[Any, Any, Any, Any, Any]:
    """Pairs once: both ends, the median of their values, the number of tests, each test's pair.

    A pair that was tested several times says no more of its ends than another one.
    """
    keys = np.minimum(first, second) * size + np.maximum(first, second)
    pairs, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return pairs // size, pairs % size, grouped_median(place, values, len(pairs)), counts, place


@dataclass(frozen=True)
class Effects:
    """Of one quantity. ``own``: [devices] u, NaN where a device has no test; ``left``: [tests] w.

    ``sigma``: of w; ``spread``: of the medians of devices.
    """

    own: Any
    left: Any
    sigma: float
    spread: float


def fit_effects(first: Any, second: Any, residual: Any, devices: int) -> Effects:
    """Effects of devices on values less their expectations."""
    one, other, middle, _, _ = by_pair(first, second, residual, devices)
    ends, others = np.concatenate((one, other)), np.concatenate((other, one))
    both = np.concatenate((middle, middle))
    own = np.zeros(devices)
    found = medians = grouped_median(ends, both, devices)
    for _ in range(_POLISHES if len(first) else 0):
        found = grouped_median(ends, both - own[others], devices)
        own += 0.5 * (np.nan_to_num(found) - own)
    # Of two slow ends, the slower one may be all that counts: the nearer of both explanations.
    summed = residual - own[first] - own[second]
    slower = residual - np.minimum(own[first], own[second])
    left = np.where(np.abs(slower) < np.abs(summed), slower, summed)
    own = np.where(np.isnan(found), np.nan, own)
    known = own[np.isfinite(own)]
    center = np.median(known) if len(known) else 0.0
    # Of medians, since u of two nodes may shift against each other; by the better half, since the
    # others may be slow. Few devices know little of their spread.
    better = medians[np.isfinite(medians)]
    better = better[better >= np.median(better)] - np.median(better) if len(better) else better
    root = float(np.sqrt(np.mean(better**2))) if len(better) else 0.0
    spread = (1 + _FEW / max(1, len(known))) * root
    # Of tests without slow ends, whose explanation is not chosen.
    usual = np.nan_to_num(own, nan=-np.inf) > center - max(3 * spread, LEAST_SIGMA)
    clear = usual[first] & usual[second]
    sigma = sigma_of(summed[clear]) if clear.sum() >= _CLEAR else sigma_of(left)
    return Effects(own, left, max(LEAST_SIGMA, sigma), spread)
