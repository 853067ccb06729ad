"""Where results are printed and written: the terminal, a pipe, the file of ``-O``.

A file is replaced in one step: a concurrent reader finds the new content or the old one, complete.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cclmark.base.errors import OutputError, UnreadError, UsageError
from cclmark.base.printable import plain
from cclmark.base.standard_error import columns_of_lines, folded
from cclmark.base.streams import patient_text
from cclmark.document.paint import ansi, unpainted
from cclmark.document.report_kind import View
from cclmark.journal.page_journals import file_of
from cclmark.recording.caller import notice
from cclmark.recording.standard_output import StandardOutput

if TYPE_CHECKING:
    from cclmark.references.reference import Reference

STANDARD_OUTPUT = Path("-")  # as users write it
_READER_S = 10.0  # limit of the wait for the reader of a named pipe
_LOOK_S = 0.02


class Output(StandardOutput):
    """Standard output or a file; a file is not modified before the first write."""

    def __init__(self, path: Path | None, *, is_wide: bool = False) -> None:
        """Checks that ``path`` can be written, without changing its content. Raises UsageError.

        A file that is not regular, for example a pipe, is opened here and stays open. None and
        ``-`` are standard output. ``is_wide``: lines may have any length.
        """
        super().__init__()
        self._is_wide = is_wide
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
    def columns(self) -> int | None:
        """The characters of a line, None for any number."""
        return columns_of_lines(is_terminal=self.is_terminal, is_wide=self._is_wide)

    @property
    def view(self) -> View:
        """How texts are written here."""
        paint = ansi if self.takes_colours else unpainted
        return View(paint=paint, columns=self.columns)

    def write_whole(self, text: str) -> None:
        """Writes all of the output or leaves a file as it was. Fails as ``write`` does."""
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


def print_out(
    path: Path | None, text_for: Callable[[Output], Iterable[str]], *, is_wide: bool = False
) -> None:
    """Prints the texts of ``text_for`` to ``path``; to standard output for None and ``-``.

    A file then holds all of it, or its old content. Reports the written file on standard error.
    ``is_wide``: see Output. Raises UsageError, OutputError; UnreadError if the reader of a pipe has
    exited.
    """
    output = Output(path, is_wide=is_wide)
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


def refuse_to_lose(output: Path | None, inputs: Iterable[Path]) -> None:
    """Raises UsageError where writing to ``output`` would destroy one of ``inputs``.

    Links of either kind are followed. ``-`` and files that are not regular have no content to lose.
    An input may be ``PAGE#RUN``.
    """
    if output is None or output == STANDARD_OUTPUT:
        return
    try:
        same = output.is_file() and any(
            one.exists() and output.samefile(one) for one in map(file_of, inputs)
        )
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    if same:
        raise UsageError(
            f"{output} is an input of this command and would be overwritten. Use another file"
        )


def write_whole(path: Path, content: bytes) -> None:
    """Replaces the content of ``path`` in one step; ``-`` is standard output.

    Pipes, devices and other special files are written directly. Raises UsageError if ``path`` is
    not writable, OutputError if the write fails, in which case the old content remains, and
    UnreadError if the reader of a pipe has exited.
    """
    if path == STANDARD_OUTPUT:
        print_bytes(content)
        return
    if is_special(path):
        _write_through(path, content)
        return
    try:
        import tempfile  # imports many modules, which printing does not require

        target = path.resolve() if path.is_symlink() else path
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot write {path}: {fault_of(error)}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException as error:
        with suppress(OSError):
            Path(name).unlink()
        if isinstance(error, OSError):
            raise OutputError(f"cannot write {path}: {error.strerror}") from None
        raise


def tell_written(path: Path | None) -> None:
    """Reports the written file on standard error if ``path`` is a regular file."""
    if path is not None and path != STANDARD_OUTPUT and path.is_file():
        notice(f"written {plain(str(path))}", is_whole=True)


def print_lines(lines: Iterable[str]) -> None:
    """Writes lines to standard output, as Output does, and folds long ones."""
    output = Output(None)
    try:
        output.write("".join(f"{folded(line, output.columns)}\n" for line in lines))
    finally:
        output.close()


def print_bytes(content: bytes) -> None:
    """Writes to standard output. Raises UnreadError for a closed pipe, or OutputError."""
    try:
        sys.stdout.flush()
        rest = memoryview(content)
        while rest:  # unbuffered (PYTHONUNBUFFERED), a write to a pipe may be partial
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except OSError as error:
        # Python flushes standard output again at exit; this lets that flush succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise UnreadError from None
        raise OutputError(f"cannot write standard output: {error.strerror}") from None


def fault_of(error: OSError | RuntimeError) -> str:
    """Returns a path error's reason; older Pythons raise RuntimeError for a loop of links."""
    return getattr(error, "strerror", None) or os.strerror(errno.ELOOP)


def is_special(path: Path) -> bool:
    """Whether ``path`` exists and is neither a regular file nor a directory, for example a pipe.

    Raises UsageError if this cannot be determined.
    """
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def open_special(path: Path) -> int:
    """Opens a file that is not regular and returns the descriptor.

    Must be called once only: a pipe's reader exits with the last writer. Waits for a reader of a
    named pipe; signals interrupt the wait. Raises UsageError if no reader opens the pipe in time or
    the file is not writable.
    """
    deadline_s = time.monotonic() + _READER_S
    try:
        while True:
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                break
            except OSError as error:
                if error.errno != errno.ENXIO or not path.is_fifo():
                    raise
                if time.monotonic() > deadline_s:
                    raise UsageError(
                        f"cannot write {path}: no process reads this pipe. Start its reader first"
                    ) from None
            time.sleep(_LOOK_S)
        os.set_blocking(descriptor, True)
        return descriptor
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _write_through(path: Path, content: bytes) -> None:
    with os.fdopen(open_special(path), "wb", buffering=0) as file:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) or 0 :]
        except BrokenPipeError:
            raise UnreadError from None
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}") from None


def _umask() -> int:
    """Returns the process's umask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def made_directory(directory: Path, remedy: str = "") -> Path:
    """Creates a directory if it is missing. Raises UsageError, with ``remedy`` at its end."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        more = f". {remedy}" if remedy else ""
        raise UsageError(f"cannot create {directory}: {error.strerror}{more}") from None
    return directory


def usual_references(kinds: Collection[str]) -> list[Reference]:
    """Returns the references of these device kinds, for commands without references of their own.

    If the user's files cannot be read, reports that and returns the others: a broken file must not
    make such a command fail.
    """
    from cclmark.references.reference_store import load_references, shipped_references

    try:
        return load_references(kinds=kinds)
    except UsageError as error:
        notice(f"your references are not used: {plain(str(error))}")
        return shipped_references(kinds)


def write_files(directory: Path, files: Mapping[str, str]) -> list[Path]:
    """Writes the files, creating the directory. Raises UsageError, OutputError."""
    made_directory(directory)
    found = []
    for name, text in files.items():
        write_whole(directory / name, text.encode())
        found.append(directory / name)
    return found


def remove_if_empty(directory: Path) -> None:
    """Removes a directory, unless it contains files or was never created."""
    with suppress(OSError):
        directory.rmdir()
