"""Atomic file replacement: a concurrent reader finds the new content or the old one, complete."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from cclmark.base.errors import OutputError, UnreadError, UsageError
from cclmark.base.printable import plain
from cclmark.journal.page_journals import file_of

STANDARD_OUTPUT = Path("-")  # as users write it
_READER_S = 10.0  # limit of the wait for the reader of a named pipe
_LOOK_S = 0.02


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
        print(f"cclmark: written {plain(str(path))}", file=sys.stderr)


def print_bytes(content: bytes) -> None:
    """Writes to standard output.

    Raises UnreadError if the reader of a pipe has exited, OutputError for other faults.
    """
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
