"""Makes the libraries of this process report what they do: NCCL's plug-ins, and logs.

The reports go to files in memory, which leave nothing behind when the process is killed.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Collection, Iterable

from cclmark.base.errors import MissingError, UsageError
from cclmark.base.printable import plain
from cclmark.explain.calls import operations_of
from cclmark.explain.chaining import TABLE_VARIABLE, chained, is_own_tuner
from cclmark.explain.nccl_log import SUBSYSTEMS, has_registration, operations_in, paths_in
from cclmark.explain.operation import COPY_ENGINE, Operation
from cclmark.explain.paths import RankPaths
from cclmark.explain.plugin_log import (
    DEVICE_TIME_AT,
    HEADER_BYTES,
    KERNEL_CHANNEL,
    KERNELS_SINCE,
    RECORD_BYTES,
    KernelCount,
    PluginEvent,
    PluginLog,
    parse_plugin_log,
    plugin_path,
    read_open_log,
)
from cclmark.rendezvous.messages import Observation
from cclmark.work.libraries import MPI, log_of
from cclmark.work.library_files import Log

_MOST_BYTES = 1 << 22  # of the log of one case
_STANDARD_OUTPUT = 1


class LibraryLog:
    """Standard output of this process, where libraries log; created before a library is loaded.

    See work.library_files.Log. A library that logs each operation also logs much when it is loaded
    and when ranks join, so standard output goes to a file in memory for the rest of the process.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Sets the environment variables that make the libraries ``names`` log.

        If one of them logs, standard output goes to a file in memory from now on.
        """
        self._c = ctypes.CDLL(None)
        self._file = os.memfd_create("standard output")
        logs = [log for log in map(log_of, names) if log.pattern]
        for log in logs:
            os.environ.update(log.environment)
        if logs:
            self._flush()
            os.dup2(self._file, _STANDARD_OUTPUT)

    def begin(self) -> None:
        """Discards what was logged so far."""
        self._flush()
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)

    def operations(self, log: Log) -> list[Operation]:
        """The operations that were logged since ``begin``."""
        self._flush()
        text = os.pread(self._file, _MOST_BYTES, 0).decode(errors="replace")
        return operations_of_log(text, log)

    def _flush(self) -> None:
        sys.stdout.flush()
        self._c.fflush(None)


def operations_of_log(text: str, log: Log) -> list[Operation]:
    """The operations in lines that match the pattern of ``log``, in their order."""
    pattern = re.compile(log.pattern)
    return [_operation(found) for line in text.splitlines() if (found := pattern.search(line))]


def _operation(found: re.Match[str]) -> Operation:
    groups = {name: text or "" for name, text in found.groupdict().items()}
    algorithm = groups["algorithm"]
    channels = groups.get("channels", "")
    return Operation(
        function=groups.get("function", ""),
        datatype="",
        count=0,
        peer=-1,
        kernel=groups.get("kernel") or algorithm.replace("_", " "),
        algorithm=algorithm,
        protocol=groups.get("protocol", ""),
        channels=int(channels) if channels.isdecimal() else 0,
    )


_DESTINATION = "OPAL_OUTPUT_STDERR_FD"
_VERBOSITY = "OMPI_MCA_coll_base_verbose"
_MOST_REPORTED_BYTES = 1 << 20
_COMMUNICATOR = re.compile(r"comm_select: new communicator: (\S+)")
_SELECTED = re.compile(r"comm_select: selecting +(\w+), priority +(\d+), Enabled")


class OpenMpiLog:
    """The messages of Open MPI in this process; created before it starts."""

    def __init__(self) -> None:
        """Sets the environment variables that Open MPI reads when it starts."""
        self._file = os.memfd_create("Open MPI's messages")
        os.environ[_DESTINATION] = str(self._file)
        os.environ[_VERBOSITY] = "10"

    def components(self) -> list[str]:
        """The components of MPI_COMM_WORLD, the highest priority first; empty for another MPI."""
        text = os.pread(self._file, _MOST_REPORTED_BYTES, 0).decode(errors="replace")
        return components_in(text)


def components_in(text: str) -> list[str]:
    """As OpenMpiLog.components, from the lines of the messages."""
    found: list[tuple[int, str]] = []
    of_world = False
    for line in text.splitlines():
        if began := _COMMUNICATOR.search(line):
            of_world = began[1] == "MPI_COMM_WORLD"
        elif of_world and (selected := _SELECTED.search(line)):
            found.append((int(selected[2]), selected[1]))
    return [name for _, name in sorted(found, key=lambda one: -one[0])]


def log_failure() -> str:
    """Why the plug-in has no log; empty if it has one, or if no library loaded it."""
    try:
        loaded = ctypes.CDLL(str(plugin_path()), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except (MissingError, OSError):
        return ""
    loaded.cclmark_plugin_failure.restype = ctypes.c_char_p
    return plain(loaded.cclmark_plugin_failure().decode(errors="replace"))


_SET_HERE = (
    *("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"),
    *("NCCL_PROFILER_PLUGIN", "NCCL_TUNER_PLUGIN"),
)
_NAME = "cclmark plug-in log"
_MOST_RECORDS = 1 << 18
_MOST_STEPS = 1 << 23  # 1 GiB: 10,000 operations on 32 channels; only what is used takes memory
_SETTLED_S = 0.002  # without an event: the library's threads have reported all
_MOST_LOGGED_BYTES = 1 << 22  # of one case
_MOST_CONNECTING_BYTES = 1 << 26  # of one library: with many ranks, each channel is a line


class Instruments:
    """The reports of NCCL and libraries with its interface; created before one is loaded."""

    def __init__(self, ranks: int, libraries: Collection[str], *, steps: bool = False) -> None:
        """Sets the environment variables that ``libraries`` read when they are first used.

        ``steps``: kernels and network steps of NCCL are reported too, in a larger log, and nothing
        is logged for each operation.
        """
        self.library_log = LibraryLog([] if steps else libraries)
        self.open_mpi_log = OpenMpiLog() if MPI in libraries else None
        self._ranks = ranks
        self._log_file = os.memfd_create(_NAME)
        self._text_file = os.memfd_create("NCCL's log")
        # FlagCX would overwrite the lines of the NCCL below it in the same file.
        self._flagcx_file = os.memfd_create("FlagCX's log")
        self._number = 0
        self._kernels = KernelCount()
        #: After so many seconds kernels were not awaited any longer, 0 while they are awaited.
        self.awaited_s = 0.0
        self._logged_bytes = 0
        self._paths_begin = {self._text_file: 0, self._flagcx_file: 0}
        self._missing = ""
        os.environ["CCLMARK_PLUGIN_LOG"] = f"fd:{self._log_file}"
        os.environ["CCLMARK_PLUGIN_RECORDS"] = str(_MOST_STEPS if steps else _MOST_RECORDS)
        os.environ["CCLMARK_PLUGIN_EVENTS"] = "steps" if steps else "calls"
        os.environ["NCCL_DEBUG"] = "INFO"
        subsystems = SUBSYSTEMS if steps else ("TUNING", "REG", *SUBSYSTEMS)
        os.environ["NCCL_DEBUG_SUBSYS"] = ",".join(subsystems)
        os.environ["NCCL_DEBUG_FILE"] = f"/proc/{os.getpid()}/fd/{self._text_file}"
        os.environ["FLAGCX_DEBUG"] = "INFO"
        os.environ["FLAGCX_DEBUG_SUBSYS"] = "INIT"
        os.environ["FLAGCX_DEBUG_FILE"] = f"/proc/{os.getpid()}/fd/{self._flagcx_file}"
        try:
            if not is_own_tuner(os.environ, plugin_path()):
                os.environ.pop(TABLE_VARIABLE, None)  # the timed pass had no table
            os.environ.update(chained(os.environ, plugin_path()))
        except MissingError as error:
            self._missing = str(error)

    def begin(self) -> None:
        """Discards what was reported so far."""
        log = self._read()
        self._number = 0 if log is None else log.places
        self._logged_bytes = os.fstat(self._text_file).st_size

    def observation(self) -> Observation:
        """What was reported since ``begin``."""
        log = self._read()
        events = [] if log is None else log.events
        found = operations_of(events)
        logged = operations_in(self._new_text())
        tables = [] if log is None else log.cost_tables
        predicted_s = {
            " ".join(choice): cost_us * 1e-6
            for table in tables
            for choice, cost_us in table.costs_us.items()
        }
        if found:
            reason = _contradiction(found, logged) or _not_applied(log)
            return Observation("plug-in", reason, found, predicted_s, _rule(log))
        called = any(one.kind.endswith("call") for one in events)
        is_loaded = (log is not None and log.interface_version > 0) or bool(log_failure())
        # With one rank the library copies without a kernel that it reports.
        is_silent = is_loaded and not called and self._ranks > 1
        if logged:
            reason, rule = _not_applied(log), _rule(log)
            return Observation("log", reason, logged, predicted_s, rule, is_silent)
        reason = self._reason(log, called=called)
        return Observation("unknown", reason, [], predicted_s, is_silent=is_silent)

    def has_registered(self) -> bool:
        """Whether NCCL's log since ``begin`` contains a registration of buffers."""
        return has_registration(self._new_text())

    def log(self) -> tuple[bytes, str]:
        """The plug-in's log without the records before ``begin``; empty with the reason."""
        header = self._header()
        if header is None or not header.interface_version:
            return b"", self._reason(header, called=False)
        return os.pread(self._log_file, HEADER_BYTES, 0) + self._records_after(self._number), ""

    def settle(self, most_s: float) -> None:
        """Waits until the library reports no more events, and has reported the ends of all kernels.

        Its threads do so after the kernels. At most ``most_s``: kernels that the library has not
        reported by then are not awaited again, see ``awaited_s``.
        """
        deadline = time.monotonic() + most_s
        places = -1
        while time.monotonic() < deadline:
            header = self._header()
            if header is None:
                return
            self._kernels.add(self._records_after(self._kernels.records))
            awaits = not self.awaited_s and header.interface_version >= KERNELS_SINCE
            is_complete = header.dropped or self._kernels.is_complete or not awaits
            if header.places == places and is_complete:
                return
            places = header.places
            time.sleep(_SETTLED_S)
        self.awaited_s = self.awaited_s or most_s

    @property
    def first_record(self) -> int:
        """The number of records before ``begin``."""
        return self._number

    def has_kernels(self) -> bool:
        """Whether kernels were reported since ``begin``, with times of the device's clock."""
        records = self._records_after(self._number)
        kind = KERNEL_CHANNEL.to_bytes(4, sys.byteorder)
        return any(
            records[at : at + 4] == kind
            and any(records[at + DEVICE_TIME_AT : at + DEVICE_TIME_AT + 8])
            for at in range(0, len(records), RECORD_BYTES)
        )

    def _header(self) -> PluginLog | None:
        """The log without its events, None if the plug-in was not loaded."""
        if os.fstat(self._log_file).st_size == 0:
            return None
        content = os.pread(self._log_file, HEADER_BYTES, 0)
        try:
            return parse_plugin_log(content, _NAME, after=1 << 62)
        except UsageError:
            return None

    def _records_after(self, number: int) -> bytes:
        """The records behind the first ``number`` ones."""
        header = self._header()
        if header is None:
            return b""
        begin = HEADER_BYTES + number * RECORD_BYTES
        end = HEADER_BYTES + header.places * RECORD_BYTES
        pieces = []
        while begin < end and (piece := os.pread(self._log_file, end - begin, begin)):
            pieces.append(piece)
            begin += len(piece)
        return b"".join(pieces)

    def paths(self) -> RankPaths:
        """What libraries logged about its connections since the last call."""
        content = b""
        for file, begin in self._paths_begin.items():
            self._paths_begin[file] = os.fstat(file).st_size
            content += os.pread(file, _MOST_CONNECTING_BYTES, begin) + b"\n"
        paths = paths_in(content.decode(errors="replace"))
        for name in _SET_HERE:
            paths.parameters.pop(name, None)
        return paths

    def _reason(self, log: PluginLog | None, *, called: bool) -> str:
        """Why nothing is known."""
        if self._missing:
            return self._missing
        if log is None or not log.interface_version:
            return _absence()
        if log.dropped:
            return _loss(log)
        if self._ranks == 1:
            return "with one rank the library copies without a kernel that it reports"
        if called:
            return "the library reported the call, but no kernel for it"
        return "the library reported no event, although it ran the operation"

    def _read(self) -> PluginLog | None:
        if os.fstat(self._log_file).st_size == 0:
            return None  # not loaded
        try:
            return read_open_log(self._log_file, self._number, _NAME)
        except UsageError:
            return None

    def _new_text(self) -> str:
        content = os.pread(self._text_file, _MOST_LOGGED_BYTES, self._logged_bytes)
        return content.decode(errors="replace")


