"""Adds runs to a history, lists them, prints them again, writes them out and removes them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from cclmark.cli.atomic import write_whole
from cclmark.cli.output import Output
from cclmark.errors import EXIT_OK, EXIT_USAGE, OutputError, UsageError
from cclmark.report.history import run_lines, runs_csv, runs_json, runs_table
from cclmark.report.paint import ansi, unpainted
from cclmark.report.replay import replayed
from cclmark.report.text import plain
from cclmark.results.history.database import default_path
from cclmark.results.history.model import RunFilter, StoredRun
from cclmark.results.history.moments import moment
from cclmark.results.history.store import History


def history_at(db: str | None) -> History:
    """The history that ``--db`` or the environment names. Raises UsageError, MissingError."""
    return History(db or str(default_path()))


def filter_of(
    machine: str = "",
    device: str = "",
    operation: str = "",
    ccl: str = "",
    label: str = "",
    since: str = "",
    until: str = "",
) -> RunFilter:
    """What the options of a command choose. Raises UsageError for a time that is none."""
    return RunFilter(
        *(machine, device, operation, ccl, label),
        since=moment(since) if since else "",
        until=moment(until, after=True) if until else "",
    )


def write_all(path: Path | None, text_for: Callable[[Output], Sequence[str]]) -> None:
    """Prints to ``path``, or to standard output for none and for ``-``.

    Raises UsageError, OutputError.
    """
    output = Output(None if path == Path("-") else path)
    try:
        for text in text_for(output):
            output.write(text)
    finally:
        output.close()
    if output.failure:
        raise OutputError(output.failure)


def add_runs(journals: Sequence[Path], labels: Sequence[str], replace: bool, db: str | None) -> int:
    """Adds journals and says of each what came of it; returns the exit code.

    One that cannot be added does not keep the others from it. Raises UsageError, MissingError and
    OutputError where the history itself cannot be written.
    """
    if any(not label.strip() for label in labels):
        raise UsageError("--label is empty: give a word")
    if db is None:
        _make_directory(default_path().parent)
    history = history_at(db)
    history.begin()
    refused = 0
    written = Output(None)
    for path in journals:
        try:
            added = history.add(_content(path), str(path), labels, replace=replace)
        except UsageError as error:
            refused += 1
            print(f"cclmark: {plain(str(error))}", file=sys.stderr)
            continue
        word = "replaced" if added.replaced else "added"
        if added.known and not added.replaced:
            text = f"known {added.run_id}: was added before, nothing is changed"
        else:
            text = f"{word} {added.run_id}, {added.cases} cases"
        written.write(plain(f"{text} ({path})") + "\n")
    if written.failure:
        raise OutputError(written.failure)
    if refused:
        print(f"cclmark: {refused} of {len(journals)} journals were not added", file=sys.stderr)
    return EXIT_USAGE if refused else EXIT_OK


def list_runs(limit: int, format: str, output: Path | None, db: str | None, **filters: str) -> int:
    """Prints the runs that the filters choose; returns the exit code."""
    found, total = history_at(db).runs(filter_of(**filters), limit or None)

    def text(written: Output) -> Sequence[str]:
        if format == "json":
            return [runs_json(found, total)]
        if format == "csv":
            return [runs_csv(found)]
        return [runs_table(found, total, ansi if written.takes_colours else unpainted)]

    write_all(output, text)
    return EXIT_OK


def show_runs(run: str, format: str, output: Path | None, db: str | None) -> int:
    """Prints one run again; returns the exit code."""
    history = history_at(db)
    stored = history.run(run)
    journal = history.journal(stored.run_id)

    def text(written: Output) -> Sequence[str]:
        paint = ansi if written.takes_colours else unpainted
        columns = written.terminal_columns
        head = ["\n".join(run_lines(stored)) + "\n\n"] if format == "table" else []
        return [*head, *replayed(journal, format, paint=paint, columns=columns)]

    write_all(output, text)
    return EXIT_OK


def export_runs(run: str, output: Path | None, db: str | None) -> int:
    """Writes a run's journal out; returns the exit code."""
    content = history_at(db).content(run)
    output = None if output == Path("-") else output
    try:
        if output is None:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            write_whole(output, content)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise KeyboardInterrupt from None
    except OSError as error:
        if output is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"cannot write {output or 'standard output'}: {error.strerror}") from None
    return EXIT_OK


def prune_runs(
    before: str, keep: int | None, named: Sequence[str], yes: bool, db: str | None, **filters: str
) -> int:
    """Removes runs, after saying which; returns the exit code. Raises UsageError."""
    if sum((bool(before), keep is not None, bool(named))) != 1:
        raise UsageError("say which runs to remove: --before TIME, --keep N or --run RUN")
    if named and any(filters.values()):
        raise UsageError("--run names runs: there is nothing to filter")
    history = history_at(db)
    doomed = _doomed(history, before, keep, named, filters)
    if not doomed:
        write_all(None, lambda _: ["nothing to remove\n"])
        return EXIT_OK
    if not yes:
        _ask(doomed)
    history.remove([run.number for run in doomed])
    number = f"{len(doomed)} {'run' if len(doomed) == 1 else 'runs'}"
    write_all(None, lambda _: [f"removed {number}\n"])
    return EXIT_OK


def _doomed(
    history: History, before: str, keep: int | None, named: Sequence[str], filters: dict[str, str]
) -> list[StoredRun]:
    if named:
        return list({run.number: run for run in map(history.run, named)}.values())
    chosen = filter_of(**filters)
    if before:
        chosen = replace(chosen, until=moment(before))
    return history.runs(chosen)[0][keep:]


def _ask(doomed: Sequence[StoredRun]) -> None:
    """Raises UsageError where nobody can answer, and click.Abort when the answer is no."""
    number = f"{len(doomed)} {'run' if len(doomed) == 1 else 'runs'}"
    print(f"This removes {number} with all results:", file=sys.stderr)
    print(runs_table(doomed, len(doomed)), file=sys.stderr)
    if not sys.stdin.isatty():
        raise UsageError(f"nothing was removed: --yes removes {number} without asking")
    click.confirm("Remove?", abort=True, err=True)


def _content(path: Path) -> bytes:
    """Raises UsageError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _make_directory(path: Path) -> None:
    """The user's own, which nobody has to make by hand. Raises OutputError."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OutputError(
            f"cannot make the directory {path} for the history: {error.strerror}. Name another "
            "place with --db"
        ) from None
