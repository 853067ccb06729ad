"""Overlaps: a case with a variant beside a compute, round after round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from cclmark.work.cases import Case, OfCase
from cclmark.work.computations import Compute
from cclmark.work.counts import Count
from cclmark.work.items import Item, Value
from cclmark.work.variants import Variant

OVERLAP = "overlap"


class Overlap(msgspec.Struct, OfCase, frozen=True):
    """A case beside a compute in one round. ``case`` has the variant's placement and library."""

    kind: ClassVar[str] = OVERLAP

    variant: Variant
    round: Count
    case: Case
    compute: Compute

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """See work.items.Outlined."""
        return self.case, {
            "variant": [self.variant.describe()],
            "compute": [self.compute.describe()],
        }

    def describe(self) -> str:
        """The overlap in words, for messages."""
        return (
            f"{self.case.describe()} beside {self.compute.describe()} with "
            f"{self.variant.describe()} (round {self.round + 1})"
        )

    def series(self) -> Overlap:
        """The overlap without round and size."""
        return Overlap(self.variant, 0, self.case.series(), self.compute)


def overlaps_of(
    cases: Sequence[Case], variants: Sequence[Variant], rounds: int, compute: Compute
) -> list[Overlap]:
    """All overlaps: rounds, in them variants, in them cases."""
    return overlaps_of_pairs(
        [(variant, case) for variant in variants for case in cases], rounds, compute
    )


def overlaps_of_pairs(
    pairs: Sequence[tuple[Variant, Case]], rounds: int, compute: Compute
) -> list[Overlap]:
    """The overlaps of these variants with these cases: rounds, in them the pairs."""
    return [
        Overlap(variant, number, variant.applied_to(case), compute)
        for number in range(rounds)
        for variant, case in pairs
    ]
