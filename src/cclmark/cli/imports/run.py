"""Reads files of other tools, reports the detected formats, and writes journals."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cclmark.base.errors import EXIT_OK, EXIT_USAGE, EmptyError, OutputError, UsageError
from cclmark.base.printable import plain
from cclmark.base.version import VERSION
from cclmark.cli.imports.command import ImportFlags
from cclmark.cli.listed_files import read_all
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.remarks import left_out
from cclmark.document.text import counted
from cclmark.journal.journal_file import Journal, JournalWriter
from cclmark.journal.machine import readable
from cclmark.journal.page_journals import file_of, is_page, packed_in, read_lines, stem_of, unpack
from cclmark.kinds.registry import parse_journal, report_kind
from cclmark.recording.caller import notice
from cclmark.recording.output import (
    Output,
    made_directory,
    print_lines,
    usual_references,
)
from cclmark.report.overview import verdict_lines
from cclmark_importers.assemble import merged
from cclmark_importers.formats import TRACE_IMPORTERS
from cclmark_importers.importers import (
    TraceFile,
    import_run,
    import_text,
    import_traces,
    measured_in,
    runs_of,
    trace_format,
)
from cclmark_importers.line_reader import HEAD_BYTES
from cclmark_importers.run import Given, Origin

_DIRECTORY = Path("cclmark-runs")
_PAGE = "cclmark-page"
_MOST_NAMES = 1000
_PIECE_BYTES = 1 << 20
_CCL = re.compile(r"[\w:.+-]{1,40}", re.ASCII)
_MOST_NOTICES = 20
_LINE = re.compile(r"^(?:line|\d+ lines from) \d+(?: to \d+)?: ")


@dataclass(frozen=True)
class _Read:
    """A file that was read, or a run in it. ``number``: of a run in a text of several."""

    name: str
    format: str
    journal: Journal
    file: str = ""
    number: int = 0


@dataclass(frozen=True)
class _Unread:
    """A run that cannot be read, in a text of several. ``is_text``: it has no row of a table."""

    name: str
    reason: str
    is_text: bool


def import_files(flags: ImportFlags) -> int:
    """Imports files and returns the exit code; writes nothing unless all can be read.

    A text may contain several runs: of these the ones that can be read are imported. Raises
    UsageError for files that cannot be read, OutputError for those that cannot be written.
    """
    if flags.output is not None and flags.directory is not None:
        raise UsageError("-o is one journal, --directory one for each run: set one of them")
    if flags.ccl is not None and _CCL.fullmatch(flags.ccl) is None:
        raise UsageError(f"--ccl: {flags.ccl!r} is not a library name")
    given = Given(
        *(flags.operation, flags.ccl, flags.ranks, flags.device, flags.dtype, flags.reduction),
        *(flags.hosts, flags.size),
    )
    if flags.files.count("-") > 1:
        raise UsageError("standard input (-) can be read only once")
    format = None if flags.format == "auto" else flags.format
    if flags.output is None:
        return _write_each(list(_read_all(flags.files, format, given, _each_run)), flags.directory)
    read = [
        one for one in _read_all(flags.files, format, given, _whole_text) if isinstance(one, _Read)
    ]
    if len(read) > 1 and any(one.journal.profile is not None for one in read):
        raise UsageError("traces of programs and other files cannot be one journal: leave out -o")
    for one in read:
        _tell(one, set())
    _write(merged([(one.name, one.journal) for one in read]), flags.output)
    return EXIT_OK


def _write_each(found: Sequence[_Read | _Unread], directory: Path | None) -> int:
    """Writes a journal for each run, reports those that cannot be read, and returns the code."""
    first = next((place for place, one in enumerate(found) if isinstance(one, _Read)), 0)
    # What precedes the first run of a document, such as the help of the tool, is none.
    unread = [one for one in found[first:] if isinstance(one, _Unread)]
    unread += [one for one in found[:first] if isinstance(one, _Unread) and not one.is_text]
    several = sum(isinstance(one, _Read) for one in found) > 1
    told: set[str] = set()
    for one in found:
        if isinstance(one, _Read):
            _tell(one, told if one.number else set())
            _write(one.journal, _free_name(one, directory), several=several)
        elif one in unread:
            _say(f"{one.name} is not imported: {one.reason}")
        else:
            _say(f"{one.name}: text before the first run")
    if unread:
        runs = sum(one in unread or isinstance(one, _Read) for one in found)
        _say(f"{len(unread)} of {counted(runs, 'run')} cannot be imported, see above")
    return EXIT_USAGE if unread else EXIT_OK


def _whole_text(file: TraceFile, format: str | None, given: Given) -> Iterator[_Read | _Unread]:
    """Reads a text as one run, as for one journal."""
    try:
        chosen, run = import_text(file.content, file.name, format, given, file.origin)
    except UsageError as error:
        runs = len(runs_of(file.content, file.name, format)[1])
        if runs < 2:
            raise
        raise UsageError(
            f"{error}. {file.name} contains {runs} runs: without -o each becomes a journal"
        ) from None
    yield _Read(file.name, chosen, run)


def _each_run(file: TraceFile, format: str | None, given: Given) -> Iterator[_Read | _Unread]:
    """Reads the runs of a text."""
    text, runs = runs_of(file.content, file.name, format)
    if len(runs) < 2:
        yield from _whole_text(file, format, given)
        return
    _say(f"{file.name}: {len(runs)} runs")
    for number, one in enumerate(runs, start=1):
        lines = f"lines {one.first} to {one.last}" if one.last > one.first else f"line {one.first}"
        name = f"{file.name}, run {number} ({lines})"
        try:
            run = import_run(text, one, given, file.origin)
        except UsageError as error:
            yield _Unread(name, str(error), isinstance(error, EmptyError))
        else:
            yield _Read(name, one.format, run, file.name, number)


_Reader = Callable[[TraceFile, str | None, Given], Iterator[_Read | _Unread]]


def _read_all(
    files: Sequence[str], format: str | None, given: Given, read_text: _Reader
) -> Iterator[_Read | _Unread]:
    """Reads all files; the traces of one format are one run, in the place of the first one."""
    contents = read_all(files, lambda name: _content(name, format, given))
    formats = [_format_of_trace(file.content, format) for file in contents]
    done: set[str] = set()
    for file, found in zip(contents, formats, strict=True):
        if not found and format is None and is_page(file.content):
            for name, content in _journals_in(file):
                run = parse_journal(content.splitlines(), name, as_written=True)
                yield _Read(name, _PAGE, run)
        elif not found:
            yield from read_text(file, format, given)
        elif found not in done:
            done.add(found)
            traces = [one for one, own in zip(contents, formats, strict=True) if own == found]
            yield _Read(file.name, found, import_traces(traces, found))


def _journals_in(page: TraceFile) -> Iterator[tuple[str, bytes]]:
    """The journals of a page, or the one that ``PAGE#RUN`` names, with their names."""
    path = Path(page.name)
    if file_of(path) != path:
        content, name = read_lines(path)
        yield name, content
        return
    for packed in packed_in(page.content, page.name):
        yield f"{page.name}#{packed.name}", unpack(packed, page.name)


