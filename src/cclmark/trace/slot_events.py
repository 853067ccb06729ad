"""Records of slots by the engine, see engine/ccl/slot_recorder.hpp."""

from __future__ import annotations

import os
import struct
from enum import IntEnum
from typing import NamedTuple

from cclmark.errors import RankError, UsageError

_LAYOUT = struct.Struct("=qqQQiHBx")
_MOST_EVENTS = 1 << 20
_LARGEST = 1 << 28  # 10 GiB
#: The variable of the number of events that a rank keeps.
EVENTS_VARIABLE = "CCLMARK_TRACE_EVENTS"


class SlotAction(IntEnum):
    """Operations of a rank on a slot, with the numbers of the engine."""

    PUBLISH = 0
    READ = 1
    REDUCE = 2
    ISLAND = 3
    WAIT_SLOT = 4
    WAIT_PUBLISHED = 5
    WAIT_BUFFERS = 6
    WAIT_DEVICE = 7


class SlotEvent(NamedTuple):
    """A period of a rank, in nanoseconds of its host's CLOCK_MONOTONIC.

    ``sequence``: the number of the publication among those of its rank and ``group``. ``peer``: the
    other rank, -1 for all or none. ``group``: 0 for all ranks, from 1 on for an island.
    """

    begin_ns: int
    end_ns: int
    sequence: int
    size_bytes: int
    peer: int
    group: int
    action: int


def slot_events_of(content: bytes) -> list[SlotEvent]:
    """The events that ``content`` contains. Raises RankError if it is damaged."""
    if len(content) % _LAYOUT.size:
        raise RankError("the events of slots of a rank are damaged")
    events = [SlotEvent(*fields) for fields in _LAYOUT.iter_unpack(content)]
    if any(event.action > SlotAction.WAIT_DEVICE for event in events):
        raise RankError("the events of slots of a rank are damaged")
    return events


def most_slot_events() -> int:
    """The number of events that a rank keeps, from the environment. Raises UsageError."""
    text = os.environ.get(EVENTS_VARIABLE, "")
    if not text:
        return _MOST_EVENTS
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= _LARGEST:
        raise UsageError(f"{EVENTS_VARIABLE}={text}: choose from 1 to {_LARGEST} events")
    return int(text)
