"""Steps that are the same on all processes of a program.

The last stage of a pipeline repeats the same few calls for each microbatch, so that the period of
its calls is a part of a step. The messages that it exchanges with the stage before show which of
these parts belong to one step there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from cclmark.profile.numbered_messages import messages_of
from cclmark.profile.observed import MESSAGES, ObservedProcess
from cclmark.profile.periods import Period

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
    """The period of ``parts`` parts each whose steps share most messages with the other process's.

    None if they exchange none.
    """
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
