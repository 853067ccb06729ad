"""The status board: where each rank stands, in memory that outlives it.

A rank that hangs or dies cannot say where it was. So it writes that down before it goes on: a few
bytes in a shared anonymous file that the launcher reads when something is wrong.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass

PHASES = (
    "start-up",
    "opening the device",
    "loading the library",
    "communicator creation",
    "allocating buffers",
    "preparing",
    "warm-up",
    "timing",
    "verification",
    "waiting for other pairs",
    "shutdown",
    "finished",
)

# Native alignment: each field is written and read as one word.
_SLOT = struct.Struct("@iiQdd")
_SLOT_BYTES = 64
_MOST_READS = 100  # a rank that was stopped while it wrote never gets further


@dataclass(frozen=True)
class Status:
    """Where a rank was last. ``case_index`` is -1 outside cases; times are of the monotonic clock.

    ``deadline_s`` is 0 where the phase has none.
    """

    phase: str
    case_index: int
    batches: int
    since_s: float
    deadline_s: float


class Board:
    """The board of a run, seen from the launcher or from one rank."""

    def __init__(self, fd: int, ranks: int) -> None:
        """Maps ``fd``, growing it to the size needed. All zeros reads as start-up."""
        os.ftruncate(fd, _SLOT_BYTES * ranks)
        self._memory = mmap.mmap(fd, _SLOT_BYTES * ranks)

    def enter(self, rank: int, phase: str, case_index: int, batches: int, timeout_s: float) -> None:
        """Notes that ``rank`` begins a phase that may last ``timeout_s`` (0: no limit)."""
        now_s = time.monotonic()
        deadline_s = now_s + timeout_s if timeout_s > 0 else 0.0
        _SLOT.pack_into(
            self._memory,
            _SLOT_BYTES * rank,
            PHASES.index(phase),
            case_index + 1,
            batches,
            now_s,
            deadline_s,
        )

    def read(self, rank: int) -> Status:
        """Where ``rank`` is now, not in the middle of saying so."""
        slot = _SLOT.unpack_from(self._memory, _SLOT_BYTES * rank)
        for _ in range(_MOST_READS):
            before, slot = slot, _SLOT.unpack_from(self._memory, _SLOT_BYTES * rank)
            if slot == before:
                break
        phase, case, batches, since_s, deadline_s = slot
        return Status(PHASES[phase], case - 1, batches, since_s, deadline_s)
