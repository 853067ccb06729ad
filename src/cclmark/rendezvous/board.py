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
    "replaying",
    "verification",
    "waiting for other pairs",
    "shutdown",
    "finished",
)

# Native alignment: each field is written and read as one word.
_SLOT = struct.Struct("@iiQdd")
_COUNTS = struct.Struct("@QQQQ")  # OperationCounter::Words: written by the engine as it goes
_COUNTS_AT = 32
_SLOT_BYTES = 64
_MOST_READS = 100  # a rank that was stopped while it wrote never gets further


@dataclass(frozen=True)
class Operations:
    """How many operations a rank has entered since its communicator was made.

    An operation is entered just before it is handed to the library, and known to be ``complete``
    when the host saw that: where calls only enqueue, at the end of the last batch. What a graph
    replays is entered with its launch. ``before_batch`` of them were entered before the batch that
    runs now. A library that is measured after another one begins at 0.
    """

    entered: int
    complete: int
    before_batch: int


@dataclass(frozen=True)
class Status:
    """Where a rank was last. ``case_index`` is -1 outside cases; times are of the monotonic clock.

    ``deadline_s`` is 0 where the phase has none. ``operations`` is None before there is a
    communicator, and where what is measured are no operations of one.
    """

    phase: str
    case_index: int
    batches: int
    since_s: float
    deadline_s: float
    operations: Operations | None = None


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
        operations = self._operations(rank)
        # A library that writes where it must not may hit the board as well.
        name = PHASES[phase] if 0 <= phase < len(PHASES) else "an unknown phase"
        return Status(name, case - 1, batches, since_s, deadline_s, operations)

    @staticmethod
    def counts_at(rank: int) -> int:
        """Where in the file the engine counts the operations of ``rank``."""
        return _SLOT_BYTES * rank + _COUNTS_AT

    def _operations(self, rank: int) -> Operations | None:
        """Not read until it stands still, as the rest is: a rank enters millions in a second."""
        # Complete first: what is entered in between must not look complete without being entered.
        complete = _COUNTS.unpack_from(self._memory, self.counts_at(rank))[2]
        made, entered, _, before_batch = _COUNTS.unpack_from(self._memory, self.counts_at(rank))
        return Operations(entered, min(complete, entered), before_batch) if made else None
