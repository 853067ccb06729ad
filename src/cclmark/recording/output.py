"""Where results are printed: the terminal, a pipe, or the file of ``-O``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from cclmark.base.errors import OutputError, UsageError
from cclmark.base.streams import patient_text
from cclmark.document.paint import ansi, unpainted
from cclmark.document.report_kind import View
from cclmark.recording.atomic import (
    STANDARD_OUTPUT,
    fault_of,
    is_special,
    open_special,
    tell_written,
    write_whole,
)
from cclmark.recording.standard_output import StandardOutput


class Output(StandardOutput):
    """Standard output or a file; a file is not modified before the first write."""

    def __init__(self, path: Path | None) -> None:
        """Checks that ``path`` can be written, without changing its content. Raises UsageError.

        A file that is not regular, for example a pipe, is opened here and stays open. None and
        ``-`` are standard output.
        """
        super().__init__()
        self._path = None if path == STANDARD_OUTPUT else path
        if self._path is None:
            return
        if is_special(self._path):
            self._file = patient_text(open_special(self._path))
        else:
            _check(self._path)
            self._file = None

    @property
    def is_terminal(self) -> bool:
        """Whether the output is a user's terminal.

        Under Open MPI's mpirun this is unknown: its processes write to a pseudo-terminal, wherever
        mpirun writes their output.
        """
        by_mpirun = "OMPI_COMM_WORLD_RANK" in os.environ
        return self._path is None and sys.stdout.isatty() and not by_mpirun

    @property
    def takes_colours(self) -> bool:
        """Whether to use colours: on a terminal, unless NO_COLOR is set (no-color.org)."""
        return self.is_terminal and not os.environ.get("NO_COLOR")

    @property
    def terminal_columns(self) -> int | None:
        """The width of the terminal; None without a terminal, or if its width is unknown."""
        if not self.is_terminal:
            return None
        return shutil.get_terminal_size(fallback=(0, 0)).columns or None

    @property
    def view(self) -> View:
        """How texts are written here."""
        paint = ansi if self.takes_colours else unpainted
        return View(paint=paint, columns=self.terminal_columns)

    def write_whole(self, text: str) -> None:
        """Writes the complete output: a file then holds all of it, or its old content.

        Raises and stores failures as ``write`` does.
        """
        if self._file is not None:
            self.write(text)
            return
        assert self._path is not None
        try:
            write_whole(self._path, text.encode(errors="replace"))
        except (OutputError, UsageError) as error:
            self.failure = str(error)

    @property
    def _name(self) -> str:
        return str(self._path or super()._name)

    def _opened(self) -> TextIO:
        assert self._path is not None
        return self._path.open("w", encoding="utf-8", errors="replace")

    def close(self) -> None:
        """Closes a file."""
        if self._path is None or self._file is None:
            return
        try:
            self._file.close()
        except OSError as error:
            self.failure = self.failure or f"cannot write {self._path}: {error.strerror}"


def _check(path: Path) -> None:
    """Raises UsageError if the file cannot be written; leaves no new file behind."""
    try:
        target = path.resolve()
        made = not target.exists()
        target.open("ab").close()
        if made:
            target.unlink()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot write {path}: {fault_of(error)}") from None


def print_out(path: Path | None, text_for: Callable[[Output], Iterable[str]]) -> None:
    """Prints the texts of ``text_for`` to ``path``; to standard output for None and ``-``.

    A file then holds all of it, or its old content. Reports the written file on standard error.
    Raises UsageError, OutputError; UnreadError if the reader of a pipe has exited.
    """
    output = Output(path)
    try:
        if path is None or path == STANDARD_OUTPUT:
            for text in text_for(output):
                output.write(text)
        else:
            output.write_whole("".join(text_for(output)))
    finally:
        output.close()
    if output.failure:
        raise OutputError(output.failure)
    tell_written(path)
