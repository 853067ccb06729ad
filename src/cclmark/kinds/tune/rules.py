"""Rules by ranges of sizes, from the scores of a search: few, and the default where it is as good.

A rule applies one variant to all sizes from its lowest to its highest. Both are measured sizes, so
between the last size of a rule and the next measured one the default stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from cclmark.analysis.paired import DEFAULT
from cclmark.analysis.ratio import RatioEstimate
from cclmark.kinds.tune.search import Found, Score

LARGEST_LOSS = 0.02  # of a size within a rule, against the default
LEAST_COST = 0.005  # a rule must save more than this share of the time, over all its sizes
_UNKNOWN_NOISE = 0.01  # of a ratio, where fewer than two rounds were measured


def is_loss(ratio: RatioEstimate) -> bool:
    """Whether the time is longer by more than LARGEST_LOSS, by more than its standard deviation."""
    return ratio.difference - ratio.deviation > math.log1p(LARGEST_LOSS)


@dataclass(frozen=True)
class Rule:
    """Use ``variant`` from ``low_bytes`` to ``high_bytes``, both included."""

    low_bytes: int
    high_bytes: int
    variant: int

    def covers(self, size_bytes: int) -> bool:
        """Whether the rule applies to messages of this size."""
        return self.low_bytes <= size_bytes <= self.high_bytes


def rules_of(found: Found, sizes_bytes: Sequence[int]) -> list[Rule]:
    """The rules that save most, in the order of their sizes, which never overlap.

    ``sizes_bytes``: the sizes of the search, ascending. The sum of the scores' logarithms over all
    sizes is minimal, with a cost for every rule: two deviations of the noise of a ratio, so that
    neighbouring sizes share a rule if separate ones are better only within the noise. A score from
    few rounds is worth less, by its standard error. No rule covers a size where its variant was not
    measured, failed, or has a score that is slower than the default by more than LARGEST_LOSS.
    Raises ValueError for another number of sizes, or sizes that do not ascend.
    """
    if len(sizes_bytes) != len(found.scores):
        raise ValueError("a search has one size for each of its scores")
    if any(low >= high for low, high in pairwise(sizes_bytes)):
        raise ValueError("sizes ascend")
    noises = [_UNKNOWN_NOISE if noise is None else noise for noise in found.noise]
    chosen = _assigned(
        [_costs(scores, noise) for scores, noise in zip(found.scores, noises, strict=True)],
        [max(LEAST_COST, 2 * noise) for noise in noises],
    )
    rules: list[Rule] = []
    for place, (size, variant) in enumerate(zip(sizes_bytes, chosen, strict=True)):
        if variant == DEFAULT:
            continue
        if rules and place and chosen[place - 1] == variant:
            rules[-1] = Rule(rules[-1].low_bytes, size, variant)
        else:
            rules.append(Rule(size, size, variant))
    return rules


def joined_rules(assigned: Mapping[int, int]) -> list[Rule]:
    """Rules of adjacent sizes with the same variant. ``assigned``: a variant for each size."""
    found: list[Rule] = []
    before = DEFAULT
    for size, variant in sorted(assigned.items()):
        if variant != DEFAULT:
            if variant == before:
                found[-1] = replace(found[-1], high_bytes=size)
            else:
                found.append(Rule(size, size, variant))
        before = variant
    return found


def _costs(scores: dict[int, Score], noise: float) -> dict[int, float]:
    """The logarithm of the time of each variant that a rule may use here, and of the default."""
    costs = {
        variant: score.log + noise / math.sqrt(score.rounds)
        for variant, score in scores.items()
        if score.log <= math.log1p(LARGEST_LOSS)
    }
    costs[DEFAULT] = 0.0
    return costs


def _assigned(costs: Sequence[dict[int, float]], rule_costs: Sequence[float]) -> list[int]:
    """The variant of each size with the smallest total cost (dynamic programming over sizes)."""
    best: dict[int, tuple[float, list[int]]] = {DEFAULT: (0.0, [])}
    for own, rule_cost in zip(costs, rule_costs, strict=True):
        cheapest = min(best.values())
        following = {}
        for variant, cost in own.items():
            change = 0.0 if variant == DEFAULT else rule_cost
            options = [(cheapest[0] + change, cheapest[1])]
            if variant in best:
                options.append(best[variant])
            total, path = min(options)
            following[variant] = (total + cost, [*path, variant])
        best = following
    return min(best.values())[1] if costs else []
