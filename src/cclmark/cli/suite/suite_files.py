"""Finds suites and manages the directories of their results."""

from __future__ import annotations

import re
from pathlib import Path

from cclmark.errors import UsageError
from cclmark.plan.suites import Suite, SuiteCommand, parse_suite
from cclmark.plan.thresholds import meant
from cclmark.recording.run_files import new_path
from cclmark.shipped_files import shipped_toml_files

_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_STEM = 60


def shipped_suites() -> dict[str, Suite]:
    """Returns the suites shipped with cclmark, by name."""
    found = {}
    for path in shipped_toml_files("suites"):
        suite = parse_suite(path.read_bytes(), path.name, Path())
        found[suite.name] = suite
    return found


def read_suite(name: str) -> Suite:
    """Reads the shipped suite of that name, else the file. Raises UsageError if neither exists."""
    shipped = shipped_suites()
    if name in shipped:
        return shipped[name]
    path = Path(name)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"no file and no suite has the name {name!r}{meant(name, shipped)} The suites of "
            f"cclmark are {', '.join(shipped)}."
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {name!r}: {error}") from None
    return parse_suite(content, name, path.parent)


class SuiteDirectory:
    """The directory with a journal of every run of every command of a suite."""

    def __init__(self, suite: Suite, path: Path | None) -> None:
        """``path`` None: a new one. Raises UsageError if it cannot be created, or is in use."""
        if path is None:
            path = new_path(_slug(suite.name))
        self.path = path
        self._numbers = {command.name: number for number, command in enumerate(suite.commands, 1)}
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot create the directory {path}: {error.strerror}. Choose another with "
                "--journal-dir DIR."
            ) from None
        for command in suite.commands:
            for run in range(command.repeats):
                for file in self.files_of(command, run):
                    if file.exists():
                        raise UsageError(
                            f"{file} already exists: choose another directory with --journal-dir"
                        )

    def files_of(self, command: SuiteCommand, run: int) -> tuple[Path, Path, Path]:
        """Returns the files of the journal, standard output and standard error of a run, from 0."""
        stem = f"{self._numbers[command.name]:02}-{_slug(command.name)}"
        if command.repeats > 1:
            stem += f".{run + 1}"
        return (
            self.path / f"{stem}.jsonl",
            self.path / f"{stem}.txt",
            self.path / f"{stem}.stderr.txt",
        )


def _slug(name: str) -> str:
    return _ODD.sub("-", name)[:_LONGEST_STEM]
