"""What texts and traces become: the format is found, read, and made a journal.

Of traces of programs several files, one for each rank, are one journal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from cclmark.base.errors import UsageError
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import (
    SCHEMA_VERSION,
    DeviceDescription,
    Footer,
    Header,
    Imported,
    LibraryDescription,
    Machine,
    time_text,
)
from cclmark.profile.observed import ObservedProcess
from cclmark.profile.profile_assembly import assembled_profile, unmeasured_settings
from cclmark.profile.profile_gaps import absent_of, differences_of
from cclmark_importers.assemble import assemble
from cclmark_importers.cleaned_text import Text, decode
from cclmark_importers.formats import IMPORTERS, TRACE_IMPORTERS
from cclmark_importers.run import Given, Origin
from cclmark_importers.runs_in_text import TextRun, operation_of_table, part_of, runs_in


@dataclass(frozen=True)
class TraceFile:
    """A file. ``name``: for messages. ``content``: all of it, or its start if ``path`` is set."""

    name: str
    content: bytes
    origin: Origin
    path: Path | None = None

    def open(self) -> BinaryIO:
        """The whole file. Raises UsageError if it cannot be opened."""
        if self.path is None:
            return BytesIO(self.content)
        try:
            return self.path.open("rb")
        except OSError as error:
            raise UsageError(f"cannot read {self.name}: {error.strerror}") from None


def trace_format(content: bytes) -> str:
    """Returns the format of a trace; empty if the file is none."""
    return next((name for name, one in TRACE_IMPORTERS.items() if one.fits(content)), "")


def import_traces(files: Sequence[TraceFile], format: str) -> Journal:
    """Creates one journal of the traces of a program's ranks.

    Raises UsageError if a file cannot be read, or two are of the same rank.
    """
    importer = TRACE_IMPORTERS[format]
    processes: list[ObservedProcess] = []
    names: dict[int, str] = {}
    for number, file in enumerate(files):
        try:
            with file.open() as opened:
                found = importer.read(opened, file.name, number)
        except OSError as error:
            raise UsageError(f"cannot read {file.name}: {error.strerror}") from None
        for process in found:
            if process.rank in names:
                raise UsageError(
                    f"{names[process.rank]} and {file.name} are both of rank {process.rank}: "
                    "import one trace for each rank of one program"
                )
            names[process.rank] = file.name
            processes.append(process)
    processes.sort(key=lambda one: one.rank)
    assembled = assembled_profile(format, processes)
    profile = assembled.profile
    profile.notes = [*_one_alone(processes), *absent_of(profile)]
    profile.notes += differences_of(profile, assembled.results)
    header = _header(files, format, processes, len(assembled.results))
    return Journal(
        header=header,
        results=[*assembled.results],
        profile=profile,
        footer=Footer(ended_at=header.started_at, exit_code=0, duration_s=0.0),
    )


def _one_alone(processes: Sequence[ObservedProcess]) -> list[str]:
    if len(processes) > 1:
        return []
    return [
        f"only the trace of rank {processes[0].rank} was imported: whether ranks wait for others "
        "is unknown"
    ]


def _header(
    files: Sequence[TraceFile], format: str, processes: Sequence[ObservedProcess], results: int
) -> Header:
    origin = files[0].origin
    written = time_text(origin.written_s)
    digest = hashlib.sha256("".join(one.origin.digest for one in files).encode()).hexdigest()
    libraries = dict.fromkeys(one.library for one in processes if one.library)
    ranks = [len(one.members) or one.ranks for each in processes for one in each.groups.values()]
    host = processes[0].host
    return Header(
        schema_version=SCHEMA_VERSION,
        cclmark_version=origin.version,
        started_at=written,
        command=origin.command,
        machine=Machine(host, "", "", "", 0, 0),
        devices=[
            DeviceDescription(number, one.host, "", -1, "process", 0)
            for number, one in enumerate(processes)
        ],
        links=[],
        libraries=[
            LibraryDescription(name, version, "")
            for name, _, version in (text.partition(" ") for text in libraries)
        ],
        environment={},
        settings=unmeasured_settings("profile"),
        run_id=digest[:32],
        planned_cases=results,
        imported=Imported(
            tool=TRACE_IMPORTERS[format].tool,
            format=format,
            file=origin.file,
            file_date=written,
            figure=TRACE_IMPORTERS[format].figure,
            ranks=max([len(processes), *ranks]),
        ),
    )


_JOURNAL = b'{"type":"header"'
_HEAD_LINES = 5  # one of which contains the version in cclmark's own table
_OWN = re.compile(r"cclmark \d")


def import_text(
    content: bytes, name: str, format: str | None, given: Given, origin: Origin
) -> tuple[str, Journal]:
    """Returns the format of a file and its journal; ``format`` None: detect it.

    Raises UsageError for a text of no format, of several, or one that cannot be read.
    """
    if content.startswith(_JOURNAL):
        raise UsageError(f"{name} is already a journal of cclmark: no import is required")
    text, _ = _with_runs(decode(content, name), format)
    chosen = format or _recognised(text)
    found = IMPORTERS[chosen].read(text)
    if isinstance(found, Journal):
        return chosen, found
    return chosen, assemble(found, text, chosen, given, origin)


def runs_of(content: bytes, name: str, format: str | None) -> tuple[Text, list[TextRun]]:
    """Returns a text and its runs, none if no line identifies a format.

    Raises UsageError for a file that is no text.
    """
    if content.startswith(_JOURNAL):
        return Text(name, ""), []
    return _with_runs(decode(content, name), format)


_COMMENT = re.compile(r"^[ \t]*#[ \t]?", re.MULTILINE)


def _with_runs(text: Text, format: str | None) -> tuple[Text, list[TextRun]]:
    """A text and its runs. Where it has none, also those in comments: ``# algbw: …``."""
    runs = runs_in(text, format)
    if not runs and "#" in text.content:
        bare = replace(text, content=_COMMENT.sub("", text.content))
        if runs := runs_in(bare, format):
            return bare, runs
    return text, runs


