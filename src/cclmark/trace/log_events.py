"""Slices from the log of the plug-in: operations, kernels by channel, network steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from cclmark.explain.calls import kernel_of
from cclmark.explain.plugin_log import KERNEL_STOP, KERNELS_SINCE, PluginEvent, PluginLog
from cclmark.trace.clocks import Clock
from cclmark.trace.timeline import Argument, RankTracks, Slice

_SLOTS = 8  # of NCCL's buffers: so many steps of a connection are in progress at once
#: What a network step waits for, by NCCL's state number (ncclProfilerEventState_t).
WAITS = {
    8: "wait: the local GPU has not produced the data",
    9: "wait: the network sends",
    10: "wait: the network receives",
    11: "wait: the received data are flushed to the GPU",
    12: "wait: the local GPU has not consumed the data",
    20: "wait: no credit from the receiver",
}
# A kernel cannot begin before its operation was called, by more than clocks may disagree.
_EARLIEST_NS = 1_000_000_000
_MOST_NS = (1 << 63) - 1
_TASKS = ("collective", "symmetric collective", "point-to-point", "copy-engine collective")


@dataclass
class Channel:
    """A kernel's work on one channel, in nanoseconds of the common clock."""

    number: int
    begin_ns: int
    end_ns: int


@dataclass
class Task:
    """An operation of the library with its kernels. ``peer``: -1 except for messages."""

    event: PluginEvent
    channels: list[Channel] = field(default_factory=list)

    @property
    def peer(self) -> int:
        """The other rank of a message."""
        return self.event.root if self.event.kind == "point-to-point" else -1

    @property
    def begin_ns(self) -> int:
        """When its first channel began."""
        return min(one.begin_ns for one in self.channels)

    @property
    def end_ns(self) -> int:
        """When its last channel ended."""
        return max(one.end_ns for one in self.channels)

    @property
    def is_complete(self) -> bool:
        """Whether the library has reported its kernel on every channel that it names."""
        expected = _expected_kernels(self.event)
        return len(self.channels) >= (1 if expected is None else expected)


def _expected_kernels(event: PluginEvent) -> int | None:
    """How many kernels the library reports of an operation; None if unknown.

    NCCL reports none of a message of a rank to itself.
    """
    if event.kind == "point-to-point":
        return event.channels if event.root != event.rank else 0
    return event.channels if event.kind == "collective" else None


@dataclass
class LogEvents:
    """Contribution of a log to a timeline.

    ``tasks``: all operations, also those without kernels. ``kinds``: the number of events of each
    kind. ``untimed``: kernels without times of the device, as NCCL before 2.27 reports them.
    ``unfinished``: calls, kernels and steps without a valid end. ``overwritten``: kernels
    with the times of later ones. ``impossible``: kernels that begin before their operation was
    called, or outside of all times. ``unreported``: channels of operations without a kernel,
    although the library reports kernels with their times. ``waits``: the longest wait by its cause,
    in nanoseconds.
    """

    tasks: list[Task] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    untimed: int = 0
    unfinished: int = 0
    overwritten: int = 0
    impossible: int = 0
    unreported: int = 0
    waits: dict[str, int] = field(default_factory=dict)


def add_log(
    group: RankTracks, log: PluginLog, host: Clock, device: Clock | None, after: int = 0
) -> LogEvents:
    """Adds the slices of ``log`` to the tracks of a rank and returns the operations.

    Times of kernels are those of ``device``; without it, kernels are left out. ``after``: the log
    begins after so many events. Kernels and steps of earlier operations, which the library reports
    late, are left out too.
    """
    found = LogEvents()
    stops: dict[int, PluginEvent] = {}
    states: dict[int, list[PluginEvent]] = defaultdict(list)
    for event in log.events:
        if event.kind == "stop":
            stops[event.parent] = event
        elif event.kind == "state":
            states[event.parent].append(event)
    tasks = {event.number: Task(event) for event in log.events if event.kind in _TASKS}
    operations = {event.number: event for event in log.events if event.kind == "proxy operation"}

    earlier = _of_earlier_operations(log.events, after)
    latest_ns: dict[int, int] = {}
    found.kinds.update(event.kind for event in log.events if event.number not in earlier)

    def at(event: PluginEvent) -> int:
        return int(host.to_common_ns(event.time_ns))

    for event in log.events:
        if event.number in earlier:
            continue
        stop = stops.get(event.number)
        if event.kind in ("collective call", "point-to-point call", "kernel launch"):
            if stop is None:
                found.unfinished += 1
                continue
            is_launch = event.kind == "kernel launch"
            track = group.track("kernel launches" if is_launch else "library calls")
            name = "launch" if is_launch else f"{event.function} {_size(event)}".strip()
            track.slices.append(Slice(name, at(event), at(stop), "call"))
        elif event.kind == "kernel channel" and device is not None:
            task = tasks.get(event.parent)
            earliest_ns = max(0, at(task.event) - _EARLIEST_NS) if task is not None else 0
            _add_channel(found, event, states[event.number], task, latest_ns, device, earliest_ns)
        elif event.kind == "proxy step":
            operation = operations.get(event.parent)
            if operation is None or stop is None:
                found.unfinished += 1
                continue
            _add_step(group, found, operation, at(event), at(stop), event, states[event.number], at)
    _add_kernels(group, found, tasks)
    if device is not None and log.interface_version >= KERNELS_SINCE:
        found.unreported = _unreported(log.events)
    return found


