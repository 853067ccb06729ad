"""Standard output, whose reader may have exited or may not read."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO

from cclmark.base.errors import OutputError, UnreadError


class StandardOutput:
    """Writes text and stores in ``failure`` why text could no longer be written."""

    def __init__(self) -> None:
        self.failure = ""
        self._file: TextIO | None = sys.stdout

    def write(self, text: str) -> None:
        """Writes and flushes. Raises UnreadError if the reader of a pipe has exited.

        Any other failure is stored in ``failure``, and results are still written to the journal.
        """
        if self.failure or not text:
            return
        try:
            if self._file is None:
                self._file = self._opened()
            self._file.write(text)
            self._file.flush()
        except BrokenPipeError:
            gone = UnreadError()
            self._give_up(str(gone))
            raise gone from None
        except OSError as error:
            self._give_up(f"cannot write {self._name}: {error.strerror}")
        except KeyboardInterrupt:
            if self._is_stuck():  # the remaining output would block for ever
                self._give_up("the reader of the output does not read")
            raise

    @property
    def _name(self) -> str:
        """The name of the output in messages."""
        return "standard output"

    def _opened(self) -> TextIO:
        """Returns the file that the first text is written to."""
        return sys.stdout

    def _is_stuck(self) -> bool:
        if self._file is None:
            return False
        poll = select.poll()
        poll.register(self._file.fileno(), select.POLLOUT)
        return not poll.poll(0)

    def _give_up(self, failure: str) -> None:
        self.failure = failure
        if self._file is not None:
            # The remaining buffer is flushed again, at exit at the latest; this lets that succeed.
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._file.fileno())
            os.close(nothing)


def say(text: str) -> None:
    """Prints text outside a run. Raises OutputError if standard output cannot be written."""
    output = StandardOutput()
    output.write(f"{text}\n")
    if output.failure:
        raise OutputError(output.failure)
