"""Reads what libraries write to standard output about their algorithms.

See plan.library_files.Log. A library that logs each operation also logs much when it is loaded and
when ranks join, so standard output goes to a file in memory for the rest of the process.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable

from cclmark.explain.operation import Operation
from cclmark.plan.libraries import log_of
from cclmark.plan.library_files import Log

_MOST_BYTES = 1 << 22  # of one case
_STANDARD_OUTPUT = 1


class LibraryLog:
    """Standard output of this process; created before a library is loaded."""

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
        return operations_in(text, log)

    def _flush(self) -> None:
        sys.stdout.flush()
        self._c.fflush(None)


def operations_in(text: str, log: Log) -> list[Operation]:
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
