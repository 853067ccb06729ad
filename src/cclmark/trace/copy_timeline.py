"""The timeline of a traced transfer, from what its devices recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cclmark.trace.clocks import add_stages, event_clock, host_clock
from cclmark.trace.rank_trace import RankTrace, Stage, TracedFlow
from cclmark.trace.timeline import Argument, BatchTime, RankTracks, Slice, Span, Timeline
from cclmark.work.sizes import format_size
from cclmark.work.transfers import Transfer


@dataclass
class FlowFindings:
    """The copies of one flow, in batches that were enqueued together.

    ``runner``: the device that copies. ``source``, ``destination``: in words. ``by_events``:
    whether the times are those of events on the device; otherwise the copies ran within the calls,
    whose times they are. ``timed_batches``: more of them, which are not in the timeline.
    """

    number: int
    runner: int
    source: str
    destination: str
    by_events: bool
    clock_error_ns: float = 0.0
    batches: list[list[Span]] = field(default_factory=list)
    timed_batches: list[list[Span]] = field(default_factory=list)

    @property
    def copies(self) -> list[Span]:
        """Those of all batches."""
        return [copy for batch in self.batches for copy in batch]

    @property
    def gaps_ns(self) -> list[int]:
        """From the end of each copy to the start of the next one of its batch."""
        return [
            after.begin_ns - before.end_ns
            for batch in self.batches
            for before, after in pairwise(batch)
        ]


@dataclass
class TransferTimeline:
    """The timeline of a transfer. ``stages``: by the first device of each process.

    ``clock_reasons``: why the clocks of devices could not be read.
    """

    timeline: Timeline
    transfer: Transfer
    flows: list[FlowFindings]
    stages: dict[int, list[Stage]]
    wrong: int | None = None
    clock_reasons: list[str] = field(default_factory=list)


def assemble_copies(transfer: Transfer, traces: Sequence[RankTrace]) -> TransferTimeline:
    """Creates the timeline of all devices of a transfer."""
    timeline = Timeline(facts={"transfer": transfer.describe()})
    found = TransferTimeline(timeline, transfer, [], {})
    groups: dict[int, RankTracks] = {}
    for trace in sorted(traces, key=lambda one: one.rank):
        group = RankTracks(f"device {trace.rank}, {trace.device}, {trace.host}", trace.rank)
        groups[trace.rank] = group
        timeline.groups.append(group)
        if trace.stages:
            found.stages[trace.rank] = add_stages(group, trace, host_clock(trace))
        if trace.flows and trace.clock_reason and trace.clock_reason not in found.clock_reasons:
            found.clock_reasons.append(trace.clock_reason)
        if trace.wrong is not None:
            found.wrong = trace.wrong
    host = RankTracks("host memory", len(groups))
    if transfer.host_memory:
        timeline.groups.append(host)
    arrows = 0
    for trace in sorted(traces, key=lambda one: one.rank):
        for number in sorted({flow.number for flow in trace.flows}):
            ends = _Ends(transfer, number, groups, host, trace.runtime)
            findings = _findings(ends, trace)
            _add_copies(ends, findings, arrows)
            arrows += len(findings.copies)
            found.flows.append(findings)
    found.flows.sort(key=lambda one: one.number)
    timeline.facts["clocks agree within ns"] = round(clock_error_ns(found))
    return found


class _Ends:
    """The two ends of a flow: their groups and their names."""

    def __init__(
        self,
        transfer: Transfer,
        number: int,
        groups: Mapping[int, RankTracks],
        host: RankTracks,
        runtime: str,
    ) -> None:
        start, end = transfer.flows[number]
        self.transfer = transfer
        self._runtime = runtime
        self.number = number
        self.runner = transfer.runner((start, end))
        self.runner_group = groups[self.runner]
        self.is_local = start == end and not transfer.host_memory
        memory = f"{transfer.host_memory} host memory"
        to_host = transfer.goes_to_host(number)
        from_host = bool(transfer.host_memory) and not to_host
        self.source = memory if from_host else f"device {start}"
        self.destination = memory if to_host else f"device {end}"
        self.source_group = host if from_host else groups[start]
        self.destination_group = host if to_host else groups[end]

    @property
    def method(self) -> str:
        """The engine and the device that copies, in words."""
        transfer = self.transfer
        engine = f"kernel {transfer.kernel}" if transfer.kernel else "copy engine"
        if self._runtime == "host":
            engine = f"processor, {transfer.kernel or 'memmove'}"
        if transfer.host_memory:
            return f"{engine} of device {self.runner}"
        way = "writes" if transfer.direction == "write" else "reads"
        staged = "" if transfer.peer_access else ", staged through the host"
        return f"{engine}, device {self.runner} {way}{staged}"


def _findings(ends: _Ends, trace: RankTrace) -> FlowFindings:
    batches = [flow for flow in trace.flows if flow.number == ends.number]
    by_events = all(flow.device_end_s for flow in batches)
    findings = FlowFindings(ends.number, ends.runner, ends.source, ends.destination, by_events)
    for flow in batches:
        copies, error_ns = _copies_of(trace, flow, by_events=by_events)
        findings.clock_error_ns = max(findings.clock_error_ns, error_ns)
        findings.batches.append(copies)
        _add_calls(ends, trace, flow)
    findings.timed_batches = [
        _copies_of(trace, flow, by_events=by_events)[0]
        for flow in trace.timed_flows
        if flow.number == ends.number
    ]
    return findings


def _copies_of(trace: RankTrace, flow: TracedFlow, *, by_events: bool) -> tuple[list[Span], float]:
    """The copies of a batch, and the error of their clock in nanoseconds."""
    clock = event_clock(trace, flow) if by_events else None
    if clock is None:
        clock = host_clock(trace)
        return clock.spans(flow.call_begin_ns, flow.call_end_ns), clock.error_ns
    return clock.spans(flow.device_begin_s, flow.device_end_s, 1e9), clock.error_ns


def _add_calls(ends: _Ends, trace: RankTrace, flow: TracedFlow) -> None:
    """Adds the calls of the host, and until when the gate held the copies back."""
    clock = host_clock(trace)
    runner = ends.runner_group
    calls = clock.spans(flow.call_begin_ns, flow.call_end_ns)
    runner.track("calls").slices.extend(
        Slice(f"copy to {ends.destination}", call.begin_ns, call.end_ns, "call", {"number": place})
        for place, call in enumerate(calls)
    )
    if flow.gate_ns and calls:
        gate_ns = int(clock.to_common_ns(flow.gate_ns))
        runner.track("gate").slices.append(
            Slice("enqueued copies wait", calls[0].begin_ns, gate_ns, "wait")
        )


def _add_copies(ends: _Ends, found: FlowFindings, arrows: int) -> None:
    """Adds the copies to both ends, with an arrow from source to destination for each."""
    size_bytes = ends.transfer.size_bytes
    name = f"copy {format_size(size_bytes)}"
    for place, copy in enumerate(found.copies):
        arguments: dict[str, Argument] = {
            "number": place,
            "bytes": size_bytes,
            "from": ends.source,
            "to": ends.destination,
            "method": ends.method,
        }
        if copy.length_ns > 0:
            arguments["GB/s"] = round(size_bytes / copy.length_ns, 3)
        times = (copy.begin_ns, copy.end_ns, "copy", arguments)
        if ends.is_local:
            ends.source_group.track("copies within the device").slices.append(Slice(name, *times))
            continue
        arrow = (arrows + place + 1,)
        ends.source_group.track(f"copies to {ends.destination}").slices.append(
            Slice(name, *times, flows_from=arrow)
        )
        ends.destination_group.track(f"copies from {ends.source}").slices.append(
            Slice(name, *times, flows_to=arrow)
        )
    copies = found.copies
    ends.source_group.count_bytes(f"bytes to {ends.destination}", copies, size_bytes)
    ends.destination_group.count_bytes(f"bytes from {ends.source}", copies, size_bytes)


def clock_error_ns(found: TransferTimeline) -> float:
    """The largest error of a time between copies of two flows, or the clock error of one flow."""
    return sum(sorted(flow.clock_error_ns for flow in found.flows)[-2:])


def batch_copy_time(found: TransferTimeline) -> BatchTime | None:
    """The time of a copy in a batch of the slowest flow; None without copies.

    As in the measurement: until a flow's last copy ended, since its device began with the first
    copy of any of its flows. Smaller batches than the largest ones are left out.
    """
    number = max((len(batch) for flow in found.flows for batch in flow.batches), default=0)
    times_s = []
    of_flows = [[*flow.batches, *flow.timed_batches] for flow in found.flows]
    for batches in zip(*of_flows, strict=False):
        if not all(len(copies) == number for copies in batches) or not number:
            continue
        begins_ns: dict[int, int] = {}
        for flow, copies in zip(found.flows, batches, strict=True):
            begin_ns = copies[0].begin_ns
            begins_ns[flow.runner] = min(begins_ns.get(flow.runner, begin_ns), begin_ns)
        times_s.append(
            max(
                (copies[-1].end_ns - begins_ns[flow.runner]) * 1e-9 / len(copies)
                for flow, copies in zip(found.flows, batches, strict=True)
            )
        )
    return BatchTime(times_s, number) if times_s else None


@dataclass(frozen=True)
class FlowOverlap:
    """How flows overlap while data moves: the share of time with all of them, and their mean."""

    share_of_all: float
    mean_flows: float


def overlap_of(found: TransferTimeline) -> FlowOverlap | None:
    """The overlap of the flows; None with one flow, or if no copy took any time."""
    if len(found.flows) < 2:
        return None
    edges = sorted(
        edge
        for flow in found.flows
        for copy in flow.copies
        for edge in ((copy.begin_ns, 1), (copy.end_ns, -1))
    )
    moving_ns = all_ns = flows_ns = in_progress = 0
    for (begin_ns, change), (end_ns, _) in pairwise(edges):
        in_progress += change
        if in_progress > 0:
            length_ns = end_ns - begin_ns
            moving_ns += length_ns
            flows_ns += length_ns * in_progress
            all_ns += length_ns if in_progress >= len(found.flows) else 0
    return FlowOverlap(all_ns / moving_ns, flows_ns / moving_ns) if moving_ns else None
