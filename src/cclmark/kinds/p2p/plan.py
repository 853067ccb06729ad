"""What is skipped after failures of messages between hosts; the items are work/transfers.py."""

from __future__ import annotations

from cclmark.work.items import Item
from cclmark.work.pair_cases import BEGINNING
from cclmark.work.transfers import Transfer


def is_message(item: Item) -> bool:
    """Whether a library moves it between hosts."""
    return isinstance(item, Transfer) and bool(item.ccl)


def falls_with_message(message: Item, culprit: Item, phase: str) -> bool:
    """Whether a message between hosts is skipped because ``culprit`` failed in ``phase``.

    Skipped are the other sizes of the same measure and direction, and all messages between two
    devices whose communicator or buffers could not be created.
    """
    assert isinstance(message, Transfer)
    assert isinstance(culprit, Transfer)
    if not message.ccl or set(message.flows[0]) != set(culprit.flows[0]):
        return False
    same = message.flows == culprit.flows and message.measure == culprit.measure
    return same or phase in BEGINNING
