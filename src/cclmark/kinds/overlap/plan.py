"""Overlaps: a case with a variant beside a compute, round after round."""

from __future__ import annotations

import msgspec
from cclmark.plan.cases import (Case)
from cclmark.plan.counts import (Count)
from cclmark.plan.items import (Item, OVERLAP, Value)
from cclmark.plan.of_case import (OfCase)
from cclmark.plan.sizes import (format_size)
from cclmark.plan.variants import (Variant)
from collections.abc import (Mapping, Sequence)
from typing import (Literal, TYPE_CHECKING, TypeAlias)


#: Chosen by measuring, so that the communication takes as long as in the program.
FIT = "fit"
#: Memory traffic beside the calls that took longer in the program than alone.
OF_PROFILE = "profile"
#: The product of two square matrices; the triad of the STREAM benchmark; nothing.
MATMUL, TRIAD, NO_COMPUTE = "matmul", "memory", "none"

# Enumerations for msgspec, texts for the type checker: see plan.items.
if TYPE_CHECKING:
    Work: TypeAlias = str
else:
    Work = Literal[MATMUL, TRIAD]


_TRIAD_ARRAYS = 3


class Compute(msgspec.Struct, frozen=True):
    """The work beside a collective.

    ``name``: MATMUL, the product of two square matrices, or TRIAD, the triad of the STREAM
    benchmark. ``extent``: the number of rows of the matrices, or the size of each array in bytes.
    """

    name: Work
    dtype: str
    extent: Count

    @property
    def work(self) -> float:
        """The floating-point operations of one operation, or the bytes that it moves."""
        if self.name == MATMUL:
            return 2.0 * self.extent**3
        return float(_TRIAD_ARRAYS * self.extent)

    def describe(self) -> str:
        """The compute in words: ``matmul 8192 x 8192 x 8192 bfloat16``."""
        if self.name == MATMUL:
            return f"matmul {' x '.join([str(self.extent)] * 3)} {self.dtype}"
        return f"triad on arrays of {format_size(self.extent)}"


class Overlap(msgspec.Struct, OfCase, frozen=True):
    """One case with one variant beside a compute in one round.

    ``case`` has the placement and library of the variant.
    """

    variant: Variant
    round: Count
    case: Case
    compute: Compute

    def outline(self) -> tuple[Item, Mapping[str, Sequence[Value]]]:
        """See plan.items.Outlined."""
        return self.case, {
            "variant": [self.variant.describe()],
            "compute": [self.compute.describe()],
        }

    @property
    def kind(self) -> str:
        """The kind of work, see plan.items."""
        return OVERLAP

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
