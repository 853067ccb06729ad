"""A line at the bottom of a terminal that shows which command of a suite is running."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cclmark.report.wording.text import clock_text

if TYPE_CHECKING:
    from rich.status import Status as Spinner


class SuiteProgress:
    """Shows a spinner while a command runs; shows nothing without a terminal."""

    def __init__(self, stream: TextIO, *, hidden: bool) -> None:
        """``hidden``: the terminal shows other output."""
        self._stream = stream
        self._watched = stream.isatty() and not hidden and not _read_by_a_pager()
        self._began_s = time.monotonic()
        self._spinner: Spinner | None = None
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
        if not self._watched:
            return
        from rich.text import Text

        text = Text(self.describe())  # not a string, in which rich looks for markup
        if self._spinner is None:
            from rich.console import Console

            self._spinner = Console(file=self._stream).status(text)
            self._spinner.start()
        self._spinner.update(text)

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
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None


def _read_by_a_pager() -> bool:
    """Whether standard output is a pipe, whose reader may own the screen."""
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    return False
