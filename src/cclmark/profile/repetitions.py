"""The repetition of a program's step that represents it: the nearest to the medians of all."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median, quantiles

from cclmark.base.grouping import by_key
from cclmark.journal.schema import ProfileRepetitions
from cclmark.profile.observed import MESSAGES, SEND, ObservedCall, ObservedProcess
from cclmark.work.intervals import length_of, union_of

_MOST_CALLS = 100_000  # that are searched, from each end
_LEAST_REPEATS = 3
_LEAST_CALLS = 2  # of a period: one call again and again shows no step
_LEAST_SHARE = 4  # the repetitions must be at least so large a part of what is searched


@dataclass(frozen=True)
class Period:
    """``repeats`` steps of ``calls`` calls each, the first of which is call number ``begin``."""

    begin: int
    calls: int
    repeats: int


def period_of(sequence: Sequence[int]) -> Period | None:
    """Finds the longest part of a sequence that repeats; None if it repeats too rarely.

    A program may end, and begin, with calls outside of its loop. So the search ends at several
    places; each one finds the smallest period of the longest part before its end, from the failure
    function of Knuth, Morris and Pratt.
    """
    best: Period | None = None
    length = len(sequence)
    for end in dict.fromkeys((length, length - 1, length - length // 8, length - length // 2)):
        found = _before(sequence, end)
        if found is not None and (best is None or _span(found) > _span(best)):
            best = found
    return best


def _span(period: Period) -> int:
    return period.calls * period.repeats


def _before(sequence: Sequence[int], end: int) -> Period | None:
    part = [*reversed(sequence[max(0, end - _MOST_CALLS) : end])]
    failures = [0] * len(part)
    best_length, best_period = 0, 0
    for place in range(1, len(part)):
        matched = failures[place - 1]
        while matched and part[place] != part[matched]:
            matched = failures[matched - 1]
        if part[place] == part[matched]:
            matched += 1
        failures[place] = matched
        period = place + 1 - matched
        if place + 1 >= _LEAST_REPEATS * period:
            best_length, best_period = place + 1, period
    if best_length * _LEAST_SHARE < len(part) or best_period < _LEAST_CALLS:
        return None
    return _extended(sequence, end - best_length, end, best_period)


def _extended(sequence: Sequence[int], begin: int, end: int, period: int) -> Period:
    """The longest part around another one with the same period, from its first whole repetition."""
    while begin > 0 and sequence[begin - 1] == sequence[begin - 1 + period]:
        begin -= 1
    while end < len(sequence) and sequence[end] == sequence[end - period]:
        end += 1
    return Period(begin, period, (end - begin) // period)


#: Group, sender, receiver and number of a message between them.
MessageKey = tuple[str, int, int, int]


def messages_of(process: ObservedProcess, period: Period) -> Iterator[tuple[MessageKey, int]]:
    """The messages of a period, with the places of their calls in it.

    They are numbered here, from the first call of the process: the sends from one rank to another
    match the receives there. Messages with an unknown end are left out.
    """
    sent: Counter[tuple[str, int, int]] = Counter()
    end = period.begin + period.calls * period.repeats
    for place, call in enumerate(process.calls[:end], -period.begin):
        operation = process.operations[call.operation]
        if operation.operation not in MESSAGES:
            continue
        own = process.groups[operation.group].own_rank
        ends = (own, call.peer) if operation.operation == SEND else (call.peer, own)
        if min(ends) < 0:
            continue
        pair = (operation.group, *ends)
        if place >= 0:
            yield (*pair, sent[pair]), place
        sent[pair] += 1


_ODD_STEPS = 2  # by which processes may differ: the first and the last may be incomplete


def common_steps(
    processes: Sequence[ObservedProcess], periods: Sequence[Period | None]
) -> list[Period | None]:
    """The periods, where parts of steps are joined to the steps of another process.

    A process has parts of steps if it repeats its calls a whole number of times as often as one
    with which it exchanges messages.
    """
    known = {number: one for number, one in enumerate(periods) if one is not None}
    joined = dict(known)
    order = sorted(known, key=lambda number: known[number].repeats)
    for at, number in enumerate(order):
        period = known[number]
        peers: set[tuple[str, int]] | None = None
        for reference in order[:at]:
            whole = joined[reference]
            if (parts := _parts(period, whole)) == 1:
                continue
            if peers is None:
                peers = _peers(processes[number])
            other = processes[reference]
            if peers.isdisjoint((group, one.own_rank) for group, one in other.groups.items()):
                continue
            found = _joined(processes[number], period, parts, other, whole)
            if found is not None:
                joined[number] = found
                break
    return [joined.get(number) for number in range(len(periods))]


def _peers(process: ObservedProcess) -> set[tuple[str, int]]:
    """The groups and ranks with which a process exchanges messages."""
    groups = {
        place: one.group
        for place, one in enumerate(process.operations)
        if one.operation in MESSAGES
    }
    return {(groups[one.operation], one.peer) for one in process.calls if one.operation in groups}


def _parts(period: Period, whole: Period) -> int:
    """The number of parts in a step; 1 if the repetitions do not fit together."""
    parts = round(period.repeats / whole.repeats)
    return parts if abs(period.repeats - parts * whole.repeats) <= _ODD_STEPS * parts else 1


def _joined(
    process: ObservedProcess,
    period: Period,
    parts: int,
    other: ObservedProcess,
    whole: Period,
) -> Period | None:
    """The period of parts whose steps share most messages with the other process's; None: none."""
    theirs = {key: place // whole.calls for key, place in messages_of(other, whole)}
    shared = [(place, theirs[key]) for key, place in messages_of(process, period) if key in theirs]
    if not shared:
        return None
    calls = period.calls * parts

    def in_common(first: int) -> int:
        shift = first * period.calls
        steps = Counter(step - (place - shift) // calls for place, step in shared)
        return steps.most_common(1)[0][1]

    first = max(range(parts), key=in_common)
    begin = period.begin + first * period.calls
    return replace(period, begin=begin, calls=calls, repeats=(period.repeats - first) // parts)


_NS = 1e-9
_LEAST_OF_QUARTILES = 4

#: Nanoseconds of one process, by the number of the repetition in the program, as far as known.
_Times = dict[int, int]
#: Group, operation and number of a collective, or group, sender, receiver and number of a message.
_Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Chosen:
    """The repetition that was chosen.

    ``numbers``: its number in each process, None where no call repeats. ``repetitions``: the
    figures of all repetitions, None if the processes have none in common.
    """

    numbers: list[int | None]
    repetitions: ProfileRepetitions | None = None


def moments_of(calls: Sequence[ObservedCall], period: Period) -> tuple[list[int], bool]:
    """The moments at which the repetitions begin, in nanoseconds.

    The second value is whether they are times of kernels, by the clock of the device: if those of
    a first call are unknown, all moments are times of calls, by the clock of the host.
    """
    firsts = [calls[period.begin + number * period.calls] for number in range(period.repeats)]
    is_timed = all(one.is_timed for one in firsts)
    return [one.begin_ns if is_timed else one.at_ns for one in firsts], is_timed


def choose_repetition(
    processes: Sequence[ObservedProcess], periods: Sequence[Period | None]
) -> Chosen:
    """Chooses the most typical repetition, the same one in all processes.

    The distance of a repetition is the larger one of those of step and communication. Each is the
    sum of the differences of the processes from their medians, over the sum of the medians. Of
    equal distances the nearest to the middle is taken.
    """
    own = {
        number: (processes[number], one) for number, one in enumerate(periods) if one is not None
    }
    offsets = _offsets(own)
    steps = [_steps(*own[one], offsets[one]) for one in own]
    calls = [_calls(*own[one], offsets[one]) for one in own]
    communication = [one for one, _ in calls]
    begin = max(offsets.values(), default=0)
    end = min((offsets[one] + period.repeats for one, (_, period) in own.items()), default=0)
    known = [set(range(begin, end)).intersection(*times) for times in (steps, communication)]
    usable = set.intersection(*([one for one in known if one] or [set()]))
    if not usable:
        return Chosen([None if one is None else one.repeats // 2 for one in periods])
    distances = [
        _distances(times, each) for times, each in zip((steps, communication), known, strict=True)
    ]
    middle = begin + (end - begin) // 2
    chosen = min(
        usable,
        key=lambda one: (max(each.get(one, 0.0) for each in distances), abs(one - middle), one),
    )
    numbers = [
        chosen - offsets[number] if number in own else None for number in range(len(processes))
    ]
    if len(own) < len(processes):
        return Chosen(numbers)
    return Chosen(
        numbers,
        ProfileRepetitions(
            compared=len(known[1] or known[0]),
            step_deviation=distances[0].get(chosen, 0.0),
            communication_deviation=distances[1].get(chosen, 0.0),
            communication_s=_medians_s(communication, known[1]),
            span_s=_medians_s([one for _, one in calls], known[1]),
            communication_quartiles_s=_quartiles_s(communication, known[1]),
        ),
    )


def _steps(process: ObservedProcess, period: Period, offset: int) -> _Times:
    """The length of the step of each repetition.

    If each repetition begins in a separate marked step, it is the length of that step. Otherwise it
    is the time to the start of the next repetition, which is unknown for the last one.
    """
    moments, _ = moments_of(process.calls, period)
    marked = sorted(process.steps)
    places = [bisect_right(marked, moment, key=lambda one: one[0]) - 1 for moment in moments]
    if (
        marked
        and len({*places}) == len(places)
        and all(
            place >= 0 and moment < marked[place][1]
            for place, moment in zip(places, moments, strict=True)
        )
    ):
        return {
            number: marked[place][1] - marked[place][0]
            for number, place in enumerate(places, offset)
        }
    return {
        number: end - begin
        for number, (begin, end) in enumerate(pairwise(moments), offset)
        if end > begin
    }


def _calls(process: ObservedProcess, period: Period, offset: int) -> tuple[_Times, _Times]:
    """The time in which at least one call of a repetition ran, and that from first to last."""
    communication: _Times = {}
    spans: _Times = {}
    for number in range(period.repeats):
        begin = period.begin + number * period.calls
        times = [
            (call.begin_ns, call.end_ns)
            for call in process.calls[begin : begin + period.calls]
            if call.end_ns
        ]
        union = union_of(times)
        if union and len(times) == period.calls:
            communication[offset + number] = length_of(union)
            spans[offset + number] = union[-1][1] - union[0][0]
    return communication, spans


def _offsets(own: dict[int, tuple[ObservedProcess, Period]]) -> dict[int, int]:
    """How many repetitions of the program precede the first one of each process.

    Processes are matched by the calls that they share, one after the other along their groups. One
    that shares none is taken to begin with the first one.
    """
    groups = {number: _groups(*own[number]) for number in own}
    callers = by_key((group, number) for number, called in groups.items() for group in called)
    offsets: dict[int, int] = {}
    known: dict[_Key, int] = {}
    for first in own:
        pending = deque([first])
        while pending:
            number = pending.popleft()
            if number in offsets:
                continue
            process, period = own[number]
            offsets[number] = _offset(process, period, known)
            for key, place in _keys(process, period):
                known.setdefault(key, place + offsets[number])
            for group in groups[number]:
                pending.extend(callers.pop(group, ()))
    return offsets


def _groups(process: ObservedProcess, period: Period) -> dict[str, None]:
    """The groups that a step calls, in the order of their first calls."""
    calls = process.calls[period.begin : period.begin + period.calls]
    return dict.fromkeys(process.operations[one.operation].group for one in calls)


def _offset(process: ObservedProcess, period: Period, known: dict[_Key, int]) -> int:
    collectives: Counter[int] = Counter()
    messages: Counter[int] = Counter()
    for key, place in _keys(process, period):
        if key in known:
            (collectives if isinstance(key[1], str) else messages)[known[key] - place] += 1
    for found in (collectives, messages):
        if found:
            return found.most_common(1)[0][0]
    return 0


def _keys(process: ObservedProcess, period: Period) -> Iterator[tuple[_Key, int]]:
    """What identifies calls on all ranks, with the number of their repetition in the process.

    Of each group it is the first collective of a repetition, and all messages.
    """
    calls, operations = process.calls, process.operations
    firsts: dict[str, int] = {}
    has_messages = False
    for place in range(period.begin, period.begin + period.calls):
        operation = operations[calls[place].operation]
        if operation.operation in MESSAGES:
            has_messages = True
        else:
            firsts.setdefault(operation.group, place)
    for place in firsts.values():
        for number in range(period.repeats):
            call = calls[place + number * period.calls]
            operation = operations[call.operation]
            yield (operation.group, operation.operation, call.sequence), number
    if has_messages:
        for key, place in messages_of(process, period):
            yield key, place // period.calls


def _distances(times: Sequence[_Times], known: Collection[int]) -> dict[int, float]:
    """The distance of each repetition from the medians."""
    medians = [median(one[number] for number in known) for one in times if known]
    total = sum(medians) or 1.0
    return {
        number: sum(abs(one[number] - own) for one, own in zip(times, medians, strict=True)) / total
        for number in known
    }


def _medians_s(times: Sequence[_Times], known: Collection[int]) -> list[float]:
    """The median of each process; empty if it is unknown."""
    return [median(one[number] for number in known) * _NS for one in times if known]


def _quartiles_s(times: Sequence[_Times], known: Collection[int]) -> list[float]:
    """The lower and the upper quartile of the means of the processes; empty if unknown."""
    if len(known) < _LEAST_OF_QUARTILES:
        return []
    means_s = [sum(one[number] for one in times) / len(times) * _NS for number in known]
    low_s, _, high_s = quantiles(means_s, n=4, method="inclusive")
    return [low_s, high_s]
