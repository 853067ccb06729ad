"""Timelines as files: of Chrome, and Perfetto's TrackEvent packets, https://perfetto.dev/docs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import IO, Any

from cclmark.base.errors import MissingError
from cclmark.trace.timeline import RankTracks, Slice, Timeline, Track

_NS_PER_US = 1e3


def write_chrome(timeline: Timeline, file: IO[bytes]) -> None:
    """Writes ``timeline``. Raises OSError."""
    file.write(b'{"displayTimeUnit":"ns","metadata":')
    file.write(json.dumps(timeline.facts).encode())
    file.write(b',"traceEvents":[\n')
    separator = b""
    for event in _events(timeline):
        file.write(separator + json.dumps(event, separators=(",", ":")).encode())
        separator = b",\n"
    file.write(b"\n]}\n")


def _events(timeline: Timeline) -> Iterator[dict[str, object]]:
    for group in timeline.groups:
        pid = group.number + 1
        yield _named("process_name", pid, 0, group.name)
        yield {
            **{"ph": "M", "name": "process_sort_index", "pid": pid},
            "args": {"sort_index": group.number},
        }
        yield from _slices(group, pid)
        for counter in group.counters:
            for time_ns, value in counter.values:
                yield {
                    **{"ph": "C", "name": counter.name, "pid": pid, "ts": time_ns / _NS_PER_US},
                    "args": {counter.unit: value},
                }


def _slices(group: RankTracks, pid: int) -> Iterator[dict[str, object]]:
    lanes = [lane for track in group.tracks for lane in track.lanes()]
    for tid, track in enumerate(lanes, start=1):
        yield _named("thread_name", pid, tid, track.name)
        for slice in track.slices:
            place = {"pid": pid, "tid": tid, "cat": slice.category or "slice"}
            begin_us = slice.begin_ns / _NS_PER_US
            yield {
                **{"ph": "X", "name": slice.name, **place, "ts": begin_us},
                "dur": (slice.end_ns - slice.begin_ns) / _NS_PER_US,
                "args": dict(slice.arguments),
            }
            for number in slice.flows_from:
                yield {"ph": "s", "id": number, "name": "message", **place, "ts": begin_us}
            for number in slice.flows_to:
                yield {
                    **{"ph": "f", "bp": "e", "id": number, "name": "message", **place},
                    "ts": begin_us,
                }


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


_SEQUENCE = 1
_CLOCK_MONOTONIC = 3  # perfetto.protos.BUILTIN_CLOCK_MONOTONIC
_STATE_CLEARED, _NEEDS_STATE = 1, 2  # TracePacket.SequenceFlags


def write_perfetto(timeline: Timeline, file: IO[bytes]) -> None:
    """Writes ``timeline``. Raises MissingError without the package perfetto, OSError."""
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
    except ImportError as error:
        raise MissingError(
            f"the Perfetto format requires the package perfetto ({error}): pip install "
            "'cclmark[timelines]', or use --format chrome"
        ) from None
    builder = StreamingTraceProtoBuilder(file)
    _Writer(builder, TracePacket, TrackEvent).write(timeline)


class _Writer:
    def __init__(self, builder: Any, packet_type: Any, event_type: Any) -> None:
        self._builder = builder
        self._packet_type = packet_type
        self._event_type = event_type
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        self._argument_names: dict[str, int] = {}
        self._next_track = 1

    def write(self, timeline: Timeline) -> None:
        packet = self._packet()
        packet.sequence_flags = _STATE_CLEARED
        packet.trace_packet_defaults.timestamp_clock_id = _CLOCK_MONOTONIC
        packet.first_packet_on_sequence = True
        self._builder.write_packet(packet)
        packet = self._packet()
        packet.clock_snapshot.primary_trace_clock = _CLOCK_MONOTONIC
        clock = packet.clock_snapshot.clocks.add()
        clock.clock_id = _CLOCK_MONOTONIC
        clock.timestamp = 0
        self._builder.write_packet(packet)
        for group in timeline.groups:
            self._write_group(group, timeline)

    def _packet(self) -> Any:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _track(self) -> int:
        self._next_track += 1
        return self._next_track

    def _write_group(self, group: RankTracks, timeline: Timeline) -> None:
        process = self._track()
        packet = self._packet()
        packet.track_descriptor.uuid = process
        packet.track_descriptor.process.pid = group.number + 1
        packet.track_descriptor.process.process_name = group.name
        packet.track_descriptor.sibling_order_rank = group.number
        packet.track_descriptor.child_ordering = packet.track_descriptor.EXPLICIT
        for name, value in timeline.facts.items():
            packet.track_descriptor.process.process_labels.append(f"{name}: {value}")
        self._builder.write_packet(packet)
        lanes = [lane for track in group.tracks for lane in track.lanes()]
        for order, track in enumerate(lanes):
            uuid = self._track()
            packet = self._packet()
            packet.track_descriptor.uuid = uuid
            packet.track_descriptor.parent_uuid = process
            packet.track_descriptor.name = track.name
            packet.track_descriptor.sibling_order_rank = order
            self._builder.write_packet(packet)
            self._write_slices(track, uuid)
        for counter in group.counters:
            uuid = self._track()
            packet = self._packet()
            packet.track_descriptor.uuid = uuid
            packet.track_descriptor.parent_uuid = process
            packet.track_descriptor.name = counter.name
            packet.track_descriptor.counter.unit_name = counter.unit
            packet.track_descriptor.sibling_order_rank = len(lanes)
            self._builder.write_packet(packet)
            for time_ns, value in counter.values:
                packet = self._packet()
                packet.timestamp = time_ns
                packet.track_event.type = self._event_type.TYPE_COUNTER
                packet.track_event.track_uuid = uuid
                packet.track_event.double_counter_value = value
                self._builder.write_packet(packet)

    def _write_slices(self, track: Track, uuid: int) -> None:
        for time_ns, slice, begins in _edges(track):
            packet = self._packet()
            packet.timestamp = time_ns
            packet.sequence_flags = _NEEDS_STATE
            event = packet.track_event
            event.track_uuid = uuid
            if not begins:
                event.type = self._event_type.TYPE_SLICE_END
                self._builder.write_packet(packet)
                continue
            event.type = self._event_type.TYPE_SLICE_BEGIN
            interned = packet.interned_data
            event.name_iid = _interned(slice.name, self._names, interned.event_names)
            if slice.category:
                event.category_iids.append(
                    _interned(slice.category, self._categories, interned.event_categories)
                )
            for name, value in slice.arguments.items():
                annotation = event.debug_annotations.add()
                annotation.name_iid = _interned(
                    name, self._argument_names, interned.debug_annotation_names
                )
                if isinstance(value, str):
                    annotation.string_value = value
                elif isinstance(value, int):
                    annotation.int_value = value
                else:
                    annotation.double_value = value
            # A flow ends in the event that names it among the terminating ones.
            event.flow_ids.extend(slice.flows_from)
            event.terminating_flow_ids.extend(slice.flows_to)
            self._builder.write_packet(packet)


def _interned(text: str, known: dict[str, int], added: Any) -> int:
    """The number of ``text``, which its first packet defines."""
    number = known.get(text)
    if number is None:
        number = known[text] = len(known) + 1
        entry = added.add()
        entry.iid = number
        entry.name = text
    return number


def _edges(track: Track) -> Iterator[tuple[int, Slice, bool]]:
    """Begins and ends of the slices of a lane in the order in which a nested track needs them."""
    open_slices: list[Slice] = []
    for slice in track.slices:
        while open_slices and open_slices[-1].end_ns <= slice.begin_ns:
            ended = open_slices.pop()
            yield ended.end_ns, ended, False
        yield slice.begin_ns, slice, True
        open_slices.append(slice)
    for ended in reversed(open_slices):
        yield ended.end_ns, ended, False


Writer = Callable[[Timeline, IO[bytes]], None]
#: By the format: the end of the file's name, and the function that writes it.
WRITERS: dict[str, tuple[str, Writer]] = {
    "perfetto": (".pftrace", write_perfetto),
    "chrome": (".trace.json", write_chrome),
}
