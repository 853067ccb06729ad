"""Messages of a program, numbered so that both ends of each have the same key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cclmark.profile.observed import MESSAGES, SEND, ObservedProcess
from cclmark.profile.periods import Period

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
