"""The files of a trace: the timeline, and the steps next to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cclmark.base.errors import OutputError, UsageError
from cclmark.recording.caller import notice
from cclmark.recording.run_files import new_file
from cclmark.work.sizes import format_size

_SUFFIXES = (".pftrace", ".trace.json", ".json")  # of timelines, longer ones first


def file_for(output: Path | None, name: str, suffix: str) -> Path:
    """Returns ``output``, or a new file in cclmark-runs/. Raises UsageError if it is unwritable."""
    path = output or new_file(name, suffix, "trace", "-O FILE")
    refuse_unwritable(path)
    return path


def steps_path(trace_path: Path) -> Path:
    """Returns the file of the steps next to the trace. Raises UsageError if it is unwritable."""
    name = trace_path.name
    suffix = next((one for one in _SUFFIXES if name.endswith(one) and name != one), "")
    path = trace_path.with_name(f"{name.removesuffix(suffix)}.steps.csv")
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


def write_steps(path: Path, lines: Iterable[str]) -> None:
    """Writes the file of the steps and reports its size. Raises OutputError."""
    with written_whole(path, "steps") as file:
        for line in lines:
            file.write(line.encode())
    notice(f"steps {path} ({format_size(path.stat().st_size)})", is_whole=True)