def _unreported(events: list[PluginEvent]) -> int:
    """The number of channels of operations that have no kernel."""
    kernels = Counter(event.parent for event in events if event.kind == "kernel channel")
    return sum(
        max(0, (_expected_kernels(event) or 0) - kernels[event.number])
        for event in events
        if event.kind in _TASKS
    )


def _of_earlier_operations(events: list[PluginEvent], after: int) -> set[int]:
    """The numbers of the events that belong to an operation before the first ``after`` events."""
    found: set[int] = set()
    for event in events:
        if 0 < event.parent <= after or event.parent in found:
            found.add(event.number)
    return found


def _add_channel(
    found: LogEvents,
    event: PluginEvent,
    states: list[PluginEvent],
    task: Task | None,
    latest_ns: dict[int, int],
    device: Clock,
    earliest_ns: int,
) -> None:
    """Adds a channel to its task. ``latest_ns``: the last begin on each channel so far.

    A kernel that begins before ``earliest_ns`` is left out.
    """
    if not event.device_ns:
        found.untimed += 1
        return
    ends_ns = [one.device_ns for one in states if one.sequence == KERNEL_STOP]
    if not ends_ns or event.device_ns > ends_ns[-1] or task is None:
        found.unfinished += 1
        return
    # NCCL keeps the times of 64 kernels of a channel: a later one may overwrite them. Messages of
    # one kernel may begin at the same time.
    if task.peer < 0:
        if event.device_ns <= latest_ns.get(event.channels, 0):
            found.overwritten += 1
            return
        latest_ns[event.channels] = event.device_ns
    begin_ns = int(device.to_common_ns(event.device_ns))
    end_ns = int(device.to_common_ns(ends_ns[-1]))
    if not earliest_ns <= begin_ns <= end_ns <= _MOST_NS:
        found.impossible += 1
        return
    task.channels.append(Channel(event.channels, begin_ns, end_ns))


def _add_kernels(group: RankTracks, found: LogEvents, tasks: dict[int, Task]) -> None:
    for task in tasks.values():
        found.tasks.append(task)
        if not task.channels:
            continue
        event = task.event
        name = f"{event.function} {_size(event)}".strip()
        arguments: dict[str, Argument] = {
            "kernel": kernel_of(event),
            "algorithm": event.algorithm,
            "protocol": event.protocol,
            "channels": len(task.channels),
            "count": event.count,
            "datatype": event.datatype.removeprefix("nccl"),
        }
        if task.peer >= 0:
            arguments["peer"] = task.peer
        for channel in task.channels:
            group.track(f"channel {channel.number:02}").slices.append(
                Slice(name, channel.begin_ns, channel.end_ns, "kernel", arguments)
            )


def _add_step(
    group: RankTracks,
    found: LogEvents,
    operation: PluginEvent,
    begin_ns: int,
    end_ns: int,
    event: PluginEvent,
    states: list[PluginEvent],
    at: Callable[[PluginEvent], int],
) -> None:
    """Adds a network step and the waits that it consists of."""
    direction = "to" if operation.function == "Send" else "from"
    slot = event.sequence % _SLOTS
    track = group.track(
        f"network channel {operation.channels:02} {direction} {operation.root} slot {slot}"
    )
    moved = max((one.count for one in states), default=0)
    arguments: dict[str, Argument] = {"step": event.sequence, "bytes": moved}
    track.slices.append(
        Slice(f"{operation.function} step {event.sequence}", begin_ns, end_ns, "step", arguments)
    )
    for state, following in zip(states, [*states[1:], None], strict=True):
        cause = WAITS.get(state.sequence)
        if cause is None:
            continue
        wait_begin_ns = max(begin_ns, at(state))
        wait_end_ns = min(end_ns, at(following) if following is not None else end_ns)
        if wait_end_ns <= wait_begin_ns:
            continue
        track.slices.append(Slice(cause, wait_begin_ns, wait_end_ns, "wait"))
        found.waits[cause] = max(found.waits.get(cause, 0), wait_end_ns - wait_begin_ns)


def _size(event: PluginEvent) -> str:
    return f"{event.count} {event.datatype.removeprefix('nccl').lower()}" if event.count else ""
