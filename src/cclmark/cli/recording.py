"""Takes results as they come: each goes to the journal first, then to the screen."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from cclmark import __version__
from cclmark.cli.output import Output
from cclmark.cli.progress import Progress
from cclmark.errors import EXIT_DIED, EXIT_MISSING, EXIT_OK, EXIT_WRONG, UsageError
from cclmark.launch.local import Outcome, Request, Surroundings
from cclmark.launch.persistent import PersistentLaunch
from cclmark.rendezvous.messages import Look, Thing
from cclmark.report.exporter import Exporter
from cclmark.results.journal import JournalWriter
from cclmark.results.machine import kept_environment
from cclmark.results.schema import (
    SCHEMA_VERSION,
    CheckResult,
    Footer,
    Header,
    Result,
    Settings,
)


class Recorder:
    """Listens to a run."""

    def __init__(
        self,
        journal: JournalWriter,
        output: Output,
        exporter: Exporter[Any],
        settings: Settings,
        things: Sequence[Thing],
        began_s: float,
    ) -> None:
        self._journal = journal
        self._output = output
        self._settings = settings
        self._exporter = exporter
        self._began_s = began_s
        self._started_at = _now()
        self._notices: list[str] = []
        self._introduced = False
        self._wrong = False
        self._hung: dict[str, None] = {}
        self._measured = False
        self._reasons: dict[str, None] = {}
        self._planned = len(things)
        self._progress = Progress(things, settings.cycles, began_s, sys.stderr)

    def started(self, surroundings: Surroundings) -> None:
        """Writes the header."""
        header = Header(
            schema_version=SCHEMA_VERSION,
            run_id=uuid.uuid4().hex,
            cclmark_version=__version__,
            started_at=self._started_at,
            command=sys.argv,
            machine=surroundings.machine,
            devices=surroundings.devices,
            links=surroundings.links,
            libraries=surroundings.libraries,
            environment=kept_environment(os.environ),
            settings=self._settings,
            relations=surroundings.relations,
            notices=surroundings.notices + self._notices,
            planned_cases=self._planned,
            launcher=surroundings.launcher,
            hosts=surroundings.hosts,
        )
        self._introduced = True
        self._journal.write(header)
        self._print(self._exporter.begin(header))

    def result(self, result: Result) -> None:
        """Writes one result."""
        self._journal.write(result)
        self._progress.advance()
        self._wrong |= result.status in ("wrong", "failed")
        if result.status in ("timeout", "died"):
            self._hung[result.reason] = None
        if isinstance(result, CheckResult) or result.summary is not None:
            self._measured = True
        else:
            self._reasons[result.reason] = None
        self._print(self._exporter.add(result))

    def notice(self, text: str) -> None:
        """Keeps it for the header, or says it at once when that is out."""
        if self._introduced:
            self._progress.clear()
            print(f"cclmark: {text}", file=sys.stderr)
        else:
            self._notices.append(text)

    def progress(self, look: Look) -> None:
        """Shows where the run is, on a terminal."""
        self._progress.show(look)

    def finish(self, outcome: Outcome) -> int:
        """Writes the footer, says where the journal is and returns the exit code."""
        code = outcome.exit_code
        if code == EXIT_OK and self._hung:
            code = EXIT_DIED
        if code == EXIT_OK and self._wrong:
            code = EXIT_WRONG
        if code == EXIT_OK and (self._output.failure or not self._measured):
            code = EXIT_MISSING
        footer = Footer(
            ended_at=_now(),
            exit_code=code,
            duration_s=time.monotonic() - self._began_s,
            message=outcome.message,
            phases_s=outcome.phases_s,
        )
        self._progress.clear()
        if self._introduced:
            self._journal.write(footer)
            self._print(self._exporter.end(footer))
        messages = [outcome.message, *self._hung, self._output.failure]
        if code == EXIT_MISSING and not self._measured:
            messages += [f"nothing was measured: {reason}" for reason in self._reasons]
        for message in dict.fromkeys(messages):
            if message:
                print(f"cclmark: {message}", file=sys.stderr)
        if self._introduced:
            print(f"cclmark: journal {self._journal.path}", file=sys.stderr)
        return code

    def close(self) -> None:
        """Closes the journal; one that no rank got to is taken away."""
        self._progress.clear()
        self._journal.close(keep=self._introduced)

    def _print(self, text: str) -> None:
        if text:
            self._progress.clear()
            self._output.write(text)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def record(
    request: Request,
    exporter_for: Callable[[Output], Exporter[Any]],
    began_s: float,
    *,
    output: Path | None,
    journal: Path | None,
    stem: str,
) -> int:
    """Runs ``request``, with its results in a journal and on the screen; returns the exit code.

    ``output`` and ``journal`` are what ``-O`` and ``--journal`` say; without a journal's name it
    gets a new one with ``stem`` in it. Raises UsageError when one of them cannot be written.
    """
    printed = Output(None if output == Path("-") else output)
    try:
        recorder = Recorder(
            JournalWriter(journal or _new_journal(stem)),
            printed,
            exporter_for(printed),
            request.settings,
            request.things,
            began_s,
        )
        with contextlib.closing(recorder):
            return recorder.finish(PersistentLaunch(request, recorder).run())
    finally:
        printed.close()


def _new_journal(name: str) -> Path:
    """A name that no other run has, even one started in the same second. Raises UsageError."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    stem = f"{stamp}-{name}"
    directory = Path("cclmark-runs")
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the directory {directory} for the journal: {error.strerror}. "
            "Choose another place with --journal FILE."
        ) from None
    return directory / f"{stem}-{os.getpid()}.jsonl"
