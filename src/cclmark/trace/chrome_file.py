"""Timelines in Chrome's JSON trace format, which many viewers open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

from cclmark.trace.timeline import RankTracks, Timeline

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
