"""The timeline of a traced case, from what its ranks recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.explain.plugin_log import PluginLog, parse_plugin_log
from cclmark.trace.clocks import Clock, add_stages, device_clock, event_clock, host_clock
from cclmark.trace.log_events import LogEvents, Task, add_log
from cclmark.trace.rank_trace import RankTrace, Stage, TracedBatch
from cclmark.trace.slot_tracks import SlotFindings, add_slots
from cclmark.trace.timeline import BatchTime, RankTracks, Slice, Span, Timeline

# Of the slowest channel, compared with the median channel.
_LEAST_SLOWER = 0.1
_LEAST_SLOWER_NS = 500.0


@dataclass(frozen=True)
class Periods:
    """The periods of all operations of a rank, and the error of their clock in nanoseconds."""

    of_each: list[Span]
    clock_error_ns: float


@dataclass
class RankFindings:
    """Contents of one rank's trace.

    ``stages``: in nanoseconds of the common clock.

    ``by_source``: the periods of its operations by kernels, events and calls, as far as they are
    complete. ``log``: the numbers of the log without its events, None without a log, for which
    ``log_reason`` is the reason. ``awaited_s``: see RankTrace. ``clock_reason``: why kernels have
    no times. ``batches``: all that were timed, the recorded ones first. ``slots``: None for a
    library without slots, ``algorithm``: of a library of the engine, in words.
    """

    rank: int
    stages: list[Stage]
    by_source: dict[str, Periods]
    log: PluginLog | None = None
    log_reason: str = ""
    awaited_s: float = 0.0
    clock_reason: str = ""
    events: LogEvents = field(default_factory=LogEvents)
    batches: list[TracedBatch] = field(default_factory=list)
    wrong: int | None = None
    slots: SlotFindings | None = None
    algorithm: str = ""

    @property
    def calls(self) -> int:
        """The number of traced operations."""
        return len(self.by_source["calls"].of_each)


@dataclass
class CaseTimeline:
    """A timeline and its findings on every rank.

    ``source``: of the periods that are compared between ranks: kernels, events or calls.
    ``without_kernels``: the ranks because of which these are not the kernels that others have.
    """

    timeline: Timeline
    ranks: list[RankFindings]
    source: str
    without_kernels: list[int] = field(default_factory=list)


def assemble(title: str, size_bytes: int, traces: Sequence[RankTrace]) -> CaseTimeline:
    """Creates the timeline of all ranks. ``title``: describes the case.

    ``size_bytes``: of one operation.
    """
    timeline = Timeline(facts={"case": title})
    findings = []
    for trace in sorted(traces, key=lambda one: one.rank):
        group = RankTracks(f"rank {trace.rank}, {trace.device}, {trace.host}", trace.rank)
        timeline.groups.append(group)
        findings.append(_add_rank(group, title, trace))
    slots = add_slots(timeline.groups, sorted(traces, key=lambda one: one.rank))
    for found in findings:
        found.slots = slots.get(found.rank)
    source = _common_source(findings)
    _connect_messages(timeline, findings)
    for group, found in zip(timeline.groups, findings, strict=True):
        if size_bytes:
            periods = found.by_source[source].of_each
            group.count_bytes("bytes of complete operations", periods, size_bytes)
    case = CaseTimeline(timeline, findings, source)
    lacking = [found.rank for found in findings if "kernels" not in found.by_source]
    if source != "kernels" and len(lacking) < len(findings):
        case.without_kernels = lacking
    timeline.facts["clocks agree within ns"] = round(alignment_error_ns(case))
    return case


def _common_source(findings: Sequence[RankFindings]) -> str:
    """The most exact source that is complete on every rank."""
    for source in ("kernels", "events"):
        numbers = {
            len(found.by_source[source].of_each) if source in found.by_source else 0
            for found in findings
        }
        if len(numbers) == 1 and numbers != {0}:
            return source
    return "calls"


def alignment_error_ns(case: CaseTimeline) -> float:
    """The largest error of a time between events of two ranks, or the clock error of one rank."""
    return sum(sorted(found.by_source[case.source].clock_error_ns for found in case.ranks)[-2:])


def _add_rank(group: RankTracks, title: str, trace: RankTrace) -> RankFindings:
    host = host_clock(trace)
    stages = add_stages(group, trace, host)
    calls = host.spans(trace.call_begin_ns, trace.call_end_ns)
    _add_periods(group, "calls", title, calls)
    found = RankFindings(
        trace.rank,
        stages,
        {"calls": Periods(calls, host.error_ns)},
        log_reason=trace.log_reason,
        awaited_s=trace.awaited_s,
        batches=[
            TracedBatch(
                int(host.to_common_ns(batch.begin_ns)),
                int(host.to_common_ns(batch.complete_ns)),
                batch.operations,
            )
            for batch in (*trace.batches, *trace.timed_batches)
        ],
        wrong=trace.wrong,
        algorithm=trace.step_sources.algorithm if trace.has_slots else "",
    )
    if (events := event_clock(trace)) is not None:
        periods = events.spans(trace.device_begin_s, trace.device_end_s, 1e9)
        found.by_source["events"] = Periods(periods, events.error_ns)
        _add_periods(group, "operations on the device", title, periods)
    if trace.log:
        _add_log(group, trace, host, found)
    return found


def _add_log(group: RankTracks, trace: RankTrace, host: Clock, found: RankFindings) -> None:
    try:
        log = parse_plugin_log(trace.log, f"the log of rank {trace.rank}", after=trace.log_after)
    except UsageError as error:
        found.log_reason = str(error)
        return
    device = device_clock(trace)
    if device is None:
        found.clock_reason = trace.clock_reason or "the device's clock did not advance"
    found.events = add_log(group, log, host, device, trace.log_after)
    if found.events.untimed:
        found.clock_reason = "NCCL reports device times since 2.27"
    # Of millions of events only their numbers are needed from here on.
    found.log = replace(log, events=[], cost_tables=[])
    trace.log = b""
    if device is not None:
        periods = _kernel_periods(found.events.tasks, len(trace.call_begin_ns))
        if periods:
            found.by_source["kernels"] = Periods(periods, device.error_ns)


def _kernel_periods(tasks: Sequence[Task], operations: int) -> list[Span]:
    """When each operation ran. Empty if the tasks cannot be attributed to operations.

    An operation has one task, or equally many: its messages. Every task must have its kernels.
    """
    if not tasks or not operations or len(tasks) % operations:
        return []
    if not all(task.is_complete for task in tasks):
        return []
    of_each = len(tasks) // operations
    ordered = sorted(tasks, key=lambda task: task.event.number)
    parts = [ordered[place : place + of_each] for place in range(0, len(ordered), of_each)]
    found = []
    for part in parts:
        timed = [task for task in part if task.channels]  # others: messages of a rank to itself
        if not timed:
            return []
        period = Span(min(task.begin_ns for task in timed), max(task.end_ns for task in timed))
        found.append(period)
    return found


def _add_periods(group: RankTracks, track: str, title: str, periods: Sequence[Span]) -> None:
    group.track(track).slices.extend(
        Slice(title, period.begin_ns, period.end_ns, "operation", {"number": number})
        for number, period in enumerate(periods)
    )


def _connect_messages(timeline: Timeline, findings: Sequence[RankFindings]) -> None:
    """Adds a track of messages to each rank, with a flow from each send to its receive.

    The messages of two ranks are received in the order in which they are sent.
    """
    flows = _flows(findings)
    for group, found in zip(timeline.groups, findings, strict=True):
        for place, task in _numbered_messages(found.events):
            if not task.channels:
                continue
            sends = task.event.function == "Send"
            name = f"{task.event.function} {'to' if sends else 'from'} {task.peer}"
            pair = (found.rank, task.peer) if sends else (task.peer, found.rank)
            number = flows.get((pair, place))
            flow = () if number is None else (number,)
            track = "messages sent" if sends else "messages received"
            group.track(f"{track}, peer {task.peer}").slices.append(
                Slice(
                    name,
                    task.begin_ns,
                    task.end_ns,
                    "message",
                    {"count": task.event.count},
                    flows_from=flow if sends else (),
                    flows_to=() if sends else flow,
                )
            )


def _flows(findings: Sequence[RankFindings]) -> dict[tuple[tuple[int, int], int], int]:
    """The number of the flow of each message, by sender, receiver and place in their order.

    Without those of two ranks whose numbers of sends and receives differ, or that lack a kernel.
    """
    ends: dict[tuple[int, int], dict[str, list[bool]]] = {}
    for found in findings:
        for _, task in _numbered_messages(found.events):
            sends = task.event.function == "Send"
            pair = (found.rank, task.peer) if sends else (task.peer, found.rank)
            both = ends.setdefault(pair, {"Send": [], "Recv": []})
            both["Send" if sends else "Recv"].append(bool(task.channels))
    flows: dict[tuple[tuple[int, int], int], int] = {}
    for pair, both in ends.items():
        if len(both["Send"]) != len(both["Recv"]):
            continue
        for place, complete in enumerate(zip(both["Send"], both["Recv"], strict=True)):
            if all(complete):
                flows[pair, place] = len(flows) + 1
    return flows


def _numbered_messages(events: LogEvents) -> Iterator[tuple[int, Task]]:
    """The messages, each with its place among those of the same direction and peer."""
    places: dict[tuple[str, int], int] = {}
    messages = [task for task in events.tasks if task.peer >= 0]
    for task in sorted(messages, key=lambda one: one.event.number):
        key = (task.event.function, task.peer)
        yield places.get(key, 0), task
        places[key] = places.get(key, 0) + 1


@dataclass(frozen=True)
class Skew:
    """How far apart ranks begin an operation, in nanoseconds; ``late_rank`` begins last most.

    ``published``: an operation begins with its first publication in a slot.
    """

    median_ns: float
    largest_ns: float
    late_rank: int
    late_times: int
    operations: int
    published: bool = False


def skew_of(case: CaseTimeline) -> Skew | None:
    """The skew between ranks; None with one rank or without common operations."""
    every = [found.slots.published_ns for found in case.ranks if found.slots is not None]
    published = len(every) == len(case.ranks) and all(every)
    if not published:
        periods = [found.by_source[case.source].of_each for found in case.ranks]
        every = [[period.begin_ns for period in of_rank] for of_rank in periods]
    number = min(map(len, every), default=0)
    if len(every) < 2 or not number:
        return None
    spreads, late = [], []
    for place in range(number):
        begins = [of_rank[place] for of_rank in every]
        spreads.append(max(begins) - min(begins))
        late.append(case.ranks[begins.index(max(begins))].rank)
    late_rank = max(dict.fromkeys(late), key=late.count)
    times = late.count(late_rank)
    return Skew(median(spreads), max(spreads), late_rank, times, number, published)


@dataclass(frozen=True)
class SlowChannel:
    """The channel whose kernels take the longest by the median, and the median of all channels."""

    rank: int
    channel: int
    median_ns: float
    median_of_all_ns: float

    @property
    def stands_out(self) -> bool:
        """Whether it is slower than other channels by more than their usual differences."""
        more_ns = self.median_ns - self.median_of_all_ns
        return more_ns > _LEAST_SLOWER_NS and more_ns > _LEAST_SLOWER * self.median_of_all_ns


def slowest_channel(ranks: Sequence[RankFindings]) -> SlowChannel | None:
    """The slowest channel of all ranks; None unless several channels were used."""
    times = by_key(
        ((found.rank, one.number), one.end_ns - one.begin_ns)
        for found in ranks
        for task in found.events.tasks
        for one in task.channels
    )
    if len(times) < 2:
        return None
    medians = {place: median(of) for place, of in times.items()}
    slowest = max(medians, key=lambda place: medians[place])
    return SlowChannel(*slowest, medians[slowest], median(medians.values()))


def batch_time(ranks: Sequence[RankFindings]) -> BatchTime | None:
    """The time of an operation in a batch of the slowest rank; None without batches.

    From the first call of any rank until the last rank saw its operations complete. Smaller batches
    than the largest ones are left out, because a batch has costs of its own.
    """
    number = min((len(found.batches) for found in ranks), default=0)
    by_rank = [[found.batches[place] for found in ranks] for place in range(number)]
    operations = max((batches[0].operations for batches in by_rank), default=0)
    whole_ns = [
        max(one.complete_ns for one in batches) - min(one.begin_ns for one in batches)
        for batches in by_rank
        if batches[0].operations == operations
    ]
    if not whole_ns or not operations:
        return None
    return BatchTime([one_ns * 1e-9 / operations for one_ns in whole_ns], operations)


def operation_time_s(case: CaseTimeline) -> float | None:
    """The median over operations of the longest period of any rank; None without operations."""
    every = [found.by_source[case.source].of_each for found in case.ranks]
    longest_ns = [
        max(period.length_ns for period in periods) for periods in zip(*every, strict=False)
    ]
    return median(longest_ns) * 1e-9 if longest_ns else None