def _format_of_trace(content: bytes, format: str | None) -> str:
    """The format of a trace of a program, empty for other files. ``content``: or its start."""
    if format is not None:
        return format if format in TRACE_IMPORTERS else ""
    return trace_format(content)


def _content(name: str, format: str | None, given: Given) -> TraceFile:
    """A file. Of a trace, which may be larger than memory, only the start is read."""
    shown = "standard input" if name == "-" else name
    path = None
    digest = hashlib.sha256()
    try:
        if name == "-":
            content, written_s = sys.stdin.buffer.read(), None
            digest.update(content)
        else:
            with file_of(Path(name)).open("rb") as file:
                written_s = os.fstat(file.fileno()).st_mtime
                content = file.read(HEAD_BYTES)
                if file.seekable() and _format_of_trace(content, format):
                    path = Path(name)
                    file.seek(0)
                    while piece := file.read(_PIECE_BYTES):
                        digest.update(piece)
                else:
                    content += file.read()
                    digest.update(content)
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror}") from None
    if not content.strip():
        raise EmptyError(f"{shown} is empty", shown, "it is empty")
    digest.update(repr(given).encode())
    origin = Origin(
        file="" if name == "-" else readable(Path(name).name),
        digest=digest.hexdigest(),
        written_s=written_s,
        command=[readable(word) for word in sys.argv],
        version=VERSION,
    )
    return TraceFile(shown, content, origin, path)


