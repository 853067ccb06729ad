"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cclmark.journal.kind import Kind
from cclmark.kinds.memory.plan import MEMORY, RankMemories
from cclmark.kinds.memory.result import MemoryResult
from cclmark.work.cases import Case
from cclmark.work.items import Item


def _of_every_rank(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    return RankMemories([one for one in planned if isinstance(one, Case)], processes)


def _report() -> Any:
    from cclmark.kinds.memory.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark.kinds.memory.run import run

    return run


KIND = Kind(
    MEMORY,
    Case,
    MemoryResult,
    "memory",
    _report,
    items=_of_every_rank,
    runner=_runner,
    usual_s=0.5,
)
