"""A line at the bottom of a terminal that is replaced while something is under way."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TextIO

from cclmark.printable import plain

_ERASE = "\r\x1b[K"
_DUMB = ("", "dumb", "unknown")  # values of TERM: terminals that obey no control sequences


class StatusLine:
    """The line on ``stream``. Shows nothing on a stream that is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_watched = stream.isatty() and os.environ.get("TERM", "") not in _DUMB
        self._shown = ""

    def show(self, text: str) -> None:
        """Replaces the line by ``text``, cut to the width of the terminal."""
        if not self.is_watched:
            return
        width = shutil.get_terminal_size().columns - 1  # a full line would begin another
        text = plain(text)[:width]
        if text != self._shown:
            self._write(_ERASE + text)
            self._shown = text

    def clear(self) -> None:
        """Removes the line before other output is printed."""
        if self._shown:
            self._write(_ERASE)
            self._shown = ""

    def _write(self, text: str) -> None:
        # A terminal that has gone ends the run elsewhere.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()
