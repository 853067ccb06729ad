"""Buffers for a whole run: taken once, for the largest case that fits."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark import _engine as engine
from cclmark.plan.cases import Case
from cclmark.plan.sizes import format_size

_KEPT_FREE = 0.02  # of the memory, for what the library still takes when it is first used


def room_for(case: Case) -> tuple[int, int]:
    """Bytes of the send and of the receive buffer that ``case`` needs on every rank."""
    return engine.room_for(
        case.operation,
        case.dtype,
        case.root or 0,
        case.count,
        list(case.matrix),
        case.in_place,
        case.ranks,
    )


def free_on_all(device: engine.Device, team: engine.Team, ranks: int) -> int:
    """Bytes that every one of the team's ``ranks`` can take; ranks of the host share its memory."""
    kept_free = int(_KEPT_FREE * device.info.memory_bytes)
    sharing = ranks if device.info.runtime == "host" else 1
    return int(min(team.gather([float((device.free_memory_bytes() - kept_free) // sharing)])))


def reserve_for(
    cases: Sequence[Case],
    session: engine.Session,
    team: engine.Team,
    registration: engine.Registration,
    free_bytes: int,
) -> dict[Case, str]:
    """Reserves buffers for as many of the cases as fit, and returns the others with the reason.

    Every rank of ``team`` decides alike: what does not fit on one is left out on all.
    ``free_bytes``: what each of them has.
    """
    rooms = {case: room_for(case) for case in cases}
    limits = sorted({sum(room) for room in rooms.values() if sum(room) <= free_bytes}, reverse=True)
    refused = ""
    for limit in [*limits, 0]:
        fitting = [room for room in rooms.values() if sum(room) <= limit]
        send_bytes = max((room[0] for room in fitting), default=0)
        receive_bytes = max((room[1] for room in fitting), default=0)
        if send_bytes + receive_bytes > free_bytes:
            continue  # the largest of each do not fit together
        failed = ""
        unsupported = False
        try:
            session.reserve(send_bytes, receive_bytes, registration)
        except (engine.OutOfMemoryError, engine.UnsupportedError) as error:
            failed = str(error)
            unsupported = isinstance(error, engine.UnsupportedError)
        if max(team.gather([1.0 if unsupported else 0.0])) > 0:
            return dict.fromkeys(cases, failed or "another rank's library cannot do this")
        if max(team.gather([1.0 if failed else 0.0])) == 0:
            return {
                case: f"needs {format_size(sum(room))} of memory per rank; "
                f"{format_size(free_bytes)} are free{refused}"
                for case, room in rooms.items()
                if sum(room) > limit
            }
        refused = f", but {failed or 'another rank did not get it'}"
    raise engine.OutOfMemoryError(f"not even the smallest buffers could be had: {failed}")
