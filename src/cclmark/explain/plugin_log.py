"""The log of cclmark's NCCL plug-in, one file per process; see engine/plugin/event_log.hpp.

The file may be read while it is written, and after its process was killed. All numbers are in the
byte order of the machine that wrote it.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from cclmark.base.errors import MissingError, UsageError
from cclmark.base.printable import plain

_MAGIC = b"CCLMLOG1"
_HEADER = struct.Struct("=8sII6qI64s")
# Behind the header: another profiler, another tuner, the tuner table, and what did not fit.
_OTHER_PLUGIN = struct.Struct("=I508s512s")
_LOSSES = struct.Struct("=4xQiI")
_LOSSES_AT = _HEADER.size + 3 * _OTHER_PLUGIN.size
_RUN = struct.Struct("=40s")
_RUN_AT = _LOSSES_AT + _LOSSES.size
#: The offset of the first record.
HEADER_BYTES = 4096
#: The size of a record, which begins with its kind as four bytes.
RECORD_BYTES = 128
#: The offset of the device's time in it, eight bytes.
DEVICE_TIME_AT = 48
KERNEL_CHANNEL = 8
#: The version of the profiler interface from which on kernels have times and ends.
KERNELS_SINCE = 4
RECORD = struct.Struct("=Ii6QiHH20s16s12s16s")
_COSTS = struct.Struct("=IiQQQQI21f")
_MOST_RECORDS = 1 << 28
_PIECE_BYTES = 1 << 20  # of a log that is read in pieces: whole records
_FREE_SPACE = "free disk space, or set CCLMARK_PLUGIN_LOG to another disk"
_ADVICE = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
}
_COST_TABLE = 13
_SYMMETRIC = 14
#: The names of the kinds of events, by their number in the log.
KINDS = {
    1: "communicator",
    2: "collective",
    3: "point-to-point",
    4: "collective call",
    5: "point-to-point call",
    6: "kernel launch",
    7: "copy-engine collective",
    8: "kernel channel",
    9: "proxy operation",
    10: "proxy step",
    11: "stop",
    12: "state",
    14: "symmetric collective",
    15: "tuner rule",
    16: "called operation",
    17: "counted operation",
    18: "kernel times",
    19: "counted call",
    20: "process",
}
#: The kinds of a log that counts calls, as ``cclmark profile`` reads it.
OF_PROFILES = frozenset((16, 17, 18, 19, 20))
#: The sequence of a state: the kernel has ended on a channel (ncclProfilerKernelChStop).
KERNEL_STOP = 22
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv")


@dataclass(frozen=True)
class PluginEvent:
    """One event. ``number`` is its place in the log, from 1; ``parent`` that of another, 0: none.

    ``time_ns`` is of CLOCK_MONOTONIC, ``device_ns`` of the device's global timer (0: none).
    ``count`` is in elements; for a communicator, the number of its ranks. ``root`` is the peer of a
    message, and the number of nodes of a communicator. ``rank`` is -1 if unknown.

    A tuner rule has its line in ``sequence``, the call's bytes in ``count``, its own ``channels``
    (0: not its concern), and in ``root`` 1 if it was applied, 0 if it was not available.
    """

    number: int
    kind: str
    rank: int
    communicator: int
    time_ns: int
    parent: int
    sequence: int
    count: int
    device_ns: int
    root: int
    channels: int
    warps: int
    function: str
    algorithm: str
    protocol: str
    datatype: str


@dataclass(frozen=True)
class CostTable:
    """NCCL's predictions for a collective of ``size_bytes``, before it chose.

    ``costs_us``: microseconds by algorithm and protocol; those that are not available are missing.
    """

    number: int
    communicator: int
    time_ns: int
    function: str
    size_bytes: int
    costs_us: dict[tuple[str, str], float]


@dataclass(frozen=True)
class OtherPlugin:
    """Another plug-in that cclmark's plug-in loaded, or was to load.

    ``kind``: profiler or tuner. ``interface_version``: by which it is called, 0 if it is not.
    ``reason``: why it is not called for some or all communicators.
    """

    kind: str
    name: str
    interface_version: int
    reason: str

    @property
    def text(self) -> str:
        """A sentence without a period."""
        plug_in = f"the {self.kind} plug-in {self.name}"
        if not self.interface_version:
            return f"{plug_in} is not called: {self.reason}"
        exception = f", except where {self.reason}" if self.reason else ""
        return f"{plug_in} is called too, by interface version {self.interface_version}{exception}"


@dataclass(frozen=True)
class TunerTable:
    """The tuner table that cclmark's plug-in read, or was to read, from ``path``.

    ``is_applied``: whether its rules apply. ``reason``: why they do not, or how the conditions
    differ where they apply nevertheless.
    """

    path: str
    is_applied: bool
    reason: str

    @property
    def text(self) -> str:
        """A sentence without a period."""
        if not self.is_applied:
            return f"the tuner table {self.path} is not applied: {self.reason}"
        although = f", although {self.reason}" if self.reason else ""
        return f"the tuner table {self.path} is applied{although}"


@dataclass
class PluginLog:
    """The log of one process.

    ``interface_version``: the profiler interface that the library uses, 0 if it loaded no profiler.
    ``library_version``: as NCCL counts (22809), 0 if unknown. ``claimed``: the events that claimed
    one of ``capacity`` places; ``unplaced``: those that claimed none, because the file could not
    grow. ``dropped``: those of both that are lost. ``growth_error``: why the file could not grow,
    an errno, 0 if it could. ``has_lost_parents``: whether events of a profile may lack their
    parents. ``run``: the identity of the run that the process belongs to, empty if unknown.
    ``incomplete``: records that were not written completely, or are cut off; ``cut_off``: the
    latter, behind the end of the file. ``other_plugins``: those that are loaded too. ``table``: of
    the tuner, None without one.
    """

    host: str
    pid: int
    interface_version: int
    library_version: int
    begin_realtime_ns: int
    capacity: int
    claimed: int
    dropped: int
    unplaced: int = 0
    growth_error: int = 0
    has_lost_parents: bool = False
    run: str = ""
    incomplete: int = 0
    cut_off: int = 0
    other_plugins: list[OtherPlugin] = field(default_factory=list)
    table: TunerTable | None = None
    events: list[PluginEvent] = field(default_factory=list)
    cost_tables: list[CostTable] = field(default_factory=list)

    @property
    def places(self) -> int:
        """The places for records that are in use, also of events that could not be written."""
        return min(self.claimed, self.capacity)

    @property
    def occurred(self) -> int:
        """The number of all events, also of those that are lost."""
        return self.claimed + self.unplaced

    @property
    def without_space(self) -> int:
        """How many events are lost because the file could not grow."""
        return max(0, self.dropped - max(0, self.claimed - self.capacity))

    def count_missing(self, behind_end: int) -> None:
        """Completes ``incomplete``, which counts the incomplete records of the file.

        ``behind_end``: the places that the file does not contain. Events that were lost because the
        file could not grow have empty places, which are counted in ``dropped``.
        """
        empty = max(0, self.without_space - self.unplaced)
        self.cut_off = max(0, behind_end - empty)
        self.incomplete = max(0, self.incomplete + behind_end - empty)

    @property
    def is_whole(self) -> bool:
        """Whether the log contains all events."""
        return not (self.dropped or self.incomplete)

    def lost(self, larger: str = "") -> str:
        """Why events are missing and what to do about it, in words; empty if none is missing.

        ``larger``: how to make a log larger, instead of by the variable of the plug-in.
        """
        larger = larger or f"raise CCLMARK_PLUGIN_RECORDS (it was {self.capacity})"
        texts = []
        if full := self.dropped - self.without_space:
            texts.append(f"{full} of {self.occurred} events did not fit: {larger}")
        if self.without_space and not self.growth_error:
            texts.append(
                f"{self.without_space} of {self.occurred} events are lost because the process "
                "called more distinct operations than a profile contains: profile a part of the "
                "program"
            )
        elif self.without_space:
            why = os.strerror(self.growth_error)
            advice = _ADVICE.get(self.growth_error, "set CCLMARK_PLUGIN_LOG to another place")
            texts.append(
                f"{self.without_space} of {self.occurred} events are lost because the log could "
                f"not grow ({why}): {advice}"
            )
        if self.cut_off:
            texts.append(
                f"{self.cut_off} of {self.occurred} events are missing at the end of the file: "
                "copy the log again"
            )
        if unwritten := self.incomplete - self.cut_off:
            texts.append(
                f"{unwritten} of {self.occurred} events are incomplete: the program was "
                "killed while it wrote them, or it still runs (read the log again after its end)"
            )
        return "; ".join(texts)


def plugin_path() -> Path:
    """The plug-in, which NCCL loads from this absolute path. Raises MissingError."""
    engine = find_spec("cclmark._engine")
    if engine is not None and engine.origin is not None:
        path = Path(engine.origin).with_name("libcclmark_plugin.so")
        if path.is_file():
            return path.absolute()
    raise MissingError("the plug-in libcclmark_plugin.so is missing: install cclmark again")


@dataclass
class LogFile:
    """A log that is read in pieces. ``log``: without its events."""

    header: bytes
    log: PluginLog
    _file: BinaryIO

    def pieces(self) -> Iterator[bytes]:
        """The records up to the last place, or the end of the file, in pieces of whole records."""
        left = self.log.places * RECORD_BYTES
        while left > 0 and (piece := self._file.read(min(left, _PIECE_BYTES))):
            left -= len(piece)
            yield piece[: len(piece) // RECORD_BYTES * RECORD_BYTES]


@contextmanager
def open_plugin_log(path: Path) -> Iterator[LogFile]:
    """Opens a log. Raises UsageError if the file cannot be read or is not a log."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # before a pipe would wait for its writer
            raise UsageError(f"{path} is not a regular file, as a log of the plug-in is")
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
            yield LogFile(header, parse_header(header, str(path)), file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def read_plugin_log(path: Path) -> PluginLog:
    """Reads a log. Raises UsageError if the file cannot be read or is not a log."""
    with open_plugin_log(path) as opened:
        return parse_plugin_log(opened.header + b"".join(opened.pieces()), str(path))


def read_open_log(file: int, after: int, name: str) -> PluginLog:
    """Reads the events behind the first ``after`` ones of an open log. ``name`` is for messages.

    Raises UsageError if the file is not a log.
    """
    header = os.pread(file, HEADER_BYTES, 0)
    log = parse_header(header, name)
    wanted = max(0, log.places - after)
    records = os.pread(file, wanted * RECORD_BYTES, HEADER_BYTES + after * RECORD_BYTES)
    return parse_plugin_log(header + records, name, after=after)


def parse_header(content: bytes, name: str) -> PluginLog:
    """The log without its events, from at least its first bytes. ``name`` is for messages.

    Raises UsageError if they do not belong to a log.
    """
    if content[: len(_MAGIC)] != _MAGIC:
        raise UsageError(f"{name} is not a log of cclmark's plug-in")
    if len(content) < _HEADER.size:
        raise UsageError(f"{name}: the log is cut off within its first {_HEADER.size} bytes")
    fields = _HEADER.unpack_from(content)
    _, record_bytes, interface_version, capacity, claimed, dropped, pid = fields[:7]
    realtime_ns, library_version, host = fields[8:]
    unplaced, growth_error, has_lost_parents = 0, 0, 0
    if len(content) >= _LOSSES_AT + _LOSSES.size:
        unplaced, growth_error, has_lost_parents = _LOSSES.unpack_from(content, _LOSSES_AT)
    run = b""
    if len(content) >= _RUN_AT + _RUN.size:
        (run,) = _RUN.unpack_from(content, _RUN_AT)
    is_possible = (
        record_bytes == RECORD_BYTES
        and 0 < capacity <= _MOST_RECORDS
        and min(claimed, dropped) >= 0
        and dropped <= claimed + unplaced
    )
    if not is_possible:
        raise UsageError(f"{name}: the first bytes of the log are damaged: copy the log again")
    return PluginLog(
        host=text_of(host),
        pid=pid,
        interface_version=interface_version,
        library_version=library_version,
        begin_realtime_ns=realtime_ns,
        capacity=capacity,
        claimed=claimed,
        dropped=dropped,
        unplaced=unplaced,
        growth_error=growth_error,
        has_lost_parents=has_lost_parents == 1,
        run=text_of(run),
        other_plugins=list(_other_plugins(content)),
        table=_table(content),
    )


def parse_plugin_log(content: bytes, name: str, *, after: int = 0) -> PluginLog:
    """As read_plugin_log, from bytes that may be cut off anywhere. ``name`` is for messages.

    ``content`` lacks the first ``after`` records.
    """
    log = parse_header(content, name)
    read = 0
    for number in range(after + 1, log.places + 1):
        begin = HEADER_BYTES + read * RECORD_BYTES
        record = content[begin : begin + RECORD_BYTES]
        if len(record) < RECORD_BYTES:
            break
        read += 1
        entry = decode_record(number, record)
        if isinstance(entry, PluginEvent):
            log.events.append(entry)
        elif entry is not None:
            log.cost_tables.append(entry)
        else:
            log.incomplete += 1
    log.count_missing(max(0, log.places - after - read))
    return log


def _other_plugins(content: bytes) -> Iterator[OtherPlugin]:
    """The other plug-ins in a header, which may be cut off or lack them."""
    for place, kind in enumerate(("profiler", "tuner")):
        begin = _HEADER.size + place * _OTHER_PLUGIN.size
        if len(content) < begin + _OTHER_PLUGIN.size:
            return
        version, name, reason = _OTHER_PLUGIN.unpack_from(content, begin)
        if name[:1] != b"\0":
            yield OtherPlugin(kind, text_of(name), version, text_of(reason))


def _table(content: bytes) -> TunerTable | None:
    """The tuner table in a header, which may be cut off or lack it."""
    begin = _HEADER.size + 2 * _OTHER_PLUGIN.size
    if len(content) < begin + _OTHER_PLUGIN.size:
        return None
    is_applied, path, reason = _OTHER_PLUGIN.unpack_from(content, begin)
    return (
        TunerTable(text_of(path), is_applied == 1, text_of(reason)) if path[:1] != b"\0" else None
    )


def decode_record(number: int, record: bytes) -> PluginEvent | CostTable | None:
    """Decodes a record; None for one that is not complete."""
    kind = int.from_bytes(record[:4], sys.byteorder)
    if kind == _COST_TABLE:
        _, _, communicator, time_ns, _, size_bytes, function, *costs_us = _COSTS.unpack(record)
        return CostTable(
            number=number,
            communicator=communicator,
            time_ns=time_ns,
            function=FUNCTIONS[function] if function < len(FUNCTIONS) else "unknown",
            size_bytes=size_bytes,
            costs_us=dict(_available(costs_us)),
        )
    if kind not in KINDS:
        return None
    values = RECORD.unpack(record)
    function, algorithm, protocol, datatype = values[11:]
    if kind == _SYMMETRIC:  # the name of the kernel is in both fields
        algorithm, protocol = algorithm + protocol, b""
    texts = [text_of(value) for value in (function, algorithm, protocol, datatype)]
    return PluginEvent(number, KINDS[kind], *values[1:11], *texts)


def _available(costs_us: list[float]) -> Iterator[tuple[tuple[str, str], float]]:
    for number, cost_us in enumerate(costs_us):
        if 0 <= cost_us < float("inf"):
            algorithm, protocol = divmod(number, len(PROTOCOLS))
            yield (ALGORITHMS[algorithm], PROTOCOLS[protocol]), cost_us


def text_of(field_bytes: bytes) -> str:
    """A text of a record or a header: up to its first zero byte, printable."""
    return plain(field_bytes.split(b"\0", 1)[0].decode(errors="replace"))


_COUNTED = struct.Struct("=Ii24xQ16xiH66x")  # kind, rank, sequence, peer, channels
_NUMBERS = {name: number for number, name in KINDS.items()}
_COLLECTIVE, _MESSAGE = _NUMBERS["collective"], _NUMBERS["point-to-point"]
_STATE = _NUMBERS["state"]


@dataclass
class KernelCount:
    """The kernels of operations, as far as they are reported.

    ``records``: those counted so far. ``channels``: of all operations, except messages of a rank to
    itself, of which NCCL reports no kernels. ``ended``: the kernels that have ended, one for each
    channel.
    """

    records: int = 0
    channels: int = 0
    ended: int = 0

    def add(self, content: bytes) -> None:
        """Counts the records that follow those counted so far, up to one that is incomplete."""
        whole = len(content) // RECORD_BYTES * RECORD_BYTES
        for kind, rank, sequence, peer, channels in _COUNTED.iter_unpack(
            memoryview(content)[:whole]
        ):
            if not kind:
                return
            self.records += 1
            if kind == _COLLECTIVE or (kind == _MESSAGE and peer != rank):
                self.channels += channels
            elif kind == _STATE and sequence == KERNEL_STOP:
                self.ended += 1

    @property
    def is_complete(self) -> bool:
        """Whether the kernels of all operations have ended."""
        return self.ended >= self.channels
