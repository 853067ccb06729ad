"""Journals of the history, and the report and comparison pages created from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import PurePath

from cclmark.analysis.run_noise import OwnNoiseOf
from cclmark.compare.comparison_page import comparison_page
from cclmark.compare.figures import Side
from cclmark.compare.words import comparison_of, require_figures
from cclmark.document.naming import Run
from cclmark.document.page.page import Page, PageFacts, Section
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.errors import UsageError
from cclmark.history.history_model import StoredRun
from cclmark.history.lists import SHORT_ID
from cclmark.history.store import History
from cclmark.printable import plain
from cclmark.report.exports.exports import EXPORTS
from cclmark.report.page.run_page import page_of
from cclmark.results.journal import Journal
from cclmark.serve.parameters import address
from cclmark.serve.references import Load
from cclmark.serve.refusal import RefusalError

Stored = tuple[StoredRun, Journal]
EXPORTED = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def stored(history: History, ids: Sequence[str]) -> list[Stored]:
    """Returns the runs with these ids, each once. Raises UnknownRunError, MissingError."""
    runs = {run.number: run for run in map(history.run, ids)}
    return [(run, history.journal(run.run_id)) for run in runs.values()]


def run_page(one: Stored, load: Load) -> Page:
    """Returns the report of one run, with data that only the history holds. Raises RefusalError."""
    run, journal = one
    _require_results(one)
    with _fitting(run):
        page = page_of([Run(_stem(run), journal, ReferenceNotes(load))])
    links = [
        ("All runs", "/"),
        ("Journal", address("/journal", ("run", run.run_id))),
        *(
            (format.upper(), address("/export", ("run", run.run_id), ("format", format)))
            for format in EXPORTED
        ),
    ]
    known = Section("history", "History", facts=[PageFacts("In the history", _known(run))])
    return replace(page, sections=[*page.sections, known], links=links)


def together_page(runs: Sequence[Stored], load: Load) -> Page:
    """Returns a page with all of ``runs`` on the same axes. Raises RefusalError."""
    for one in runs:
        _require_results(one)
    names = names_of([run for run, _ in runs])
    with _fitting(*(run for run, _ in runs)):
        page = page_of(
            [
                Run(name, journal, ReferenceNotes(load))
                for name, (_, journal) in zip(names, runs, strict=True)
            ]
        )
    return replace(page, links=[("All runs", "/"), *_links(runs, names)])


def compared_page(runs: Sequence[Stored], own_noise: OwnNoiseOf) -> Page:
    """Returns the comparison of each other run with the first. Raises RefusalError."""
    if len(runs) < 2:
        raise RefusalError(400, "choose two different runs to compare")
    names = names_of([run for run, _ in runs])
    try:
        for name, (_, journal) in zip(names, runs, strict=True):
            require_figures(journal, name)
        sides = [
            # As for a file: pages show a side's name without the suffix.
            Side(f"{name}.jsonl", [journal], own_noise=own_noise)
            for name, (_, journal) in zip(names, runs, strict=True)
        ]
        with _fitting(*(run for run, _ in runs)):
            page = comparison_page([comparison_of(sides[0], side) for side in sides[1:]])
    except UsageError as error:
        raise RefusalError(400, f"not comparable: {error}") from None
    links = [("All runs", "/"), *_links(runs, names)]
    if len(runs) == 2:
        around = address("/compare", *(("run", run.run_id) for run, _ in reversed(runs)))
        links.append(("Swap the sides", around))
    return replace(page, links=links)


def exported(one: Stored, format: str) -> bytes:
    """Returns a run in one of the formats EXPORTED. Raises RefusalError."""
    run, journal = one
    _require_results(one)
    try:
        with _fitting(run):
            return EXPORTS[format]([(f"run {run.run_id}", journal)], "cases")
    except UsageError as error:
        raise RefusalError(400, str(error)) from None


def names_of(runs: Sequence[StoredRun]) -> list[str]:
    """Returns a name for each run: its file's name, with its id if ambiguous."""
    stems = [_stem(run) for run in runs]
    names = [
        stem if stems.count(stem) == 1 else f"{stem} {run.run_id[:SHORT_ID]}"
        for stem, run in zip(stems, runs, strict=True)
    ]
    if len(set(names)) == len(names):
        return names
    return [run.run_id for run in runs]


def _stem(run: StoredRun) -> str:
    return plain(PurePath(run.source).stem) or run.run_id


def _links(runs: Sequence[Stored], names: Sequence[str]) -> list[tuple[str, str]]:
    return [
        (name, address("/run", ("run", run.run_id)))
        for name, (run, _) in zip(names, runs, strict=True)
    ]


def _known(run: StoredRun) -> list[tuple[str, str]]:
    rows = [
        ("run", run.run_id),
        ("labels", " ".join(run.labels) or "none"),
        ("journal", run.source),
        ("added", f"{run.added_at[:19].replace('T', ' ')} UTC"),
    ]
    if run.continues:
        rows.append(("continues", run.continues))
    if run.damaged_lines:
        rows.append(("damaged lines", str(run.damaged_lines)))
    return rows


def _require_results(one: Stored) -> None:
    """Raises RefusalError for a run without results."""
    run, journal = one
    if not journal.results:
        raise RefusalError(
            422, f"run {run.run_id} contains no results: only its journal can be shown"
        )


@contextmanager
def _fitting(*runs: StoredRun) -> Iterator[None]:
    """Raises RefusalError for an invalid journal, which may come from an untrusted source."""
    try:
        yield
    except (LookupError, ArithmeticError, ValueError, AssertionError) as error:
        which = ", ".join(run.run_id for run in runs)
        raise RefusalError(
            422,
            f"the journal of {which} cannot be shown: its content is inconsistent "
            f"({type(error).__name__}: {error})",
        ) from None
