"""Reads journals and writes them in another format, completely or not at all."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from cclmark.base.errors import EXIT_OK, EmptyError, UsageError
from cclmark.base.printable import plain
from cclmark.base.standard_error import columns_of_lines
from cclmark.cli.export.command import ExportFlags
from cclmark.cli.listed_files import read_all
from cclmark.document.remarks import lacking
from cclmark.journal.journal_file import Journal
from cclmark.journal.page_journals import expanded
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.recording.caller import notice
from cclmark.recording.output import (
    STANDARD_OUTPUT,
    Output,
    fault_of,
    made_directory,
    refuse_to_lose,
    remove_if_empty,
    tell_written,
    usual_references,
    write_whole,
)
from cclmark.report.exports import TABULAR, export_content, replaced_runs, unshown
from cclmark_programs.chakra import GROUPS_FILE, NETWORK_FILE, Traces, traces_of


def export_journals(flags: ExportFlags) -> int:
    """Writes journals and returns the exit code.

    Raises UsageError for journals that cannot be read or that the format cannot represent,
    MissingError if the package that writes the format is not installed, OutputError if the output
    cannot be written.
    """
    format, table, output = flags.format, flags.table, flags.output
    gc.disable()  # as report_journals does
    if table != "cases" and format not in TABULAR:
        raise UsageError(f"--table {table}: only {' and '.join(TABULAR)} are tables")
    to_screen = output is None or output == STANDARD_OUTPUT
    if format == "parquet" and to_screen and sys.stdout.isatty():
        raise UsageError("Parquet is binary, and standard output is a terminal: use -O FILE")
    journals = [Path(name) for name in expanded(map(str, flags.journals))]
    if len(set(journals)) < len(journals):
        raise UsageError("a journal is listed twice: its results would count twice")
    if format == "chakra":
        return _export_traces(flags, journals)
    refuse_to_lose(output, journals)
    named = read_all(map(str, journals), _read)
    is_terminal = to_screen and Output(None).is_terminal
    width = columns_of_lines(is_terminal=is_terminal, is_wide=flags.wide)
    content = export_content(
        named, format, table, usual_references, flags.columns, width, numbers=flags.numbers
    )
    write_whole(output or STANDARD_OUTPUT, content)
    for name, journal in named:
        for text in unshown(journal, format):
            notice(f"{plain(name)}: {plain(text)}")
    if format == "prometheus" and len(named) > 1:
        for text in replaced_runs(named):
            notice(plain(text))
    tell_written(output)
    return EXIT_OK


def _export_traces(flags: ExportFlags, journals: Sequence[Path]) -> int:
    """Writes a directory of execution traces, completely or not at all."""
    directory = flags.output
    if directory is None or directory == STANDARD_OUTPUT:
        raise UsageError("chakra is a file for each rank: name a new directory with -O DIR")
    if flags.columns:
        raise UsageError("--columns: chakra has no columns to choose")
    if len(journals) > 1:
        raise UsageError("chakra contains one run: export the journals one by one")
    _refuse_used(directory)
    [(name, journal)] = read_all(map(str, journals), _read)
    traces = traces_of(journal, name)
    for text in traces.remarks:
        notice(f"{plain(name)}: {plain(text)}")
    stem = Path(name).stem
    _write_traces(directory, stem, traces)
    notice(
        f"written {plain(str(directory))}: {plain(stem)}.0.et to .{len(traces.calls) - 1}.et, "
        f"{GROUPS_FILE}, {NETWORK_FILE}"
    )
    return EXIT_OK


def _refuse_used(directory: Path) -> None:
    try:
        if directory.exists() and not directory.is_dir():
            raise UsageError(f"-O {directory} is not a directory")
        if directory.is_dir() and any(directory.iterdir()):
            raise UsageError(f"-O {directory} is not empty: use a new directory")
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot write {directory}: {fault_of(error)}") from None


def _write_traces(directory: Path, stem: str, traces: Traces) -> None:
    is_new = not directory.exists()
    made_directory(directory)
    written = []
    try:
        for file, content in traces.files(stem):
            write_whole(directory / file, content)
            written.append(directory / file)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        if is_new:
            remove_if_empty(directory)
        raise


def _read(path: str) -> tuple[str, Journal]:
    """Reads a journal. Raises UsageError for one without results, or with checks of no device."""
    journal = read_journal(Path(path))
    lacks = "; ".join(lacking(journal))
    if not journal.results:
        why = f" ({lacks})" if lacks else ""
        raise EmptyError(f"{path} holds no results{why}", path, lacks)
    if lacks:
        notice(f"{plain(path)}: {lacks}")
    known = journal.header.devices and journal.header.libraries
    if not known and report_kind(journal.kind).needs_devices:
        raise UsageError(f"{path} is damaged: its header contains no device or no library")
    return path, journal
