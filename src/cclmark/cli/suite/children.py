"""Runs cclmark commands as child processes, one after the other."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cclmark.errors import MissingError, OutputError
from cclmark.signals import note, noted, on_ending_signals

_LOOK_S = 0.1
_GRACE_S = 30.0  # for a command to end its ranks and to store its results
# Replaced by the command through exec; the parent-death signal set here survives exec.
_STARTER = (
    "import os, signal, sys; from cclmark import _engine; "
    "_engine.die_with_parent(int(sys.argv[1]), signal.SIGTERM); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``exit_code`` is negative for a signal; ``said``: its standard error."""

    exit_code: int
    said: str
    timed_out: bool


class Children:
    """Runs one command at a time and forwards termination signals to it."""

    def __init__(self) -> None:
        on_ending_signals(note)

    @property
    def interrupted(self) -> bool:
        """Whether this process received a termination signal: no further command is started."""
        return bool(noted())

    def run(
        self,
        arguments: Sequence[str],
        *,
        printed: Path | None,
        said: Path,
        timeout_s: float,
        watch: Callable[[], None],
        step: int,
    ) -> Ended:
        """Runs ``cclmark`` with ``arguments`` to completion and calls ``watch`` periodically.

        Standard output goes to the file ``printed``, or to standard error if that is None;
        standard error goes to ``said`` as far as disk space permits. Under a launcher, children
        with the same ``step`` connect to each other. Raises OutputError if the files cannot be
        created, MissingError if no process can be started.
        """
        began_s = time.monotonic()
        command = [sys.executable, "-c", _STARTER, str(os.getpid()), "-m", "cclmark", *arguments]
        with contextlib.ExitStack() as stack:
            spoken = stack.enter_context(contextlib.closing(_Spoken(said)))
            output = sys.stderr if printed is None else stack.enter_context(_created(printed))
            sys.stderr.flush()
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=spoken.descriptor,
                    # Otherwise Ctrl-C would reach the child twice: from the terminal and from here.
                    start_new_session=True,
                    env={**os.environ, "CCLMARK_STEP": str(step)},
                )
            except OSError as error:
                raise MissingError(f"cannot start a process: {error.strerror}") from None

            def look() -> None:
                spoken.keep()
                watch()

            timed_out = self._wait(process, began_s + timeout_s, look)
            words = spoken.keep()
        code = -signal.SIGKILL if process.returncode is None else process.returncode
        return Ended(code, words, timed_out)

    def _wait(
        self, process: subprocess.Popen[bytes], deadline_s: float, watch: Callable[[], None]
    ) -> bool:
        """Waits until the process has exited; True if it timed out and was terminated."""
        timed_out, passed_on, last_s = False, 0, float("inf")
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
                return timed_out
            now_s = time.monotonic()
            arrived = noted()
            for number in arrived[passed_on:]:
                process.send_signal(number)
                last_s = min(last_s, now_s + _GRACE_S)
            passed_on = len(arrived)
            if now_s > deadline_s and last_s == float("inf"):
                timed_out, last_s = True, now_s + _GRACE_S
                process.terminate()
            if now_s > last_s + _GRACE_S:
                return timed_out  # blocked in the kernel, where even SIGKILL has no effect
            if now_s > last_s:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            watch()


class _Spoken:
    """A command's standard error: in memory, so that a full disk can be reported, and in a file."""

    def __init__(self, path: Path) -> None:
        """Raises OutputError if the file cannot be created."""
        self._file = _created(path)
        self.descriptor = os.memfd_create("cclmark-said")
        self._kept = 0

    def keep(self) -> str:
        """Returns the complete text, and appends the new part to the file if it can be written."""
        words = os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)
        with contextlib.suppress(OSError):
            self._file.write(words[self._kept :])
        self._kept = len(words)
        return words.decode(errors="replace")

    def close(self) -> None:
        """Closes the file and the memory."""
        self._file.close()
        os.close(self.descriptor)


def _created(path: Path) -> IO[bytes]:
    """Creates ``path``. Raises OutputError if it exists or cannot be created."""
    try:
        return path.open("xb", buffering=0)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
