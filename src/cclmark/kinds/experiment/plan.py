"""Trials: cases measured with the variants of an experiment, round after round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cclmark.plan.cases import Case, OfCase
from cclmark.plan.counts import Count
from cclmark.plan.items import Item, Value
from cclmark.plan.variants import Variant

EXPERIMENT = "experiment"

SEARCH, PROOF = "search", "proof"


class Trial(msgspec.Struct, OfCase, frozen=True, omit_defaults=True):
    """One case with one variant in one round. ``case`` has the placement and library of it.

    ``stage``: the part of a tuning run (SEARCH or PROOF), empty in an experiment.
    """

    variant: Variant
    round: Count
    case: Case
    stage: str = ""

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """See plan.items.Outlined."""
        return self.case, {"variant": [self.variant.describe()]}

    @property
    def kind(self) -> str:
        """The kind of work, see plan.items."""
        return EXPERIMENT

    def describe(self) -> str:
        """The trial in words, for messages."""
        return f"{self.case.describe()} with {self.variant.describe()} (round {self.round + 1})"

    def series(self) -> Trial:
        """The trial without round and size."""
        return Trial(self.variant, 0, self.case.series())


def trials_of(cases: Sequence[Case], variants: Sequence[Variant], rounds: int) -> list[Trial]:
    """All trials: rounds, in them variants, in them cases."""
    return [
        Trial(variant, number, variant.applied_to(case))
        for number in range(rounds)
        for variant in variants
        for case in cases
    ]
