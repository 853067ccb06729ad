"""The record of this kind of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cclmark.journal.item_results import CaseResult
from cclmark.journal.kind import Kind
from cclmark.work.cases import Case
from cclmark.work.items import PAIRS, Item
from cclmark.work.pair_cases import PairCases, falls_with_pair


def _of_every_pair(planned: Sequence[Item], processes: int) -> Sequence[Item]:
    return PairCases([one for one in planned if isinstance(one, Case)], processes)


def _of_the_pair(item: Item, culprit: Item, phase: str) -> bool:
    assert isinstance(item, Case)
    assert isinstance(culprit, Case)
    return falls_with_pair(item, culprit, phase)


def _report() -> Any:
    from cclmark.kinds.pairs.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark.kinds.pairs.run import run

    return run


KIND = Kind(
    PAIRS,
    Case,
    CaseResult,
    "cases",
    _report,
    between_devices=True,
    # A library that fails for one pair may work for another.
    forgiven=("timeout", "error"),
    independent=True,
    items=_of_every_pair,
    falls_with=_of_the_pair,
    runner=_runner,
)
