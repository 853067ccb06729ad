"""Standard streams that may be closed, full, or have a reader that does not read."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import stat
import sys
import time

from cclmark.base.signals import noted

TYPE_CHECKING = False  # importing typing takes longer than all of the above
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer

# A pipe that poll reports as writable accepts this many bytes without blocking (Linux PIPE_BUF).
_CHUNK_BYTES = 4096
_LOOK_MS = 50
_READER_S = 1.0  # the time for a slow reader to read the rest after a signal


class PatientFile(io.FileIO):
    """A file whose reader may stop reading: no write outlasts an ending signal for long."""

    def __init__(self, descriptor: int, *, closes: bool) -> None:
        super().__init__(descriptor, "w", closefd=closes)
        self._waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._terminal = _without_blocking(descriptor) if self.isatty() else None

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes a part; returns its length. Raises OSError, also if a signal has arrived."""
        if not self._waits:
            return super().write(data)
        deadline_s = float("inf")
        while True:
            deadline_s = self._wait_for_room(deadline_s)
            if self._terminal is None:
                return super().write(memoryview(data)[:_CHUNK_BYTES])
            with contextlib.suppress(BlockingIOError):
                return os.write(self._terminal, memoryview(data)[:_CHUNK_BYTES])
            time.sleep(_LOOK_MS / 1000)  # poll reports room for less than the smallest write

    def close(self) -> None:
        """Closes the descriptors that this file owns."""
        terminal, self._terminal = getattr(self, "_terminal", None), None
        if terminal is not None:
            os.close(terminal)
        super().close()

    def _wait_for_room(self, deadline_s: float) -> float:
        """Returns the deadline for the whole write: none before an ending signal has arrived."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        while True:
            room = poll.poll(_LOOK_MS)
            if noted():
                deadline_s = min(deadline_s, time.monotonic() + _READER_S)
            if time.monotonic() > deadline_s:
                raise OSError(errno.ETIMEDOUT, "the reader of the output does not read")
            if room:
                return deadline_s


def _without_blocking(descriptor: int) -> int | None:
    """The same terminal, reopened for non-blocking writes; None if that is not permitted.

    poll reports a terminal as writable if it has room for a few bytes, and the kernel then blocks
    in a longer write. O_NONBLOCK on ``descriptor`` itself would affect every process that shares
    it.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError:
        return None


class OptionalFile(PatientFile):
    """A PatientFile for messages: if they cannot be written, the command continues without them."""

    _reader_stands_still = False

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes a part of ``data``, or discards all of it. Returns the number of bytes handled."""
        try:
            if not self._reader_stands_still:
                return super().write(data)
        except TimeoutError:
            self._reader_stands_still = True
        except OSError:
            pass
        return memoryview(data).nbytes


def patient_text(descriptor: int) -> TextIO:
    """A text file for ``descriptor``, which it owns. See PatientFile."""
    return _text(PatientFile(descriptor, closes=True), "utf-8")


def open_missing_descriptors() -> None:
    """Opens the null device for each of the descriptors 0, 1 and 2 that is closed.

    Otherwise the next files opened would get these numbers, and every child process would use them
    as standard streams.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def prepare_streams() -> None:
    """Replaces standard output and standard error with files that a signal can always interrupt.

    Neither fails for a character that the encoding lacks. Standard error never fails at all.
    """
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        if stream is not None:
            stream.flush()
    sys.stdout = _text(PatientFile(1, closes=False), out.encoding if out else "utf-8")
    sys.stderr = _text(OptionalFile(2, closes=False), err.encoding if err else "utf-8", lines=True)


def _text(file: io.FileIO, encoding: str, *, lines: bool = False) -> TextIO:
    """A text file around ``file``. ``lines``: flushes every line, as on a terminal."""
    lines = lines or file.isatty()
    return io.TextIOWrapper(io.BufferedWriter(file), encoding, "replace", line_buffering=lines)
