"""Trials: cases measured with the variants of an experiment, round after round."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cclmark.plan.cases import Case
from cclmark.plan.counts import Count
from cclmark.plan.items import EXPERIMENT
from cclmark.plan.variants import Variant

SEARCH, PROOF = "search", "proof"


class Trial(msgspec.Struct, frozen=True, omit_defaults=True):
    """One case with one variant in one round. ``case`` has the placement and library of it.

    ``stage``: the part of a tuning run (SEARCH or PROOF), empty in an experiment.
    """

    variant: Variant
    round: Count
    case: Case
    stage: str = ""

    @property
    def kind(self) -> str:
        """The kind of work, see plan.items."""
        return EXPERIMENT

    @property
    def work(self) -> str:
        """The operation."""
        return self.case.operation

    @property
    def library(self) -> str:
        """The library that performs it."""
        return self.case.ccl

    @property
    def ccl(self) -> str:
        """The CCL that performs it."""
        return self.case.ccl

    @property
    def size_bytes(self) -> int:
        """The size to which the figures refer."""
        return self.case.size_bytes

    @property
    def ranks(self) -> int:
        """The number of ranks that take part."""
        return self.case.ranks

    def describe(self) -> str:
        """The trial in words, for messages."""
        return f"{self.case.describe()} with {self.variant.describe()} (round {self.round + 1})"

    def is_within(self, devices: int) -> bool:
        """True: all ranks take part."""
        return self.case.is_within(devices)

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
