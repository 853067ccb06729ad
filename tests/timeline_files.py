"""Timelines read back from their files."""

import json


class ChromeTimeline:
    """A timeline in the format chrome. Processes are numbered from 0.

    ``slices``: by process and track, in order of their begin.
    """

    def __init__(self, path):
        document = json.loads(path.read_text())
        self.events, self.facts, self.slices = document["traceEvents"], document["metadata"], {}
        named = [one for one in self.events if one["name"] == "thread_name"]
        threads = {(one["pid"], one["tid"]): one["args"]["name"] for one in named}
        for one in self.events:
            if one["ph"] == "X":
                place = (one["pid"] - 1, threads[one["pid"], one["tid"]])
                self.slices.setdefault(place, []).append(one)

    def stages(self, process):
        """The names of its stages, in their order."""
        return [one["name"] for one in self.slices[process, "stages"]]

    def tracing(self, process):
        """Its stage in which operations are traced."""
        (found,) = [one for one in self.slices[process, "stages"] if one["name"] == "tracing"]
        return found

    def counted(self, process, name):
        """The values of a counter."""
        found = [one for one in self.events if one["ph"] == "C" and one["pid"] == process + 1]
        return [one["args"]["bytes"] for one in found if one["name"] == name]

    def arrows(self, *, in_order=False):
        """The processes at both ends of each arrow, sorted; ``in_order``: on one clock."""
        begins, ends = (
            {one["id"]: (one["pid"] - 1, one["ts"]) for one in self.events if one["ph"] == kind}
            for kind in "sf"
        )
        assert begins.keys() == ends.keys()
        assert not in_order or all(begins[one][1] <= ends[one][1] for one in begins)
        return sorted((begins[number][0], ends[number][0]) for number in begins)


def within(inner, outer, error_us=0.0):
    """Whether a slice is within another one, as far as their clocks agree."""
    begin_us, end_us = inner["ts"], inner["ts"] + inner["dur"]
    return outer["ts"] - error_us <= begin_us and end_us <= outer["ts"] + outer["dur"] + error_us


def perfetto_slices(content):
    """Read back by the classes of the package: slices by track, checked for their nesting."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    trace = Trace()
    trace.ParseFromString(content)
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
