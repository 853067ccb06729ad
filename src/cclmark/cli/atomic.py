"""Files that others may read at any time: the new content is there whole, or the old one is."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from cclmark.errors import OutputError, UnreadError, UsageError
from cclmark.report.text import plain

STANDARD_OUTPUT = Path("-")  # as users write it
_READER_S = 10.0  # how long the reader of a named pipe is waited for
_LOOK_S = 0.02


def refuse_to_lose(output: Path | None, inputs: Iterable[Path]) -> None:
    """Raises UsageError where writing to ``output`` would destroy one of ``inputs``.

    Links of either kind are followed. What is no regular file, and ``-``, holds nothing to lose.
    """
    if output is None or output == STANDARD_OUTPUT:
        return
    try:
        same = output.is_file() and any(one.exists() and output.samefile(one) for one in inputs)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    if same:
        raise UsageError(f"{output} is read by this command: it would be lost. Name another file")


def write_whole(path: Path, content: bytes) -> None:
    """Puts ``content`` in the place of what ``path`` holds, in one step; ``-`` is standard output.

    What is no regular file, as a pipe or a device, is written to as it is. Raises UsageError where
    nothing can be written, OutputError when it fails on the way; then the old content stays.
    UnreadError when the reader of a pipe has gone.
    """
    if path == STANDARD_OUTPUT:
        print_bytes(content)
        return
    if is_special(path):
        _write_through(path, content)
        return
    try:
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
    """Says on standard error which file was written, where it is one."""
    if path is not None and path != STANDARD_OUTPUT and path.is_file():
        print(f"cclmark: written {plain(str(path))}", file=sys.stderr)


def print_bytes(content: bytes) -> None:
    """Writes to standard output.

    Raises UnreadError when the reader of a pipe has gone, OutputError for other faults.
    """
    try:
        sys.stdout.flush()
        rest = memoryview(content)
        while rest:  # without a buffer (PYTHONUNBUFFERED) a pipe may take less than all of it
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except OSError as error:
        # Python flushes standard output once more at exit: let it succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise UnreadError from None
        raise OutputError(f"cannot write standard output: {error.strerror}") from None


def fault_of(error: OSError | RuntimeError) -> str:
    """What is wrong with a place; a RuntimeError is of links in a circle, in older Pythons."""
    return getattr(error, "strerror", None) or os.strerror(errno.ELOOP)


def is_special(path: Path) -> bool:
    """Whether there is something that is neither a regular file nor a directory, as a pipe.

    Raises UsageError where that cannot be found out.
    """
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def open_special(path: Path) -> int:
    """Opens what is no regular file and returns the descriptor. Do it once: a pipe's reader leaves
    with the last writer.

    A reader of a named pipe is waited for, and signals end that. Raises UsageError where there is
    none in time, and for what cannot be written.
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
                        f"cannot write {path}: nobody reads that pipe. Start its reader first"
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
    """It can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
