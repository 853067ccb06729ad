"""Items of ``cclmark memory``: the memory of every rank for every case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, overload

import msgspec

from cclmark.work.cases import Case, OfCase
from cclmark.work.counts import Count

MEMORY = "memory"


class RankMemory(msgspec.Struct, OfCase, frozen=True):
    """The memory of one rank for a case."""

    kind: ClassVar[str] = MEMORY
    work: ClassVar[str] = "memory"

    case: Case
    rank: Count

    def describe(self) -> str:
        """The case in words. The rank is left out: messages about ranks name it themselves."""
        return self.case.describe()

    def is_within(self, devices: int) -> bool:
        """Whether the rank is one of the first ``devices`` ranks."""
        return self.rank < devices

    def series(self) -> RankMemory:
        """The key that the sizes of one rank share."""
        return RankMemory(self.case.series(), self.rank)


class RankMemories(Sequence[RankMemory]):
    """Every rank of the first case, then every rank of the next one.

    Items are created on access: the cases of alltoallv contain a matrix.
    """

    def __init__(self, cases: Sequence[Case], ranks: int) -> None:
        self.cases = self.distinct = cases
        self._ranks = ranks

    def __len__(self) -> int:
        return len(self.cases) * self._ranks

    @overload
    def __getitem__(self, index: int) -> RankMemory: ...

    @overload
    def __getitem__(self, index: slice) -> list[RankMemory]: ...

    def __getitem__(self, index: int | slice) -> RankMemory | list[RankMemory]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        case, rank = divmod(range(len(self))[index], self._ranks)
        return RankMemory(self.cases[case], rank)
