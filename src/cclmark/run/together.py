"""What ranks do together or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cclmark import _engine as engine

T = TypeVar("T")

_MOST_BYTES = 2000  # of a rank's reason


def in_step(agreement: engine.Team, step: Callable[[], T], grace_s: float | None = None) -> T:
    """What ``step`` gives, where it does so on every rank: what one rank cannot do, all leave.

    ``agreement``: the ranks, in places where they meet for nothing else. A step may meet the others
    itself, and a rank that cannot do it must not be taken for one that does.
    ``grace_s``: for how long a rank that cannot waits for the others to find out as well; without
    it, as long as everything may last. Then they wait for it in what it left.

    Raises UnsupportedError with the first such rank's reason on all ranks, or EngineError with
    this one's own where others can.
    """
    reason = b""
    try:
        result = step()
    except engine.UnsupportedError as error:
        reason = (str(error) or "not supported").encode()[:_MOST_BYTES]
        if grace_s is not None:
            agreement.expect_within(grace_s, "what this rank cannot do and others do")
    try:
        lengths = [int(length) for length in agreement.gather([float(len(reason))])]
        if not any(lengths):
            return result
        reasons = _told(agreement, reason, lengths)
    except (engine.AbortedError, engine.DeadlineError):
        if not reason:
            raise
        raise engine.EngineError(reason.decode(errors="replace")) from None
    raise engine.UnsupportedError(next(filter(None, reasons)))


def _told(agreement: engine.Team, own: bytes, lengths: list[int]) -> list[str]:
    """The text of every rank. Ranks share numbers: here one for each byte."""
    most = max(lengths)
    told = bytes(map(int, agreement.gather([float(byte) for byte in own.ljust(most, b"\0")])))
    return [
        told[rank * most : rank * most + length].decode(errors="replace")
        for rank, length in enumerate(lengths)
    ]