def _tell(read: _Read, told: set[str]) -> None:
    """Reports the detected format of a file, and its notices, without those ``told`` already.

    Line numbers make no other notice.
    """
    run = read.journal
    if run.header.imported is None:
        place = "in a page" if read.format == _PAGE else "as JSON"
        _say(f"{read.name}: a journal of cclmark {place}, {len(run.results)} results")
        for text in left_out(run):
            _say(f"  {text}")
        return
    if run.profile is not None:
        _tell_profile(read)
        return
    operations = dict.fromkeys(result.case.operation for result in run.cases)
    ranks = list(dict.fromkeys(result.case.ranks for result in run.cases))
    others = "".join(f"{number} and " for number in ranks[:-1])
    source = run.header.imported.source
    of = f", of {source}" if source != read.format else ""
    contents = f"{counted(len(run.cases), 'case')} of {', '.join(operations)}, {others}"
    if ranks:
        contents += counted(ranks[-1], "rank")
    else:
        contents = f"{report_kind(run.kind).counted(run)}, "
        contents += counted(len(run.header.devices), "device")
    _say(f"{read.name}: {read.format}{of}: {contents}")
    notices = [one for one in run.header.notices if _LINE.sub("", one) not in told]
    told.update(_LINE.sub("", one) for one in notices)
    for one in notices[:_MOST_NOTICES]:
        _say(f"  {one}")
    more = len(notices) - _MOST_NOTICES
    if more > 0:
        _say(f"  and {more} more notices, in the journal")
    if run.footer is None:
        text = "this run" if read.number else "the text"
        _say(f"  {text} ends before its table is complete")


def _tell_profile(read: _Read) -> None:
    """Reports what traces of a program contain."""
    run = read.journal
    assert run.profile is not None
    calls = sum(one.calls for one in run.profile.processes)
    _say(
        f"{read.name}: {read.format}: {counted(calls, 'call')} of "
        f"{counted(len(run.results), 'distinct operation')} on "
        f"{counted(len(run.profile.processes), 'rank')}"
    )
    for note in run.profile.notes[:_MOST_NOTICES]:
        _say(f"  {note}")


def _free_name(read: _Read, directory: Path | None) -> Path:
    """Returns a new path, named after the file, and in the default directory the run's date.

    Of several runs in a text their number, tool and operation are part of it.
    """
    header = read.journal.header
    date = re.sub(r"[^0-9T]", "", header.started_at[:19]) or "unknown"
    stem = re.sub(r"[^\w.-]+", "_", stem_of(read.file or read.name), flags=re.ASCII) or "text"
    if directory is None:
        stem = f"{date}-import-{stem}"
    if read.number:
        stem += f"-{read.number:02}-{read.format}-{measured_in(read.journal)}"
    place = made_directory(directory or _DIRECTORY, "Choose another place with -o FILE")
    names = [f"{stem}{(n and f'-{n}') or ''}.jsonl" for n in range(_MOST_NAMES)]
    free = next((name for name in names if not (place / name).exists()), names[0])
    return place / free


def _write(run: Journal, path: Path, *, several: bool = False) -> None:
    """Writes a journal, and prints the verdict on its run, which is short for ``several`` runs."""
    writer = JournalWriter(path, "-o FILE")
    whole = False
    try:
        for line in run.lines:
            writer.write(line)
        whole = True
    except OutputError as error:
        raise OutputError(f"{error}".partition(". It holds")[0]) from None
    finally:
        writer.close(keep=whole)
    notice(f"journal {shlex.quote(str(path))}", is_whole=True)
    named = NamedRun(path.name, run, ReferenceNotes(usual_references), path=str(path))
    print_lines(verdict_lines(named, Output(None).columns, short=several))


def _say(text: str) -> None:
    notice(plain(text))
