"""The status board: the state of each rank, in memory that outlives it.

A rank that hangs or dies cannot report its state. Each rank therefore records it before each step:
a few bytes in a shared anonymous file, which the launcher reads if something is wrong.
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
    "measuring the memory",
    "communicator creation",
    "allocating buffers",
    "preparing",
    "warm-up",
    "timing",
    "replaying",
    "verification",
    "explaining",
    "filling inputs",
    "reading clocks",
    "tracing",
    "awaiting events",
    "tracing more batches",
    "waiting for other pairs",
    "choosing groups",
    "waiting for other groups",
    "waiting for other hosts",
    "checking hosts",
    "releasing buffers",
    "shutdown",
    "finished",
)

# Native alignment: each field is written and read as one word.
_SLOT = struct.Struct("@iiQdd")
_COUNTS = struct.Struct("@QQQQ")  # OperationCounter::Words, which the engine updates
_COUNTS_AT = 32
_SLOT_BYTES = 64
_MOST_READS = 100  # bounds the retries if a rank was stopped in the middle of a write


@dataclass(frozen=True)
class Operations:
    """The numbers of operations of a rank since its communicator was created.

    An operation is ``entered`` just before the call of the library, and ``complete`` once the host
    has observed its completion; where calls only enqueue, that is the end of the last batch. The
    operations of a graph are entered with its launch. ``before_batch`` operations were entered
    before the current batch. Each library starts at 0.
    """

    entered: int
    complete: int
    before_batch: int


@dataclass(frozen=True)
class Status:
    """The last recorded state of a rank. Times are of the monotonic clock.

    ``case_index`` is -1 outside cases. ``deadline_s`` is 0 for a phase without a deadline.
    ``operations`` is None before a communicator exists, and for work without a communicator.
    """

    phase: str
    case_index: int
    batches: int
    since_s: float
    deadline_s: float
    operations: Operations | None = None


class Board:
    """The board of a run, mapped by the launcher or by a rank."""

    def __init__(self, fd: int, ranks: int) -> None:
        """Maps ``fd`` and extends it to the required size. All zeros mean start-up."""
        #: The size of the board.
        self.size_bytes = _SLOT_BYTES * ranks
        os.ftruncate(fd, self.size_bytes)
        self._memory = mmap.mmap(fd, self.size_bytes)

    def enter(self, rank: int, phase: str, case_index: int, batches: int, timeout_s: float) -> None:
        """Records that ``rank`` begins a phase with a deadline of ``timeout_s`` (0: no limit)."""
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
        """The current state of ``rank``, without torn reads of a concurrent write."""
        slot = _SLOT.unpack_from(self._memory, _SLOT_BYTES * rank)
        for _ in range(_MOST_READS):
            before, slot = slot, _SLOT.unpack_from(self._memory, _SLOT_BYTES * rank)
            if slot == before:
                break
        phase, case, batches, since_s, deadline_s = slot
        operations = self._operations(rank)
        # A library with a stray write may have corrupted the board.
        name = PHASES[phase] if 0 <= phase < len(PHASES) else "an unknown phase"
        return Status(name, case - 1, batches, since_s, deadline_s, operations)

    @staticmethod
    def counts_at(rank: int) -> int:
        """The offset in the file at which the engine counts the operations of ``rank``."""
        return _SLOT_BYTES * rank + _COUNTS_AT

    def _operations(self, rank: int) -> Operations | None:
        """Reads the counts once, without retries, since a rank enters millions per second."""
        # Complete is read first, so that it never includes operations not yet counted as entered.
        complete = _COUNTS.unpack_from(self._memory, self.counts_at(rank))[2]
        made, entered, _, before_batch = _COUNTS.unpack_from(self._memory, self.counts_at(rank))
        return Operations(entered, min(complete, entered), before_batch) if made else None
