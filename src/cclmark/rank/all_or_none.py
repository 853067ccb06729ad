"""Steps that either all ranks complete or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import cclmark._engine as engine

T = TypeVar("T")

#: An operation unsupported on one rank must fail on the others within this time.
GRACE_S = 10.0
_MOST_BYTES = 2000  # of a rank's reason


def in_step(agreement: engine.RankGroup, step: Callable[[], T], grace_s: float | None = None) -> T:
    """The result of ``step`` if every rank supports it.

    ``agreement``: a rank group with slots used for no other purpose, since a step may synchronise
    ranks itself, and a rank that fails must not count as a participant of the step. ``grace_s``:
    the time that a rank without support waits for the others to fail as well, by default the
    deadline of the phase. Other ranks that do not fail wait for this rank inside the step.

    Raises UnsupportedError on all ranks, with the reason of the first rank without support, and its
    number if other ranks support the step. Raises EngineError with the reason of this rank if other
    ranks wait for it inside the step.
    """
    reason = b""
    try:
        result = step()
    except engine.UnsupportedError as error:
        reason = (str(error) or "not supported").encode()[:_MOST_BYTES]
        if grace_s is not None:
            agreement.expect_within(
                grace_s, "an operation that other ranks support but this rank does not"
            )
    try:
        lengths = [int(length) for length in agreement.gather([float(len(reason))])]
        if not any(lengths):
            return result
        reasons = _told(agreement, reason, lengths)
    except (engine.AbortedError, engine.DeadlineError):
        if not reason:
            raise
        raise engine.EngineError(reason.decode(errors="replace")) from None
    rank, text = next((rank, text) for rank, text in enumerate(reasons) if text)
    if all(reasons):
        raise engine.UnsupportedError(text)
    raise engine.UnsupportedError(f"on rank {agreement.number_of(rank)}: {text}")


def _told(agreement: engine.RankGroup, own: bytes, lengths: list[int]) -> list[str]:
    """The text of every rank. Rank groups exchange only numbers: each byte is sent as one."""
    most = max(lengths)
    told = bytes(map(int, agreement.gather([float(byte) for byte in own.ljust(most, b"\0")])))
    return [
        told[rank * most : rank * most + length].decode(errors="replace")
        for rank, length in enumerate(lengths)
    ]
