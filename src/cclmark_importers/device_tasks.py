"""Tasks that a profiler of devices recorded: the copies, reductions and signals of operations.

A profiler such as msprof records what the device executed, not how it was planned: a task belongs
to the rank that executed it, and whether a copy reads from the other rank or writes to it is
unknown. Stages are therefore periods of one rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cclmark.base.grouping import by_key
from cclmark.trace.timeline import Argument, Counter, RankTracks, Slice, Span, Timeline
from cclmark.work.sizes import format_size

_POST = "rdmasend"
_DATA, _REDUCES, _RECORD, _WAIT = ("memcpy", _POST), "reduce", "notify_record", "notify_wait"
_SIGNAL_BYTES = 4  # of an RDMASend that notifies


@dataclass(frozen=True, slots=True)  # a trace may have millions
class DeviceTask:
    """A task of a device, in nanoseconds of the profiler's clock.

    ``name``: as the profiler prints it. ``rank``: whose task it is, ``peer``: the other rank, None
    within the device. ``notify``: the signal's number, empty if it has none. ``link``: the kind of
    connection, and ``transport`` the engine, empty if unknown. ``rate_gb_per_s``: the profiler's
    own figure, None if it has none.
    """

    name: str
    plane: int
    begin_ns: int
    end_ns: int
    rank: int
    peer: int | None
    size_bytes: int = 0
    link: str = ""
    transport: str = ""
    dtype: str = ""
    notify: str = ""
    rate_gb_per_s: float | None = None

    @property
    def _kind(self) -> str:
        return self.name.lower().replace(" ", "_")

    @property
    def reduces(self) -> bool:
        """Whether data that arrive are reduced with those that are there."""
        return self._kind.startswith(_REDUCES)

    @property
    def moves_data(self) -> bool:
        """Whether it copies or reduces; false for signals and waits."""
        least_bytes = _SIGNAL_BYTES if self.posts else 0
        return self.size_bytes > least_bytes and (self.reduces or self._kind in _DATA)

    @property
    def posts(self) -> bool:
        """Whether it only posts a transfer, which goes on after it: its time is no transfer's."""
        return self._kind == _POST

    @property
    def records(self) -> bool:
        """Whether it sends a signal."""
        return self._kind == _RECORD

    @property
    def waits(self) -> bool:
        """Whether it waits for a signal."""
        return self._kind == _WAIT

    @property
    def span(self) -> Span:
        """When it ran."""
        return Span(self.begin_ns, self.end_ns)


@dataclass
class DeviceOperation:
    """An operation of a group on one device, with its tasks in the order of their begin.

    ``number``: its place among those of the same group. ``count``: elements, 0 if unknown.
    """

    name: str
    group: str
    begin_ns: int
    end_ns: int
    dtype: str = ""
    count: int = 0
    algorithm: str = ""
    ranks: int = 0
    number: int = 0
    tasks: list[DeviceTask] = field(default_factory=list)

    @property
    def length_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.begin_ns


@dataclass
class DeviceTrace:
    """Operations and counters of one device. ``device``: its name.

    ``others``: tasks that belong to no operation of the trace.
    """

    rank: int
    device: str
    operations: list[DeviceOperation] = field(default_factory=list)
    others: list[DeviceTask] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)

    @property
    def tasks(self) -> list[DeviceTask]:
        """All tasks."""
        return [*(task for one in self.operations for task in one.tasks), *self.others]


def stages_of(operation: DeviceOperation) -> list[list[DeviceTask]]:
    """The tasks that move data, in stages.

    A task is of the next stage if it begins when all of the stage before have ended, or if that
    stage has the same task with the same rank.
    """
    stages: list[list[DeviceTask]] = []
    for task in sorted(operation.tasks, key=lambda one: one.begin_ns):
        if not task.moves_data:
            continue
        now = stages[-1] if stages else []
        ended = all(one.end_ns <= task.begin_ns for one in now)
        if ended or any((one.name, one.peer) == (task.name, task.peer) for one in now):
            stages.append([task])
        else:
            now.append(task)
    return stages


