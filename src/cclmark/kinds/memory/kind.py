"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.kinds.memory.plan import MEMORY, RankMemories
from cclmark.kinds.memory.result import MemoryResult
from cclmark.plan.cases import Case
from cclmark.plan.items import Item
from cclmark.results.kind import Kind


def _of_every_rank(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    return RankMemories([one for one in planned if isinstance(one, Case)], processes)


KIND = Kind(
    MEMORY,
    Case,
    MemoryResult,
    "memory",
    __package__,
    items=_of_every_rank,
)
