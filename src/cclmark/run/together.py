"""What ranks do together or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cclmark import _engine as engine

T = TypeVar("T")

_MOST_TOLD = 400  # bytes of a rank's reason that the others are told


def in_step(team: engine.Team, step: Callable[[], T]) -> T:
    """What ``step`` gives, where it does so on every rank: what one rank cannot do, all leave.

    Raises UnsupportedError with the first such rank's reason on all ranks, or EngineError with
    this one's own where it cannot and others wait for it.
    """
    reason = ""
    try:
        result = step()
    except engine.UnsupportedError as error:
        reason = str(error) or "not supported"
    try:
        if not any(team.gather([float(bool(reason))])):
            return result
        reasons = _told(team, reason)
    except (engine.AbortedError, engine.DeadlineError):
        if not reason:
            raise
        raise engine.EngineError(reason) from None
    raise engine.UnsupportedError(next(filter(None, reasons)))


def _told(team: engine.Team, text: str) -> list[str]:
    """The ``text`` of every rank. The ranks share numbers: here one for each of its bytes."""
    own = text.encode()[:_MOST_TOLD].ljust(_MOST_TOLD, b"\0")
    told = bytes(map(int, team.gather([float(byte) for byte in own])))
    return [
        told[begin : begin + _MOST_TOLD].rstrip(b"\0").decode(errors="replace")
        for begin in range(0, len(told), _MOST_TOLD)
    ]