def assemble_tasks(traces: Sequence[DeviceTrace]) -> Timeline:
    """The timeline of all devices, whose times begin with the first event.

    Groups are ranks in their order. Arrows lead from signals to waits for them.
    """
    begin_ns = _begin_ns(traces)
    flows = _flows(traces)
    timeline = Timeline(facts={"begin, ns since 1970": begin_ns})
    for trace in sorted(traces, key=lambda one: one.rank):
        tracks = RankTracks(f"rank {trace.rank} ({trace.device})", trace.rank)
        several = len({one.group for one in trace.operations}) > 1
        for one in trace.operations:
            end = f" of group {one.group}" if several else ""
            tracks.track(f"operations{end}").slices.append(
                _operation_slice(one, begin_ns),
            )
            for task in one.tasks:
                name = f"plane {task.plane}{end}"
                tracks.track(name).slices.append(_task_slice(task, begin_ns, flows))
        for task in trace.others:
            name = f"plane {task.plane}, tasks of no operation"
            tracks.track(name).slices.append(_task_slice(task, begin_ns, flows))
        tracks.counters += [
            Counter(one.name, one.unit, [(at - begin_ns, value) for at, value in one.values])
            for one in trace.counters
        ]
        timeline.groups.append(tracks)
    return timeline


def _begin_ns(traces: Sequence[DeviceTrace]) -> int:
    times = [one.begin_ns for trace in traces for one in trace.operations]
    times += [task.begin_ns for trace in traces for task in trace.tasks]
    times += [at for trace in traces for one in trace.counters for at, _ in one.values]
    return min(times, default=0)


def _operation_slice(one: DeviceOperation, begin_ns: int) -> Slice:
    arguments: dict[str, Argument] = {"type": one.dtype, "algorithm": one.algorithm}
    arguments |= {"count": one.count, "ranks": one.ranks, "group": one.group}
    known = {name: value for name, value in arguments.items() if value}
    return Slice(one.name, one.begin_ns - begin_ns, one.end_ns - begin_ns, "operation", known)


def _task_slice(task: DeviceTask, begin_ns: int, flows: dict[int, tuple[int, bool]]) -> Slice:
    name = task.name
    if task.moves_data:
        name += f" {format_size(task.size_bytes)}"
    if task.peer is not None:
        name += f", rank {task.peer}"
    arguments: dict[str, Argument] = {"rank": task.rank}
    if task.peer is not None:
        arguments["other rank"] = task.peer
    if task.moves_data:
        arguments["bytes"] = task.size_bytes
    named = {"link": task.link, "transport": task.transport, "type": task.dtype}
    named["notify"] = task.notify
    arguments |= {name: value for name, value in named.items() if value}
    if task.moves_data and task.rate_gb_per_s is not None:
        arguments["GB/s"] = task.rate_gb_per_s
    number, starts = flows.get(id(task), (0, False))
    return Slice(
        *(name, task.begin_ns - begin_ns, task.end_ns - begin_ns, "task", arguments),
        flows_from=(number,) if number and starts else (),
        flows_to=(number,) if number and not starts else (),
    )


def _flows(traces: Sequence[DeviceTrace]) -> dict[int, tuple[int, bool]]:
    """The arrow of each signal and of each wait for it, by the object, and whether it starts there.

    Without those of a signal that is sent and awaited unequally often, or whose wait ends first.
    """
    tasks = [task for trace in traces for task in trace.tasks if task.notify]
    sent = by_key((one.notify, one) for one in tasks if one.records)
    awaited = by_key((one.notify, one) for one in tasks if one.waits)
    flows: dict[int, tuple[int, bool]] = {}
    for notify, signals in sent.items():
        waits = awaited.get(notify, [])
        pairs = list(_in_order(signals, waits))
        if len(signals) != len(waits) or any(to.end_ns < one.begin_ns for one, to in pairs):
            continue
        for one, to in pairs:
            number = len(flows) // 2 + 1
            flows[id(one)], flows[id(to)] = (number, True), (number, False)
    return flows


def _in_order(
    signals: Sequence[DeviceTask], waits: Sequence[DeviceTask]
) -> Iterator[tuple[DeviceTask, DeviceTask]]:
    def begin_ns(task: DeviceTask) -> int:
        return task.begin_ns

    yield from zip(sorted(signals, key=begin_ns), sorted(waits, key=begin_ns), strict=False)
