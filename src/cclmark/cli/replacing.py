"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from cclmark.errors import OutputError, UsageError


def replace_file(path: Path, content: bytes) -> None:
    """Writes ``content`` beside ``path`` and moves it there: nobody sees half of it.

    Raises UsageError where ``path`` cannot be written, OutputError when the disk is full or gone;
    what was there before stays then.
    """
    if path.exists() and not path.is_file():
        _write_through(path, content)
        return
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def _write_through(path: Path, content: bytes) -> None:
    """Into what is no file, such as /dev/stdout or a pipe."""
    try:
        path.write_bytes(content)
    except IsADirectoryError:
        raise UsageError(f"cannot write {path}: it is a directory") from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
