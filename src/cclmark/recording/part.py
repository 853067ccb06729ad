"""Measures a part of another run: nothing is printed, the results are in a journal of their own."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

from cclmark.launch.launching import launching_of
from cclmark.launch.request import Outcome, Request
from cclmark.recording.output import Output
from cclmark.recording.recorder import recording
from cclmark.results.item_results import Result
from cclmark.results.schema import Footer, Header


def measure_part(request: Request, journal: Path) -> tuple[list[Result], Outcome]:
    """Returns the results of ``request`` and its outcome.

    ``journal``: a new file. Raises UsageError if it cannot be created.
    """
    kept = _Keeping()
    output = Output(None)
    try:
        with recording(journal, output, kept, request, time.monotonic(), within=True) as recorder:
            outcome = launching_of(request.kind).run(request, recorder)
            recorder.finish(outcome, quiet=True)
    finally:
        output.close()
    return kept.results, outcome


def unused(directory: Path, stem: str) -> Path:
    """A new name for such a journal, beside those of interrupted runs: ``stem``, ``stem-1``, …"""
    names = (f"{stem}{f'-{number}' if number else ''}.jsonl" for number in count())
    return next(path for name in names if not (path := directory / name).exists())


class _Keeping:
    """Keeps the results and shows nothing."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    def begin(self, header: Header) -> str:
        return ""

    def add(self, result: Result) -> str:
        self.results.append(result)
        return ""

    def end(self, footer: Footer | None) -> str:
        return ""
