"""The list of runs in the form that its template requires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from cclmark.history.history_model import StoredRun
from cclmark.history.lists import MOST_MEASURED, SHORT_ID, started_of
from cclmark.history.store import History
from cclmark.printable import plain
from cclmark.serve.pages import html
from cclmark.serve.parameters import MOST_TOGETHER, address, filter_by

PER_PAGE = 50


@dataclass(frozen=True)
class RunLine:
    """A run as the list shows it. ``trouble``: its state is an error."""

    run_id: str
    address: str
    name: str
    started: str
    machine: str
    devices: str
    measured: str
    cases: int
    state: str
    trouble: bool
    labels: str
    journal: str


def list_page(history: History, fields: Mapping[str, str], page: int) -> str:
    """Renders the runs that the filter selects, newest first. Raises RefusalError, MissingError."""
    found, total = history.runs(filter_by(fields), PER_PAGE, (page - 1) * PER_PAGE)
    pages = max(1, -(-total // PER_PAGE))
    first = (page - 1) * PER_PAGE + 1

    def page_address(number: int) -> str:
        return address("/", *fields.items(), ("page", str(number) if number > 1 else ""))

    return html(
        "list",
        title="Runs",
        here="/",
        place=plain(history.name),
        fields=fields,
        choices=history.choices(),
        lines=[_line(run) for run in found],
        total=total,
        first=first,
        last=first + len(found) - 1,
        page=page,
        pages=pages,
        newer=page_address(min(page - 1, pages)) if page > 1 else "",
        older=page_address(page + 1) if page < pages else "",
        most=MOST_TOGETHER,
        trend=address("/trend", *fields.items()),
    )


def _line(run: StoredRun) -> RunLine:
    named = ", ".join(run.operations[:MOST_MEASURED])
    if len(run.operations) > MOST_MEASURED:
        named += ", …"
    state, trouble = _state(run)
    return RunLine(
        run_id=run.run_id,
        address=address("/run", ("run", run.run_id)),
        name=(run.run_id[:SHORT_ID]),
        started=started_of(run),
        machine=run.hostname,
        devices=run.devices,
        measured=f"{named} · {', '.join(run.ccls)}",
        cases=run.cases,
        state=state,
        trouble=trouble,
        labels=", ".join(run.labels),
        journal=(PurePath(run.source).name),
    )


def _state(run: StoredRun) -> tuple[str, bool]:
    """Returns how the run ended, in words, and whether that is an error."""
    if run.not_ok:
        return f"{run.not_ok} not ok", True
    if run.exit_code is None:
        return "cut short", True
    return ("ok", False) if run.exit_code == 0 else (f"exit code {run.exit_code}", True)
