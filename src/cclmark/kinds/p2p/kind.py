"""The record of this kind of work."""

from __future__ import annotations

from cclmark.plan.items import P2P, Item
from cclmark.plan.pair_cases import falls_with_message
from cclmark.plan.transfers import Transfer
from cclmark.results.item_results import TransferResult
from cclmark.results.kind import Kind


def _is_message(item: Item) -> bool:
    return isinstance(item, Transfer) and bool(item.ccl)


def _of_the_message(item: Item, culprit: Item, phase: str) -> bool:
    assert isinstance(item, Transfer)
    assert isinstance(culprit, Transfer)
    return falls_with_message(item, culprit, phase)


KIND = Kind(
    P2P,
    Transfer,
    TransferResult,
    "transfers",
    __package__,
    between_devices=True,
    # As for pairs. A copy that hangs is a result, and one that fails ends the run.
    forgiven=("timeout", "error"),
    forgives=_is_message,
    numbers_of_findings="flow",
    independent=True,
    falls_with=_of_the_message,
)
