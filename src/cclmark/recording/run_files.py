"""The names of files that the user did not name, in ``cclmark-runs/``."""

from __future__ import annotations

import contextlib
import fcntl
import os
from datetime import datetime, timezone
from pathlib import Path

from cclmark.recording.output import made_directory

_DIRECTORY = Path("cclmark-runs")


def new_journal(name: str) -> Path:
    """Returns an unused path for a journal. Raises UsageError."""
    return new_file(name, ".jsonl", "journal", "--journal FILE")


def new_file(name: str, suffix: str, content: str, option: str) -> Path:
    """Returns an unused path in the directory of runs, which is created.

    ``content``: of the file, and ``option``: which sets another path, for the error. Raises
    UsageError if the directory cannot be created.
    """
    made_directory(_DIRECTORY, f"Choose another place for the {content} with {option}")
    _remove_empty()
    return new_path(name, suffix)


def _remove_empty() -> None:
    """Removes journals of runs that were killed before they had a header."""
    for path in _DIRECTORY.glob("*.jsonl"):
        with contextlib.suppress(OSError):
            if path.stat().st_size or path.is_symlink() or not path.is_file():
                continue
            with path.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held while a run writes it
                if os.fstat(file.fileno()).st_size == 0:
                    path.unlink()


def new_path(name: str, suffix: str = "") -> Path:
    """Returns an unused path in the directory of runs, even among runs of the same second."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return _DIRECTORY / f"{stamp}-{name}-{os.getpid()}{suffix}"
