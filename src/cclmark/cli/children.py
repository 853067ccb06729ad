"""Runs commands of cclmark as processes of their own, one after the other."""

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
_GRACE_S = 30.0  # for a command to end its ranks and to keep its results
# Becomes the command and ends with this process: kept over exec.
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
    """Runs one command at a time. Signals that ask this process to end are passed on to it."""

    def __init__(self) -> None:
        on_ending_signals(note)

    @property
    def interrupted(self) -> bool:
        """Whether this process was asked to end: nothing more is to be begun."""
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
        """Runs ``cclmark`` with ``arguments`` to its end, and calls ``watch`` now and then.

        What it prints goes to the file ``printed``, or to standard error where that is None; what
        it says on its standard error to ``said``, as far as there is room. Under a launcher,
        children of the same ``step`` find each other. Raises OutputError where they cannot be made,
        MissingError where no process can be started.
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
                    # Ctrl-C at a terminal would reach it twice: from there, and from here.
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
        """Waits until it is gone. True where that took too long, and it was ended for that."""
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
                return timed_out  # in the kernel's hands: not even that ends it
            if now_s > last_s:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            watch()


class _Spoken:
    """What a command says: in memory, so that it can say that a disk is full, and in a file."""

    def __init__(self, path: Path) -> None:
        """Raises OutputError where the file cannot be made."""
        self._file = _created(path)
        self.descriptor = os.memfd_create("cclmark-said")
        self._kept = 0

    def keep(self) -> str:
        """All of it. What is new goes to the file, too, if that takes it."""
        words = os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)
        with contextlib.suppress(OSError):
            self._file.write(words[self._kept :])
        self._kept = len(words)
        return words.decode(errors="replace")

    def close(self) -> None:
        """Closes both."""
        self._file.close()
        os.close(self.descriptor)


def _created(path: Path) -> IO[bytes]:
    """Raises OutputError where there is such a file, or none can be made."""
    try:
        return path.open("xb", buffering=0)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
