"""Records a run whose results are known at once: plans, and others that no rank measures."""

from __future__ import annotations

import os
import shlex
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cclmark.base.errors import EXIT_MISSING, EXIT_OK
from cclmark.base.version import VERSION
from cclmark.document.exporters import exporter_of
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import Journal, JournalWriter, Line
from cclmark.journal.kind import Kind
from cclmark.journal.machine import describe_machine, kept_environment, readable
from cclmark.journal.schema import (
    FORMULAS,
    SCHEMA_VERSION,
    Footer,
    Header,
    settings_without_sweep,
    time_text,
)
from cclmark.launch.request import Outcome
from cclmark.recording.caller import caller, notice
from cclmark.recording.output import Output
from cclmark.recording.recorder import Recorded
from cclmark.recording.run_files import new_journal


class PlanFlags(Protocol):
    """The options of output."""

    format: str
    columns: list[str]
    wide: bool
    output: Path | None
    journal: Path | None
    quiet: bool


def record_whole(
    kind: Kind,
    results: Sequence[Result],
    flags: PlanFlags,
    stem: str,
    began_s: float,
    notices: Sequence[str] = (),
    *,
    code: int = EXIT_OK,
    keeps_journal: bool = True,
    header_of: Callable[[Header], Header] = lambda header: header,
) -> Recorded:
    """Writes the journal, prints the output, and returns how the run ended.

    ``stem``: in the name of a new journal. ``began_s``: by time.monotonic. ``notices``: what
    readers have to know. ``code``: the exit code of a run with figures. ``keeps_journal``: false if
    only a journal that the user named is written. ``header_of``: completes the header. Raises
    UsageError if a file cannot be written or a field is unknown, before anything is.
    """
    path = flags.journal or (new_journal(stem) if keeps_journal else None)
    output = Output(flags.output, is_wide=flags.wide)
    code = code if any(one.is_measured for one in results) else EXIT_MISSING
    header = header_of(
        Header(
            schema_version=SCHEMA_VERSION,
            cclmark_version=VERSION,
            started_at=time_text(),
            command=[*map(readable, caller().command)],
            machine=describe_machine(),
            devices=[],
            links=[],
            libraries=[],
            environment=kept_environment(os.environ),
            settings=settings_without_sweep(FORMULAS, 0.0, check=0),
            notices=[*notices],
            run_id=uuid.uuid4().hex,
            planned_cases=len(results),
            directory=readable(str(Path.cwd())),
        )
    )
    footer = Footer(ended_at=time_text(), exit_code=code, duration_s=time.monotonic() - began_s)
    try:
        journal = Journal(header, [*results], footer=footer)
        view = replace(output.view, journal=journal, fields=flags.columns)
        exporter = exporter_of(kind, flags.format, view)
        if path is not None:
            exporter.journal_path = shlex.quote(str(path))
            _write(path, [header, *results, footer])
        if not caller().is_silent:
            output.write(exporter.whole(header, results, footer))
    finally:
        output.close()
    failure = output.failure
    for text in (*(one.reason for one in results if code == EXIT_MISSING), failure):
        if text:
            notice(text)
    if not flags.quiet and path is not None:
        notice(f"journal {path}", is_whole=True)
    code = code or (EXIT_MISSING if failure else EXIT_OK)
    return Recorded(code, Outcome(code, ""), results)


def _write(path: Path, lines: Sequence[Line]) -> None:
    """Writes a journal; an empty one is removed."""
    writer = JournalWriter(path)
    is_begun = False
    try:
        for line in lines:
            writer.write(line)
            is_begun = True
    finally:
        writer.close(keep=is_begun)
