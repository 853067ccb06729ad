"""Where results are printed: the terminal, a pipe, or the file of ``-O``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from cclmark.cli.atomic import STANDARD_OUTPUT, tell_written
from cclmark.errors import OutputError, UsageError


class Output:
    """Standard output or a file. A file is first touched when there is something to write."""

    def __init__(self, path: Path | None) -> None:
        """Checks that ``path`` can be written, leaving what it holds. Raises UsageError if not.

        None and ``-`` are standard output.
        """
        if path == STANDARD_OUTPUT:
            path = None
        self._path = path
        self._file: TextIO | None = sys.stdout if path is None else None
        self._made = False
        self.failure = ""
        if path is not None:
            self._made = not path.exists()
            try:
                path.open("a").close()
            except OSError as error:
                raise UsageError(f"cannot write {path}: {error.strerror}") from None

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it.

        Under Open MPI's mpirun that is unknown: its processes write to a terminal of their own,
        wherever it writes what they say.
        """
        by_mpirun = "OMPI_COMM_WORLD_RANK" in os.environ
        return self._path is None and sys.stdout.isatty() and not by_mpirun

    @property
    def takes_colours(self) -> bool:
        """Whether to paint: on a terminal, unless NO_COLOR is set (no-color.org)."""
        return self.is_terminal and not os.environ.get("NO_COLOR")

    @property
    def terminal_columns(self) -> int | None:
        """How wide the terminal is; None where there is none, or none that says so."""
        if not self.is_terminal:
            return None
        return shutil.get_terminal_size(fallback=(0, 0)).columns or None

    def write(self, text: str) -> None:
        """Writes and flushes. Raises KeyboardInterrupt when the reader of a pipe has gone.

        Any other failure is kept in ``failure``: what is measured still goes to the journal.
        """
        if self.failure or not text:
            return
        try:
            if self._file is None:
                assert self._path is not None
                self._file = self._path.open("w")
            self._file.write(text)
            self._file.flush()
        except BrokenPipeError:
            self._give_up("nobody reads the output any more")
            raise KeyboardInterrupt(self.failure) from None
        except OSError as error:
            self._give_up(f"cannot write {self._path or 'standard output'}: {error.strerror}")

    def _give_up(self, failure: str) -> None:
        self.failure = failure
        if self._path is None:
            # Python flushes standard output once more at exit: let it succeed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def close(self) -> None:
        """Closes a file; one that was made and never written to is taken away again."""
        if self._path is None:
            return
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self.failure = f"cannot write {self._path}: {error.strerror}"
        elif self._made:
            self._path.unlink(missing_ok=True)


def print_out(path: Path | None, text_for: Callable[[Output], Iterable[str]]) -> None:
    """Prints what ``text_for`` gives to ``path``; to standard output for none and ``-``.

    Says on standard error which file was written. Raises UsageError, OutputError.
    """
    output = Output(path)
    try:
        for text in text_for(output):
            output.write(text)
    finally:
        output.close()
    if output.failure:
        raise OutputError(output.failure)
    tell_written(path)


def say(text: str) -> None:
    """Prints an answer that is no run's. Raises OutputError when standard output cannot take it."""
    output = Output(None)
    output.write(f"{text}\n")
    if output.failure:
        raise OutputError(output.failure)
