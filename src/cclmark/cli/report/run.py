"""Reads journals and writes pages and pictures."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

from cclmark.base.errors import EXIT_OK, EmptyError, UsageError
from cclmark.base.printable import plain
from cclmark.cli.listed_files import read_all
from cclmark.cli.report.command import ReportFlags
from cclmark.document.chart_model import key_of
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import render
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.remarks import lacking
from cclmark.journal.page_journals import expanded, file_of, read_lines, stem_of
from cclmark.kinds.registry import parse_journal
from cclmark.recording.caller import notice
from cclmark.recording.output import (
    STANDARD_OUTPUT,
    Output,
    made_directory,
    print_lines,
    refuse_to_lose,
    usual_references,
    write_whole,
)
from cclmark.report.overview import verdict_lines
from cclmark.report.pictures import picture
from cclmark.report.run_page import chart_sections, page_of


def report_journals(flags: ReportFlags) -> int:
    """Writes the page, pictures, or both, prints their paths, and returns the exit code.

    Raises UsageError for journals that cannot be read, if all are empty, and for paths that cannot
    be written; MissingError if the package that draws is not installed.
    """
    # Millions of small lists are created and all are kept: the search for reference cycles among
    # them would take a fifth of the time of this short command.
    gc.disable()
    journals, output, png, svg = flags.journals, flags.output, flags.png, flags.svg
    runs = _runs(journals)
    if output is not None or (png is None and svg is None):
        path = output or Path(f"{file_of(Path(runs[0].path)).stem}.html")
        refuse_to_lose(path, [Path(_path_of(text)) for text in journals])
        write_whole(path, render(page_of(runs, flags.title_text or "")).encode())
        if path != STANDARD_OUTPUT:
            _print_verdicts(runs)
            notice(f"report {plain(str(path))}", is_whole=True)
    for directory, format in ((png, "png"), (svg, "svg")):
        if directory is not None:
            _draw(runs, directory, format)
    return EXIT_OK


def _print_verdicts(runs: Sequence[NamedRun]) -> None:
    lines = []
    for run in runs:
        lines += [plain(run.name)] if len(runs) > 1 else []
        lines += verdict_lines(run, Output(None).columns, on_page=True)
    print_lines(lines)


def _draw(runs: Sequence[NamedRun], directory: Path, format: str) -> None:
    charts = [chart for section in chart_sections(runs) for chart in section.charts]
    if not charts:
        raise UsageError("nothing to draw: no case was measured")
    made_directory(directory)
    taken: set[str] = set()
    for chart in charts:
        write_whole(directory / f"{key_of(chart.key, taken)}.{format}", picture(chart, format))
    notice(f"{len(charts)} pictures in {directory}", is_whole=True)


def _runs(journals: Sequence[str]) -> list[NamedRun]:
    """Reads the journals, of a page without a name all. Raises UsageError."""
    journals = [
        one for text in journals for one in (expanded([text]) if _path_of(text) == text else [text])
    ]
    paths = [_path_of(text) for text in journals]
    if len(set(paths)) < len(paths):
        raise UsageError("a journal is listed twice")
    names = dict(zip(paths, _names(journals), strict=True))
    return read_all(paths, lambda path: _run(names[path], path))


def _run(name: str, path: str) -> NamedRun:
    content, shown = read_lines(Path(path))
    journal = parse_journal(content.splitlines(), shown)
    lacks = "; ".join(lacking(journal))
    if not journal.results:
        why = f" ({lacks})" if lacks else ""
        message = f"{path} contains no results: nothing to report{why}"
        raise EmptyError(message, path, lacks)
    if journal.unread_lines:
        notice(plain(f"{path}: {lacks}"))
    return NamedRun(plain(name), journal, ReferenceNotes(usual_references), content, path)


def _path_of(text: str) -> str:
    """Returns the path of NAME=JOURNAL or JOURNAL."""
    name, sign, path = text.partition("=")
    return path if sign and name and not file_of(Path(text)).exists() else text


def _names(journals: Sequence[str]) -> list[str]:
    """Returns a name for each run: as requested, else its file, with its directory if ambiguous."""
    given = ["" if _path_of(text) == text else text.partition("=")[0] for text in journals]
    files = [_path_of(text) for text in journals]
    stems = [stem_of(file) for file in files]
    names = [
        name or (stem if stems.count(stem) == 1 else file)
        for name, stem, file in zip(given, stems, files, strict=True)
    ]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two journals have the name {twice}: use NAME=JOURNAL")
    return names
