"""The files that ``cclmark trace`` writes: new ones, completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cclmark.errors import OutputError, UsageError
from cclmark.recording.run_files import new_file


def file_for(output: Path | None, name: str, suffix: str) -> Path:
    """Returns ``output``, or a new file in cclmark-runs/. Raises UsageError if it is unwritable."""
    path = output or new_file(name, suffix, "trace", "-O FILE")
    refuse_unwritable(path)
    return path


def refuse_unwritable(path: Path) -> None:
    """Raises UsageError for a file that exists or cannot be created, before anything runs."""
    try:
        path.open("xb").close()
        path.unlink()
    except FileExistsError:
        raise UsageError(f"{path} exists already: choose another file with -O FILE") from None
    except OSError as error:
        raise UsageError(
            f"cannot write the trace {path}: {error.strerror}. Choose another file with -O FILE."
        ) from None


@contextmanager
def written_whole(path: Path, what: str) -> Iterator[IO[bytes]]:
    """A new file that gets its name when it is complete. ``what``: of the file, for a message.

    Raises OutputError if it cannot be written.
    """
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("xb") as file:
            yield file
        partial.rename(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(f"cannot write the {what} {path}: {error.strerror}") from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
