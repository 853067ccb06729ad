"""Creates the profile and its results from the observations of every process.

How long ranks wait for the rank that arrives last follows from the durations of their kernels. The
kernels of an operation in which every rank needs data of all others end together. The rank that
arrives last has the shortest kernel, and each other rank's kernel is longer by the time that it
waited. Durations are compared instead of begins, because the clocks of devices differ.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from cclmark.base.errors import UsageError
from cclmark.base.grouping import by_key
from cclmark.journal.item_results import ProfileResult
from cclmark.journal.schema import (
    ProcessTimeline,
    Profile,
    ProfiledCall,
    ProfiledChoice,
    ProfileFigures,
    ProfileGroup,
    ProfileProcess,
    Settings,
)
from cclmark.profile.observed import (
    MESSAGES,
    NUMBER_LIMIT,
    SYNCHRONIZING,
    ObservedCall,
    ObservedOperation,
    ObservedProcess,
)
from cclmark.profile.repetitions import (
    Period,
    choose_repetition,
    common_steps,
    moments_of,
    period_of,
)
from cclmark.work.intervals import Interval, length_of, lengths_within, union_of, without
from cclmark.work.profiled import ProfiledOperation

_NS = 1e-9
_MOST_OF_WINDOW = 4096  # calls of a process
_ODD_STEPS = 2
_USUAL_OF_WINDOW = 512  # where no step is known
_MOST_STEPS = 1024  # of a process whose times are listed
_DIGITS = 9  # after the point, of seconds


@dataclass
class Assembled:
    """A profile and its results, in the order of their time."""

    profile: Profile
    results: list[ProfileResult]


@dataclass
class _Item:
    """An operation with the places of its parts, by the number of the process."""

    operation: ProfiledOperation
    parts: dict[int, list[int]] = field(default_factory=dict)


def assembled_profile(source: str, processes: Sequence[ObservedProcess]) -> Assembled:
    """Assembles ``processes``, which are in the order in which they are numbered."""
    groups, numbers = _groups(processes)
    items = _items(processes, numbers)
    places = _places(items)
    waits = waits_of(processes)
    unions = [_Times.of(process) for process in processes]
    results = [
        ProfileResult(
            index=0,
            profiled=item.operation,
            figures=[
                _figures(number, processes[number], parts, waits[number], unions[number])
                for number, parts in sorted(item.parts.items())
            ],
            choices=_choices(
                [
                    processes[number].operations[one]
                    for number, own in item.parts.items()
                    for one in own
                ]
            ),
        )
        for item in items
    ]
    order = sorted(range(len(results)), key=lambda number: _weight(results[number]), reverse=True)
    new_numbers = {old: new for new, old in enumerate(order)}
    results = [results[old] for old in order]
    for index, result in enumerate(results):
        result.index = index
    places = {key: new_numbers[old] for key, old in places.items()}
    sequences = [
        [places[number, call.operation] for call in process.calls]
        for number, process in enumerate(processes)
    ]
    periods = common_steps(processes, [period_of(one) for one in sequences])
    chosen = choose_repetition(
        processes,
        [one if one is not None and one.calls <= _MOST_OF_WINDOW else None for one in periods],
    )
    return Assembled(
        Profile(
            source=source,
            groups=groups,
            processes=[
                _process(number, process, unions[number], periods[number])
                for number, process in enumerate(processes)
            ],
            window=[
                _window(
                    process,
                    sequences[number],
                    periods[number],
                    chosen.numbers[number],
                    unions[number].compute,
                )
                for number, process in enumerate(processes)
            ],
            repetitions=chosen.repetitions,
        ),
        results,
    )


def _weight(result: ProfileResult) -> tuple[float, int]:
    times = [one.total_s for one in result.figures if one.total_s is not None]
    return (sum(times), sum(one.bytes for one in result.figures))


def _groups(
    processes: Sequence[ObservedProcess],
) -> tuple[list[ProfileGroup], dict[str, int]]:
    """The groups of all processes, the largest first, and the numbers of their identities."""
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}
    members: dict[str, dict[int, int]] = {}
    by_rank = {process.rank: number for number, process in enumerate(processes)}
    for number, process in enumerate(processes):
        for identity, group in process.groups.items():
            names[identity] = names.get(identity) or group.name
            sizes[identity] = max(sizes.get(identity, 0), group.ranks, len(group.members))
            known = members.setdefault(identity, {})
            for own, rank in enumerate(group.members):
                if rank in by_rank:
                    known[own] = by_rank[rank]
            if group.own_rank >= 0:
                known[group.own_rank] = number
    order = sorted(sizes, key=lambda one: -sizes[one])
    found = []
    for identity in order:
        known = members.get(identity, {})
        size = max(sizes[identity], 1 + max(known, default=-1))
        found.append(
            ProfileGroup(names[identity], identity, [known.get(rank) for rank in range(size)])
        )
    return found, {identity: number for number, identity in enumerate(order)}


def _items(processes: Sequence[ObservedProcess], numbers: dict[str, int]) -> list[_Item]:
    items: dict[ProfiledOperation, _Item] = {}
    sizes = {
        identity: max(one.groups[identity].ranks for one in processes if identity in one.groups)
        for identity in numbers
    }
    for number, process in enumerate(processes):
        for place, one in enumerate(process.operations):
            key = ProfiledOperation(
                operation=one.operation,
                ccl=one.ccl,
                group=numbers[one.group],
                group_ranks=sizes[one.group],
                dtype=one.dtype,
                count=one.count,
                size_bytes=one.size_bytes,
                is_range=one.is_range,
            )
            items.setdefault(key, _Item(key)).parts.setdefault(number, []).append(place)
    return list(items.values())


def _places(items: Sequence[_Item]) -> dict[tuple[int, int], int]:
    """The number of the item of every operation, by process and place."""
    return {
        (number, place): index
        for index, item in enumerate(items)
        for number, parts in item.parts.items()
        for place in parts
    }


def _choices(operations: Sequence[ObservedOperation]) -> list[ProfiledChoice]:
    counts: dict[tuple[str, str, int], int] = {}
    for one in operations:
        if one.kernel:
            key = (one.kernel, one.protocol, one.channels)
            counts[key] = counts.get(key, 0) + one.calls - one.unreported
    ordered = sorted(counts.items(), key=lambda entry: -entry[1])
    return [ProfiledChoice(*key, calls) for key, calls in ordered if calls]


@dataclass
class _Times:
    """The times of one process. ``communication``: the union of its operations and transfers,
    ``exposed``: of them without other kernels; ``compute``: the union of the other kernels, None if
    unknown. ``by_operation``: the times of the listed calls.
    """

    communication: list[Interval]
    compute: list[Interval] | None
    exposed: list[Interval] | None
    by_operation: dict[int, list[Interval]]

    @classmethod
    def of(cls, process: ObservedProcess) -> _Times:
        by_operation = by_key(
            (one.operation, (one.begin_ns, one.end_ns)) for one in process.calls if one.is_timed
        )
        called = [one for own in by_operation.values() for one in own]
        communication = union_of([*called, *process.transfers])
        if process.kernels is None:
            return cls(communication, None, None, by_operation)
        compute = union_of(process.kernels)
        return cls(communication, compute, without(communication, compute), by_operation)


def _figures(
    number: int,
    process: ObservedProcess,
    parts: Sequence[int],
    waits: dict[int, Wait],
    times: _Times,
) -> ProfileFigures:
    own = [process.operations[place] for place in parts]
    calls = [one for place in parts for one in times.by_operation.get(place, ())]
    timed = sum(one.timed for one in own)
    waited = [waits[place] for place in parts if place in waits]
    compared = sum(one.compared for one in waited)
    least = [one.least_ns for one in own if one.timed]
    total_ns: int | None = sum(one.total_ns for one in own) if timed else None
    if timed and own[0].operation in MESSAGES:
        # Messages of one group call have the times of one kernel, which must count once.
        total_ns = length_of(union_of(calls)) if len(calls) == timed else None
    total_calls, total_bytes = sum(one.calls for one in own), sum(one.bytes for one in own)
    if max(total_calls, total_bytes) >= NUMBER_LIMIT:
        raise UsageError(
            f"process {process.pid} has too many calls or bytes: its log or trace is damaged"
        )
    return ProfileFigures(
        process=number,
        calls=total_calls,
        bytes=total_bytes,
        unreported=sum(one.unreported for one in own),
        timed=timed,
        total_s=None if total_ns is None else total_ns * _NS,
        median_s=median(end - begin for begin, end in calls) * _NS if calls else None,
        least_s=min(least) * _NS if least else None,
        most_s=max(one.most_ns for one in own) * _NS if timed else None,
        wait_s=sum(one.total_ns for one in waited) * _NS if compared else None,
        compared=compared,
        last=sum(one.last for one in waited),
        exposed_s=_exposed_s(calls, times),
    )


def _exposed_s(calls: Sequence[Interval], times: _Times) -> float | None:
    if times.compute is None or not calls:
        return None
    return length_of(without(union_of(calls), times.compute)) * _NS


def _process(
    number: int, process: ObservedProcess, times: _Times, period: Period | None
) -> ProfileProcess:
    rank = process.rank if process.rank >= 0 else number
    has_times = bool(times.communication)
    found = ProfileProcess(
        rank=rank,
        host=process.host,
        pid=process.pid,
        calls=sum(one.calls for one in process.operations),
        listed=len(process.calls),
        span_s=_span_ns(process) * _NS,
        communication_s=length_of(times.communication) * _NS if has_times else None,
        compute_s=None if times.compute is None else length_of(times.compute) * _NS,
        exposed_s=None if times.exposed is None else length_of(times.exposed) * _NS,
        library=process.library,
        note=process.note,
    )
    steps, is_timed = process.steps, True
    if not steps:
        steps, is_timed = _steps_of(process.calls, period)
    if len(steps) > 1:
        found.timeline = _timeline(times, steps, is_known=has_times and is_timed)
        found.steps = len(steps)
        found.step_calls = _calls_of_step(process, period)
        found.step_s = median(end - begin for begin, end in steps) * _NS
        if has_times and is_timed:  # otherwise they are moments of another clock
            shared_ns = lengths_within(times.communication, steps)
            found.step_communication_s = median(shared_ns) * _NS
    return found


def _timeline(times: _Times, steps: Sequence[Interval], *, is_known: bool) -> ProcessTimeline:
    """What runs in each step; of many steps, in those from the middle of the program."""
    first = max(0, (len(steps) - _MOST_STEPS) // 2)
    listed = steps[first : first + _MOST_STEPS]
    found = ProcessTimeline(_seconds(end - begin for begin, end in listed))
    if is_known:
        found.communication_s = _seconds(lengths_within(times.communication, listed))
    if is_known and times.compute is not None and times.exposed is not None:
        found.exposed_s = _seconds(lengths_within(times.exposed, listed))
        found.compute_s = _seconds(lengths_within(times.compute, listed))
    return found


def _seconds(times_ns: Iterable[int]) -> list[float]:
    return [round(one * _NS, _DIGITS) for one in times_ns]


def _calls_of_step(process: ObservedProcess, period: Period | None) -> int:
    """The number of calls that repeat; 0 if steps were marked that are something else.

    The first and the last marked step may be without calls, or have others.
    """
    if period is None:
        return 0
    is_step = not process.steps or abs(period.repeats - len(process.steps)) <= _ODD_STEPS
    return period.calls if is_step else 0


def _span_ns(process: ObservedProcess) -> int:
    timed = [one for one in process.calls if one.is_timed]
    moments = [(one.begin_ns, one.end_ns) for one in timed] + (process.kernels or [])
    moments += process.steps
    if moments:
        return max(end for _, end in moments) - min(begin for begin, _ in moments)
    host = [one.at_ns for one in process.calls]
    return max(host) - min(host) if host else 0


def _steps_of(calls: Sequence[ObservedCall], period: Period | None) -> tuple[list[Interval], bool]:
    """The steps of a period, each from its first call to that of the next one.

    The second value is whether they are times of kernels, see moments_of.
    """
    if period is None:
        return [], False
    moments, is_timed = moments_of(calls, period)
    return [(begin, end) for begin, end in pairwise(moments) if end > begin], is_timed


def _window(
    process: ObservedProcess,
    sequence: Sequence[int],
    period: Period | None,
    chosen: int | None,
    compute: Sequence[Interval] | None,
) -> list[ProfiledCall]:
    """The chosen repetition of the step, or as many calls as usual from the middle."""
    if period is not None and chosen is not None:
        begin = period.begin + chosen * period.calls
        end = begin + period.calls
    else:
        begin = max(0, (len(process.calls) - _USUAL_OF_WINDOW) // 2)
        end = begin + _USUAL_OF_WINDOW
    calls = process.calls[begin:end]
    is_timed = bool(calls) and all(one.is_timed for one in calls)
    first_ns = min(((one.begin_ns if is_timed else one.at_ns) for one in calls), default=0)
    beside_s: list[float | None] = [None] * len(calls)
    if is_timed and compute is not None:
        beside_s = [*_seconds(_beside_ns(one, compute) for one in calls)]
    return [
        ProfiledCall(
            index,
            ((one.begin_ns if is_timed else one.at_ns) - first_ns) * _NS,
            (one.end_ns - one.begin_ns) * _NS if one.is_timed else 0.0,
            one.stream,
            one.peer,
            beside,
        )
        for one, index, beside in zip(calls, sequence[begin:end], beside_s, strict=True)
    ]


def _beside_ns(call: ObservedCall, compute: Sequence[Interval]) -> int:
    """How long other kernels ran beside a call. ``compute``: their union."""
    place = max(0, bisect_right(compute, (call.begin_ns, call.begin_ns)) - 1)
    found = 0
    while place < len(compute) and compute[place][0] < call.end_ns:
        begin, end = compute[place]
        found += max(0, min(end, call.end_ns) - max(begin, call.begin_ns))
        place += 1
    return found


_LEAST_WAIT_NS = 5_000  # smaller differences between kernels do not show that ranks wait


@dataclass
class Wait:
    """What one process waited in the calls of one operation."""

    total_ns: int = 0
    compared: int = 0
    last: int = 0


def waits_of(processes: Sequence[ObservedProcess]) -> list[dict[int, Wait]]:
    """Returns what each process waited, by the place of the operation in the process.

    Calls are compared if at least two processes report their times.
    """
    durations: dict[tuple[str, str, int], list[tuple[int, int, int]]] = {}
    for number, process in enumerate(processes):
        for call in process.calls:
            operation = process.operations[call.operation]
            if not call.is_timed or operation.operation not in SYNCHRONIZING:
                continue
            key = (operation.group, operation.operation, call.sequence)
            durations.setdefault(key, []).append(
                (call.end_ns - call.begin_ns, number, call.operation)
            )
    found: list[dict[int, Wait]] = [{} for _ in processes]
    for parts in durations.values():
        if len(parts) < 2:
            continue
        shortest_ns, last, _ = min(parts)
        is_clear = max(parts)[0] - shortest_ns >= _LEAST_WAIT_NS
        for time_ns, number, place in parts:
            wait = found[number].setdefault(place, Wait())
            wait.compared += 1
            if time_ns - shortest_ns >= _LEAST_WAIT_NS:
                wait.total_ns += time_ns - shortest_ns
            wait.last += is_clear and number == last
    return found


def unmeasured_settings(timing: str) -> Settings:
    """The settings of a run without a timed loop. ``timing``: how times were obtained."""
    return Settings(
        begin_bytes=0,
        end_bytes=0,
        step_bytes=0,
        factor=0.0,
        timing=timing,
        across_ranks="",
        precision=0.0,
        max_time_s=0.0,
        timeout_s=0.0,
        iterations=None,
        warmup=None,
        group=1,
        graph_launches=1,
        check=0,
        cycles=1,
        registration="",
        seed=0,
        barrier="",
        clock="device",
    )
