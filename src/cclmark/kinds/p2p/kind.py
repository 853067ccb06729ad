"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.item_results import TransferResult
from cclmark.journal.kind import Kind
from cclmark.work.items import P2P, Item
from cclmark.work.pair_cases import falls_with_message
from cclmark.work.transfers import Transfer


def _is_message(item: Item) -> bool:
    return isinstance(item, Transfer) and bool(item.ccl)


def _of_the_message(item: Item, culprit: Item, phase: str) -> bool:
    assert isinstance(item, Transfer)
    assert isinstance(culprit, Transfer)
    return falls_with_message(item, culprit, phase)


def _report() -> Any:
    from cclmark.kinds.p2p.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark.kinds.p2p.run import run

    return run


KIND = Kind(
    P2P,
    Transfer,
    TransferResult,
    "transfers",
    _report,
    between_devices=True,
    # As for pairs. A copy that hangs is a result, and one that fails ends the run.
    forgiven=("timeout", "error"),
    forgives=_is_message,
    numbers_of_findings="flow",
    independent=True,
    falls_with=_of_the_message,
    runner=_runner,
)
