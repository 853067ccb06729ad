"""Runs in a line each, and the newest figures of all machines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.base.statistics import median
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import Load, ReferenceNotes
from cclmark.document.text import BYTES_PER_GB, three_digits
from cclmark.history.history_model import StoredRun
from cclmark.history.lists import started_of
from cclmark.history.store import History
from cclmark.journal.page_journals import stem_of
from cclmark.report.overview import RunLine, run_line
from cclmark_serve.pages import html
from cclmark_serve.parameters import filter_by

_MOST_FLEET = 500  # newest runs of which a fleet is shown
_MOST_LINES = 4096  # that are kept
_PATIENCE_S = 2.0  # for lines of a page that are not known yet


class RunLines:
    """The lines of runs in lists, kept as long as the server runs: journals do not change."""

    def __init__(self, history: History, load: Load) -> None:
        self._history = history
        self._load = load
        self._known: dict[str, RunLine | None] = {}

    def of(self, runs: Iterable[StoredRun]) -> Iterator[tuple[StoredRun, RunLine | None]]:
        """Yields runs with their lines; None for a run that takes too long, or has no results."""
        until = time.monotonic() + _PATIENCE_S
        for run in runs:
            if run.run_id not in self._known and time.monotonic() < until:
                if len(self._known) >= _MOST_LINES:
                    self._known.clear()
                self._known[run.run_id] = self._line(run)
            yield run, self._known.get(run.run_id)

    def _line(self, run: StoredRun) -> RunLine | None:
        """None for a run without results, and for an invalid journal."""
        journal = self._history.journal(run.run_id)
        if not journal.results:
            return None
        try:
            return run_line(NamedRun(stem_of_run(run), journal, ReferenceNotes(self._load)))
        except (LookupError, ArithmeticError, ValueError, AssertionError):
            return None


@dataclass(frozen=True)
class FleetCell:
    """The newest bandwidth of an operation on a machine. ``look``: why it stands out, or empty."""

    run: StoredRun
    rate: str
    share: str
    look: str = ""


_LEAST_MACHINES = 3  # whose median is compared with
_FAR_BELOW = 0.9  # of that median


def fleet_page(history: History, lines: RunLines, fields: Mapping[str, str]) -> str:
    """Renders the newest bandwidth of each operation on each machine. Raises RefusalError."""
    runs, _ = history.runs(filter_by(fields), _MOST_FLEET)
    newest: dict[tuple[str, str], StoredRun] = {}
    peaks: dict[tuple[str, str], tuple[float, float | None]] = {}
    missing = 0

    def needed() -> Iterator[StoredRun]:
        """The runs with an operation of which no newer run has a figure."""
        for run in runs:
            if any((run.hostname, operation) not in newest for operation in run.operations):
                yield run

    for run, line in lines.of(needed()):
        missing += line is None
        for operation, peak in line.peaks.items() if line is not None else ():
            if newest.setdefault((run.hostname, operation), run) is run:
                peaks[run.hostname, operation] = peak
    by_operation = by_key((operation, rate) for (_, operation), (rate, _) in peaks.items())
    cells: dict[str, dict[str, FleetCell]] = {}
    for (machine, operation), (rate, share) in peaks.items():
        others = by_operation[operation]
        is_far = len(others) >= _LEAST_MACHINES and rate < _FAR_BELOW * median(others)
        cells.setdefault(machine, {})[operation] = FleetCell(
            newest[machine, operation],
            three_digits(rate / BYTES_PER_GB),
            f"{share:.0%}" if share is not None else "",
            "look" if is_far else "",
        )
    return html(
        "fleet",
        title="Fleet",
        here="/fleet",
        place=plain(history.name),
        fields=fields,
        choices=history.choices(),
        operations=list(by_operation),
        machines=sorted(cells.items()),
        started_of=started_of,
        far=f"{1 - _FAR_BELOW:.0%}",
        missing=missing,
    )


def stem_of_run(run: StoredRun) -> str:
    """Returns the name of the run's file, or its id."""
    return plain(stem_of(run.source)) or run.run_id
