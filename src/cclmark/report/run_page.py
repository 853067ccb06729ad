"""The page of one journal, or of several side by side."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark import __version__
from cclmark.document.chart_model import key_of
from cclmark.document.document_page import page_table, sections_of
from cclmark.document.head import origin_of
from cclmark.document.insight_words import amount, listed
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import Page, Section
from cclmark.kinds.collective.peaks import peaks_of
from cclmark.kinds.registry import KINDS, report_kind
from cclmark.report.embedded import embedded
from cclmark.report.overview import (
    headline,
    insights,
    measured_words,
    of_definitions,
    of_methods,
    together,
)
from cclmark.report.page_sections import (
    machine_sections,
    ran_sections,
    rows_of,
    steps_sections,
    trace_sections,
)
from cclmark.results.schema import Header

_MOST_DETAILED = 2  # kinds of work described in a title
_MOST_LED = 3  # runs described one by one above the table of peaks


def page_of(runs: Sequence[NamedRun], title: str = "", *, embeds: bool = True) -> Page:
    """Creates the page with all results of ``runs``. Requires at least one run.

    ``embeds``: it contains their journals and documents, so that cclmark can read it.
    """
    several = len(runs) > 1
    texts, note = embedded(runs) if embeds else ({}, "")
    return Page(
        title=title or _title(runs),
        subtitle=_subtitle(runs),
        lead=_lead(runs),
        insights=together(
            [(run.name if several else "", insights(run)) for run in runs],
            [
                *of_definitions([run.journal for run in runs]),
                *of_methods([(run.name, run.journal) for run in runs]),
            ],
        ),
        sections=[
            *steps_sections(runs),
            *chart_sections(runs),
            *ran_sections(runs),
            *trace_sections(runs),
            *machine_sections(runs),
        ],
        rows=rows_of(runs, f"{key_of(title or _title(runs), set())}.csv"),
        peaks=None if (peaks := peaks_of(runs)) is None else page_table(peaks),
        made_by=f"{_made_by(runs)} {note}".rstrip(),
        embedded=texts,
    )


def _made_by(runs: Sequence[NamedRun]) -> str:
    text = f"Made by cclmark {__version__}."
    if not any(report_kind(run.journal.kind).has_samples for run in runs):
        return text
    return (
        f"{text} Times are medians over samples of the slowest rank unless the method says "
        "otherwise, times of imported runs as their tool printed them; GB/s are 10⁹ bytes per "
        "second."
    )


def _lead(runs: Sequence[NamedRun]) -> list[str]:
    """Describes the work and the main figure of each run; many runs are grouped by their work."""
    if len(runs) == 1:
        run = runs[0]
        return [f"Measured: {measured_words(run.journal)} {headline(run)}"]
    if len(runs) <= _MOST_LED:
        return [f"{run.name}: {measured_words(run.journal)} {headline(run)}" for run in runs]
    alike: dict[str, list[str]] = {}
    for run in runs:
        alike.setdefault(measured_words(run.journal), []).append(run.name)
    return [
        f"{names[0]}: {words}" if len(names) == 1 else f"{len(names)} runs, of each: {words}"
        for words, names in alike.items()
    ]


def chart_sections(runs: Sequence[NamedRun]) -> list[Section]:
    """Returns the sections with charts, by kind of work."""
    present = {run.journal.kind for run in runs}
    return [
        section
        for name in KINDS
        if name in present
        for section in _sections_of(name, [run for run in runs if run.journal.kind == name])
    ]


def _sections_of(name: str, runs: Sequence[NamedRun]) -> list[Section]:
    kind = report_kind(name)
    if kind.sections is not None:
        return kind.sections(runs)
    return sections_of(kind.document, name, runs)


def _title(runs: Sequence[NamedRun]) -> str:
    what = _work(runs)
    places = {_place(run.journal.header) for run in runs}
    return f"{what} on {places.pop()}" if len(places) == 1 else what


def _work(runs: Sequence[NamedRun]) -> str:
    """Returns the work of all runs: in detail for few kinds, the names of the kinds for more."""
    by_kind: dict[str, list[NamedRun]] = {}
    for run in runs:
        by_kind.setdefault(run.journal.kind, []).append(run)
    if len(by_kind) <= _MOST_DETAILED:
        return "; ".join(report_kind(kind).titled(of_kind) for kind, of_kind in by_kind.items())
    return listed([report_kind(kind).title for kind in by_kind])


def _place(header: Header) -> str:
    names = list(dict.fromkeys(device.name for device in header.devices))
    number = len(header.devices)
    if header.imported is not None and not number:
        return amount(header.imported.ranks, "rank")
    if len(names) == 1 and names[0]:
        return f"{number} × {names[0]}"
    return amount(number, "device")


def _subtitle(runs: Sequence[NamedRun]) -> str:
    if len(runs) > 1:
        return f"{len(runs)} runs: " + ", ".join(run.name for run in runs)
    header = runs[0].journal.header
    if header.imported is not None:
        return f"imported {origin_of(header.imported)}"
    started = header.started_at.replace("T", " ")[:16]
    version = header.cclmark_version
    return f"{header.machine.hostname}, {started} UTC, cclmark {version}"