def import_run(text: Text, run: TextRun, given: Given, origin: Origin) -> Journal:
    """Returns the journal of one run of a text. Raises UsageError if it cannot be read."""
    part = part_of(text, run)
    found = IMPORTERS[run.format].read(part)
    if isinstance(found, Journal):
        return found
    if given.operation is None:
        given = replace(given, operation=operation_of_table(text, run))
    digest = hashlib.sha256(part.content.encode() + repr(given).encode()).hexdigest()
    return assemble(found, part, run.format, given, replace(origin, digest=digest))


def measured_in(run: Journal) -> str:
    """Returns what a run measures, for the name of its journal: one operation, or else the kind."""
    found = {result.case.operation for result in run.cases}
    found |= {result.transfer.measure for result in run.transfers}
    return found.pop() if len(found) == 1 else run.kind


def _recognised(text: Text) -> str:
    lines = text.lines()
    found = {
        name: line
        for name, importer in IMPORTERS.items()
        if (line := importer.finds(text, lines)) is not None
    }
    whole = [name for name in found if name.endswith("json")]
    if whole:
        return whole[0]
    if not found:
        if any(_OWN.match(line.text) for line in lines[:_HEAD_LINES]):
            raise UsageError(f"{text.name} is output of cclmark: use the journal of this run")
        raise UsageError(
            f"{text.name} contains no table of a supported tool ({', '.join(IMPORTERS)}) and is no "
            f"trace of a program ({', '.join(TRACE_IMPORTERS)}). Check the file, or set the tool "
            "with --format"
        )
    if len(found) > 1:
        places = " and ".join(f"{name} (line {line})" for name, line in found.items())
        raise UsageError(
            f"{text.name} contains {places}: import them one by one with --format NAME"
        )
    return next(iter(found))
