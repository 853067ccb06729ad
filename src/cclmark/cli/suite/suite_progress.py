"""A line at the bottom of a terminal that shows which command of a suite is running."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from pathlib import Path
from typing import TextIO

from cclmark.recording.status_line import StatusLine
from cclmark.document.text import clock_text


class SuiteProgress:
    """Shows the line while a command runs; shows nothing without a terminal."""

    def __init__(self, stream: TextIO, *, hidden: bool) -> None:
        """``hidden``: the terminal shows other output."""
        self._line = StatusLine(stream)
        self._watched = self._line.is_watched and not hidden and not _read_by_a_pager()
        self._began_s = time.monotonic()
        self._words = ""
        self._journal = Path()
        self._lines = 0
        self._read_bytes = 0

    def begin(self, words: str, journal: Path) -> None:
        """``words`` describe the running command; its results appear in ``journal``."""
        self._words, self._journal = words, journal
        self._lines = self._read_bytes = 0

    def show(self) -> None:
        """Shows the progress."""
        if self._watched:
            self._line.show(self.describe())

    def describe(self) -> str:
        """Returns the time since the suite began, the command, and its number of results."""
        with contextlib.suppress(OSError), self._journal.open("rb") as file:
            file.seek(self._read_bytes)
            new = file.read()
            self._read_bytes += len(new)
            self._lines += new.count(b"\n")
        results = max(0, self._lines - 1)  # without the header
        noun = "result" if results == 1 else "results"
        return f"{clock_text(time.monotonic() - self._began_s)}  {self._words}: {results} {noun}"

    def clear(self) -> None:
        """Removes the line before other output is printed."""
        self._line.clear()


def _read_by_a_pager() -> bool:
    """Whether standard output is a pipe, whose reader may own the screen."""
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    return False