def _absence() -> str:
    """Why there is no log of the plug-in."""
    if failure := log_failure():
        return f"the library loaded the profiler plug-in, which records nothing: {failure}"
    return "the library loaded no profiler plug-in (NCCL has them since 2.23)"


def _loss(log: PluginLog) -> str:
    """Why events are missing in the log in memory, in which the user sets nothing."""
    if log.without_space:
        return f"the log of the plug-in could not grow: {os.strerror(log.growth_error)}"
    return "the log of the plug-in is full"


def _not_applied(log: PluginLog | None) -> str:
    """Plug-ins, tables and rules without the effect that the user expects."""
    if log is None:
        return ""
    found = [one.text for one in log.other_plugins if one.reason]
    if log.table is not None and log.table.reason:
        found.append(log.table.text)
    found += [
        f"{_place(log, one)} is not applied: {one.algorithm} {one.protocol} is not available"
        for one in _rules(log, is_applied=False)
    ]
    return "; ".join(dict.fromkeys(found))


def _rule(log: PluginLog | None) -> str:
    """The rules of the tuner table that decided; empty if none did."""
    if log is None:
        return ""
    return ", ".join(dict.fromkeys(_place(log, one) for one in _rules(log, is_applied=True)))


def _rules(log: PluginLog, *, is_applied: bool) -> list[PluginEvent]:
    return [one for one in log.events if one.kind == "tuner rule" and bool(one.root) == is_applied]


def _place(log: PluginLog, rule: PluginEvent) -> str:
    path = "the tuner table" if log.table is None else log.table.path
    return f"line {rule.sequence} of {path}"


def _contradiction(found: list[Operation], logged: list[Operation]) -> str:
    """How NCCL's log contradicts the plug-in; empty if it does not."""
    chosen = {_named(one) for one in found if one.peer < 0}
    written = {_named(one) for one in logged}
    if not written or written == chosen:
        return ""
    texts = sorted(" ".join(one).strip() for one in written)
    return f"the library's log contains {', '.join(texts)}"


def _named(one: Operation) -> tuple[str, str]:
    """Algorithm and protocol. Of copies, only the log contains a name: that of CUDA's function."""
    is_copied = one.kernel == COPY_ENGINE
    return (COPY_ENGINE, "") if is_copied else (one.algorithm, one.protocol)
