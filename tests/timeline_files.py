"""Timelines read back from their files."""

import json


def chrome(path):
    """The slices by process and track, in order of their begin, and all events."""
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    threads = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in events
        if one["name"] == "thread_name"
    }
    slices = {}
    for one in events:
        if one["ph"] == "X":
            place = (one["pid"] - 1, threads[one["pid"], one["tid"]])
            slices.setdefault(place, []).append(one)
    return slices, events, document["metadata"]


def perfetto(path):
    """Read back by the classes of the package: slices by track, checked for their nesting."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    names, tracks, slices, open_slices = {}, {}, {}, {}
    for packet in trace.packet:
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            described = packet.track_descriptor
            tracks[described.uuid] = (described.parent_uuid, described.name)
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert event.track_uuid in tracks
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            stack.append((names[event.name_iid], packet.timestamp))
        elif event.type == event.TYPE_SLICE_END:
            name, begin_ns = stack.pop()
            assert packet.timestamp >= begin_ns
            found = slices.setdefault(tracks[event.track_uuid][1], [])
            found.append((name, begin_ns, packet.timestamp))
    assert not any(open_slices.values())
    return slices
