"""What one rank records of a traced case."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import msgspec

from cclmark.base.errors import RankError
from cclmark.explain.algorithm_steps import PlannedStep
from cclmark.explain.paths import RankPaths

_LEVEL = 1  # of zlib: logs shrink tenfold, and a higher level takes much longer
_PIECE_BYTES = 8 << 20
_MOST_BYTES = 2 << 30  # of one rank, uncompressed


class Stage(msgspec.Struct, frozen=True):
    """A part of the run of a rank. Times in nanoseconds of the host's CLOCK_MONOTONIC.

    ``size_bytes``: of the memory that it allocates, fills or moves, 0 if it has no such size.
    """

    name: str
    begin_ns: int
    end_ns: int
    size_bytes: int = 0


class ClockPair(msgspec.Struct, frozen=True):
    """A reading of the device's clock, between two readings of CLOCK_MONOTONIC. Nanoseconds."""

    before_ns: int
    device_ns: int
    after_ns: int


class ClockAhead(msgspec.Struct, frozen=True):
    """How far the first process's clock is ahead of the rank's at ``at_ns``, within ``error_ns``.

    All in nanoseconds of CLOCK_MONOTONIC.
    """

    at_ns: int
    ahead_ns: int
    error_ns: int


class TracedBatch(msgspec.Struct, frozen=True):
    """Operations that were enqueued back to back: from the first call until all were complete."""

    begin_ns: int
    complete_ns: int
    operations: int


class StepSources(msgspec.Struct):
    """One rank's data on the steps of the traced operation.

    ``paths``: how the library connects the rank, empty with ``paths_reason``. ``planned``: the
    rank's steps in a library of the engine. ``algorithm``: of such a library in words, or the one
    that variables of an MPI select; ``reason``: why it is unknown, or how it was selected.
    """

    paths: RankPaths
    paths_reason: str = ""
    planned: list[PlannedStep] = []
    algorithm: str = ""
    reason: str = ""


class TracedFlow(msgspec.Struct, frozen=True):
    """Copies of one flow that were enqueued together. Times as in RankTrace.

    ``number``: the index of the flow in its transfer. ``gate_ns``: when the gate opened behind
    which the copies waited, 0 without a gate. ``complete_ns``: when the copies of all flows of this
    process were complete.
    """

    number: int
    call_begin_ns: list[int]
    call_end_ns: list[int]
    device_begin_s: list[float]
    device_end_s: list[float]
    reference_before_ns: int
    reference_after_ns: int
    gate_ns: int
    complete_ns: int


class RankTrace(msgspec.Struct):
    """Recordings of a rank. Times in nanoseconds of its host's CLOCK_MONOTONIC.

    ``device``: its name. ``ahead``: readings of the first process's clock before and after the
    operations, empty on its host. ``clock_begin``, ``clock_end``: readings of the
    device's clock before and after the operations, empty with ``clock_reason``.
    ``call_begin_ns``, ``call_end_ns``: of each operation's call. ``device_begin_s``,
    ``device_end_s``: seconds on the device's clock after the reference event, which was recorded
    between ``reference_before_ns`` and ``reference_after_ns``; empty without events.
    ``log``: the plug-in's log without its first ``log_after`` records, empty with ``log_reason``.
    ``awaited_s``: after so many seconds kernels were not awaited any longer, because the library
    had not reported all of them; 0 if it always had.
    ``timed_batches``, ``timed_flows``: more batches of the same operations or copies, traced too,
    whose events are not part of the timeline.
    ``wrong``: elements that the check found wrong, None without a check. ``flows``: the copies of
    a traced transfer that the device ``rank`` executes, batch by batch.

    ``slots``: what the rank did with slots, see slot_tracks.py; ``has_slots`` for a library that
    has them. ``slots_dropped``: events that did not fit. ``slots_enqueued``: the periods are those
    of calls that enqueue, and waits on the device's streams are not recorded.
    ``step_sources``: see there.
    """

    rank: int
    host: str
    device: str
    runtime: str
    stages: list[Stage] = []
    ahead: list[ClockAhead] = []
    clock_begin: list[ClockPair] = []
    clock_end: list[ClockPair] = []
    clock_reason: str = ""
    call_begin_ns: list[int] = []
    call_end_ns: list[int] = []
    device_begin_s: list[float] = []
    device_end_s: list[float] = []
    reference_before_ns: int = 0
    reference_after_ns: int = 0
    batches: list[TracedBatch] = []
    timed_batches: list[TracedBatch] = []
    log: bytes = b""
    log_after: int = 0
    log_reason: str = ""
    awaited_s: float = 0.0
    wrong: int | None = None
    step_sources: StepSources = msgspec.field(default_factory=lambda: StepSources(RankPaths()))
    flows: list[TracedFlow] = []
    timed_flows: list[TracedFlow] = []
    has_slots: bool = False
    slots: bytes = b""
    slots_dropped: int = 0
    slots_enqueued: bool = False


def pieces_of(trace: RankTrace) -> Iterator[bytes]:
    """Yields the compressed trace in pieces that fit into messages."""
    content = zlib.compress(msgspec.msgpack.encode(trace), _LEVEL)
    for begin in range(0, len(content), _PIECE_BYTES):
        yield content[begin : begin + _PIECE_BYTES]


def trace_of(pieces: list[bytes]) -> RankTrace:
    """The trace of which these are the pieces. Raises RankError if they are damaged."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(b"".join(pieces), _MOST_BYTES)
        if not unpacking.eof:
            raise RankError("the trace of a rank is incomplete or larger than 2 GiB: lower -n")
        return msgspec.msgpack.decode(content, type=RankTrace)
    except (zlib.error, msgspec.DecodeError) as error:
        raise RankError(f"the trace of a rank is damaged: {error}") from None
