"""Writes the files of artifacts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from cclmark.errors import UsageError
from cclmark.recording.atomic import write_whole


def write_files(directory: Path, files: Mapping[str, str]) -> list[Path]:
    """Writes the files, creating the directory. Raises UsageError, OutputError."""
    made_directory(directory)
    found = []
    for name, text in files.items():
        write_whole(directory / name, text.encode())
        found.append(directory / name)
    return found


def made_directory(directory: Path) -> Path:
    """Creates a directory if it is missing. Raises UsageError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create {directory}: {error.strerror}") from None
    return directory


def remove_if_empty(directory: Path) -> None:
    """Removes a directory, unless it contains files or was never created."""
    with contextlib.suppress(OSError):
        directory.rmdir()
