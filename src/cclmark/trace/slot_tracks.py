"""Tracks of what ranks do with slots, and of what they wait for there."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import NamedTuple

from cclmark.base.errors import RankError, UsageError
from cclmark.trace.clocks import host_clock
from cclmark.trace.rank_trace import RankTrace
from cclmark.trace.timeline import Argument, Counter, RankTracks, Slice
from cclmark.work.sizes import format_size

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


_FIRST_FLOW = 1 << 32  # lower numbers are those of messages
_CAUSES = {
    SlotAction.WAIT_SLOT: "slot not yet read by rank {}",
    SlotAction.WAIT_PUBLISHED: "rank {} has not published",
    SlotAction.WAIT_BUFFERS: "rank {} has not finished with the buffers of this rank",
    SlotAction.WAIT_DEVICE: "the device has not completed",
}
_READS = (SlotAction.READ, SlotAction.REDUCE)

Publication = tuple[int, int, int]  # group, rank, sequence


@dataclass(frozen=True)
class SlotWait:
    """A wait of a rank. ``peer``: the rank that it waits for, -1 for its device."""

    cause: str
    peer: int
    length_ns: int


@dataclass
class SlotFindings:
    """One rank's records of slots.

    ``dropped``: events that did not fit. ``enqueued``: the host only enqueues, see
    ``RankTrace.slots_enqueued``. ``published_ns``: when the first publication of each operation was
    visible, in nanoseconds of the common clock; incomplete if operations publish nothing.
    """

    events: int
    dropped: int
    enqueued: bool
    waits: list[SlotWait] = field(default_factory=list)
    published_ns: list[int] = field(default_factory=list)


def add_slots(groups: Sequence[RankTracks], traces: Sequence[RankTrace]) -> dict[int, SlotFindings]:
    """Adds the tracks ``slots`` and ``waits`` to the groups of ``traces``, with arrows.

    Returns the findings by rank, without ranks whose library has no slots. Raises RankError for
    damaged events.
    """
    recorded = {trace.rank: slot_events_of(trace.slots) for trace in traces}
    arrows = _Arrows(recorded)
    found = {}
    for group, trace in zip(groups, traces, strict=True):
        if trace.has_slots:
            found[trace.rank] = _add_rank(group, trace, recorded[trace.rank], arrows)
    return found


class _Arrows:
    """The numbers of the flows from each publication to the first reading by each reader."""

    def __init__(self, recorded: dict[int, list[SlotEvent]]) -> None:
        publications: dict[tuple[int, int], list[int]] = defaultdict(list)
        for rank, events in recorded.items():
            for event in events:
                if event.action == SlotAction.PUBLISH:
                    publications[event.group, event.sequence].append(rank)
        self._ends: dict[tuple[int, int], list[int]] = {}  # by reader and place of the event
        self._begins: dict[Publication, list[int]] = defaultdict(list)
        numbers = count(_FIRST_FLOW)
        for reader, events in recorded.items():
            read: set[Publication] = set()
            for place, event in enumerate(events):
                if event.action not in _READS:
                    continue
                # Sequences are those of the publisher; a reduction of all ranks has the same.
                publishers = publications[event.group, event.sequence]
                for rank in publishers if event.peer < 0 else (event.peer,):
                    source = (event.group, rank, event.sequence)
                    if rank == reader or rank not in publishers or source in read:
                        continue
                    read.add(source)
                    number = next(numbers)
                    self._begins[source].append(number)
                    self._ends.setdefault((reader, place), []).append(number)

    def from_publication(self, rank: int, event: SlotEvent) -> tuple[int, ...]:
        """The flows that begin at a publication of ``rank``."""
        if event.action != SlotAction.PUBLISH:
            return ()
        return tuple(self._begins.get((event.group, rank, event.sequence), ()))

    def to_reading(self, reader: int, place: int) -> tuple[int, ...]:
        """The flows that end at event ``place`` of ``reader``."""
        return tuple(self._ends.get((reader, place), ()))


def _add_rank(
    group: RankTracks, trace: RankTrace, events: Sequence[SlotEvent], arrows: _Arrows
) -> SlotFindings:
    clock = host_clock(trace)
    found = SlotFindings(len(events), trace.slots_dropped, trace.slots_enqueued)
    slots, waits = group.track("slots"), group.track("waits")
    for place, event in enumerate(events):
        begin_ns = int(clock.to_common_ns(event.begin_ns))
        end_ns = int(clock.to_common_ns(event.end_ns))
        action = SlotAction(event.action)
        if action in _CAUSES:
            cause = _CAUSES[action].format(event.peer)
            waits.slices.append(Slice(cause, begin_ns, end_ns, "wait", _arguments(event)))
            found.waits.append(SlotWait(cause, event.peer, end_ns - begin_ns))
            continue
        prefix = "enqueue: " if trace.slots_enqueued else ""
        slots.slices.append(
            Slice(
                prefix + _name(action, event, trace.rank),
                begin_ns,
                end_ns,
                "slot",
                _arguments(event),
                arrows.from_publication(trace.rank, event),
                arrows.to_reading(trace.rank, place),
            )
        )
    if trace.slots_enqueued:
        _add_completion(group, trace, found)
    group.counters.extend(_counters(trace, events))
    found.published_ns = [int(clock.to_common_ns(at)) for at in _first_published(trace, events)]
    return found


def _name(action: SlotAction, event: SlotEvent, rank: int) -> str:
    if action == SlotAction.PUBLISH:
        return f"publish {format_size(event.size_bytes)}"
    if action == SlotAction.ISLAND:
        return "work within the island"
    source = "all ranks" if event.peer < 0 else f"rank {event.peer}"
    if event.peer == rank:
        source = "this rank"
    return f"{'read from' if action == SlotAction.READ else 'reduce from'} {source}"


def _arguments(event: SlotEvent) -> dict[str, Argument]:
    arguments: dict[str, Argument] = {}
    if event.action not in (SlotAction.ISLAND, SlotAction.WAIT_DEVICE):
        arguments["publication"] = event.sequence
    if event.size_bytes:
        arguments["bytes"] = event.size_bytes
    if event.group:
        arguments["island"] = event.group - 1
    return arguments


def _add_completion(group: RankTracks, trace: RankTrace, found: SlotFindings) -> None:
    """Adds the host's wait after each batch, in which the device does what was enqueued."""
    clock = host_clock(trace)
    cause = _CAUSES[SlotAction.WAIT_DEVICE]
    last = 0
    for batch in trace.batches:
        last += batch.operations
        begin_ns = int(clock.to_common_ns(trace.call_end_ns[last - 1]))
        end_ns = int(clock.to_common_ns(batch.complete_ns))
        group.track("waits").slices.append(Slice(cause, begin_ns, end_ns, "wait"))
        found.waits.append(SlotWait(cause, -1, end_ns - begin_ns))


def _counters(trace: RankTrace, events: Sequence[SlotEvent]) -> Iterator[Counter]:
    """The bytes that the rank has published and read, over time."""
    clock = host_clock(trace)
    for name, actions in (("bytes published", (SlotAction.PUBLISH,)), ("bytes read", _READS)):
        total = 0
        values: list[tuple[int, float]] = []
        for event in events:
            if event.action not in actions or not event.size_bytes:
                continue
            if not values:
                values.append((int(clock.to_common_ns(event.begin_ns)), 0.0))
            total += event.size_bytes
            values.append((int(clock.to_common_ns(event.end_ns)), float(total)))
        if values:
            yield Counter(name, "bytes", values)


def _first_published(trace: RankTrace, events: Sequence[SlotEvent]) -> list[int]:
    """When the first publication of each call was visible; empty unless each call has one."""
    first: dict[int, int] = {}
    for event in events:
        if event.action == SlotAction.PUBLISH and event.group == 0:
            call = bisect_right(trace.call_begin_ns, event.begin_ns) - 1
            first.setdefault(call, event.end_ns)
    calls = range(len(trace.call_begin_ns))
    if trace.slots_enqueued or any(call not in first for call in calls):
        return []
    return [first[call] for call in calls]
