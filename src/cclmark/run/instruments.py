"""Makes the libraries of this process report what they do: NCCL's plug-ins and log.

The reports go to files in memory, which leave nothing behind when the process is killed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from cclmark.errors import MissingError, UsageError
from cclmark.explain.calls import operations_of
from cclmark.explain.nccl_log import operations_in
from cclmark.explain.operation import Operation
from cclmark.explain.plugin_log import PluginLog, plugin_path, read_open_log
from cclmark.printable import plain

_PROFILER = "NCCL_PROFILER_PLUGIN"
_TUNER = "NCCL_TUNER_PLUGIN"
_NAME = "cclmark plug-in log"
_MOST_RECORDS = 1 << 18
_MOST_LOGGED_BYTES = 1 << 22  # of one case


@dataclass(frozen=True)
class Observation:
    """What this process observed of one operation. See schema.Explanation."""

    source: str
    reason: str
    operations: list[Operation]
    predicted_s: dict[str, float]


class Instruments:
    """The reports of NCCL and libraries with its interface; created before one is loaded."""

    def __init__(self, ranks: int) -> None:
        """Sets the environment variables that the library reads when it is first used."""
        self._ranks = ranks
        self._log_file = os.memfd_create(_NAME)
        self._text_file = os.memfd_create("NCCL's log")
        self._number = 0
        self._logged_bytes = 0
        self._foreign = ""
        os.environ["CCLMARK_PLUGIN_LOG"] = f"fd:{self._log_file}"
        os.environ["CCLMARK_PLUGIN_RECORDS"] = str(_MOST_RECORDS)
        os.environ["CCLMARK_PLUGIN_EVENTS"] = "calls"
        os.environ["NCCL_DEBUG"] = "INFO"
        os.environ["NCCL_DEBUG_SUBSYS"] = "TUNING"
        os.environ["NCCL_DEBUG_FILE"] = f"/proc/{os.getpid()}/fd/{self._text_file}"
        try:
            path = str(plugin_path())
        except MissingError as error:
            self._foreign = str(error)
            return
        if other := os.environ.get(_PROFILER):
            self._foreign = f"another profiler plug-in is set: {_PROFILER}={plain(other)}"
        else:
            os.environ[_PROFILER] = path
        # Another tuner decides: it stays, and then there are no predictions.
        os.environ.setdefault(_TUNER, path)

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
            return Observation("plug-in", _contradiction(found, logged), found, predicted_s)
        if logged:
            return Observation("log", "", logged, predicted_s)
        called = any(one.kind.endswith("call") for one in events)
        return Observation("unknown", self._reason(log, called=called), [], predicted_s)

    def _reason(self, log: PluginLog | None, *, called: bool) -> str:
        """Why nothing is known."""
        if self._foreign:
            return self._foreign
        if log is None or not log.interface_version:
            return "the library loaded no profiler plug-in (NCCL has them since 2.23)"
        if log.dropped:
            return "the log of the plug-in is full"
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


def _contradiction(found: list[Operation], logged: list[Operation]) -> str:
    """How NCCL's log contradicts the plug-in; empty if it does not."""
    chosen = {(one.algorithm, one.protocol) for one in found if one.peer < 0}
    written = {(one.algorithm, one.protocol) for one in logged}
    if not written or written == chosen:
        return ""
    texts = sorted(" ".join(one).strip() for one in written)
    return f"the library's log contains {', '.join(texts)}"
