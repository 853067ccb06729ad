"""The page of one journal, or of several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cclmark import __version__
from cclmark.analysis.links import link_limit
from cclmark.document.chart_model import key_of
from cclmark.document.definitions import definitions_of
from cclmark.document.document_page import sections_of
from cclmark.document.head import origin_of
from cclmark.document.insight_words import amount, listed
from cclmark.document.naming import NamedRun
from cclmark.document.page.page import Page, PageTable, Section
from cclmark.document.reference_notes import share_text
from cclmark.document.remarks import convergence_text, marks_text, staged_legend, staged_mark
from cclmark.document.text import BYTES_PER_GB, format_time_us
from cclmark.kinds.registry import KINDS, report_kind
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
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
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Header, Summary

_MOST_NOTES = 12
_SHARES = ("link limit", "reference")
_DEVICE = "device µs"
_MOST_DETAILED = 2  # kinds of work described in a title
_MOST_LED = 3  # runs described one by one above the table of peaks
_MOST_RUNS = 12  # listed in a note
_MOST_CONNECTED = 32
_SLUG = str.maketrans({" ": "-", ".": "-"})


def page_of(runs: Sequence[NamedRun], title: str = "") -> Page:
    """Creates the page with all results of ``runs``. Requires at least one run."""
    several = len(runs) > 1
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
        peaks=peaks_of(runs),
        made_by=_made_by(runs),
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
    return kind.sections(runs) if kind.document is None else sections_of(kind.document, name, runs)


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


def peaks_of(runs: Sequence[NamedRun]) -> PageTable | None:
    """Returns the best bandwidth and the time of the smallest message of each operation."""
    rows = []
    named: list[CaseResult] = []
    shown = dict.fromkeys(("link limit", "reference", _DEVICE), False)
    references: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        header = run.journal.header
        limit = link_limit(header.links, header.hosts)
        for found in run.findings:
            latency = found.latency.summary
            if latency is None:
                continue
            name = found.name
            cells = [f"{run.name}: {name}" if len(runs) > 1 else name]
            own = found.latency.device
            device = "" if own is None else format_time_us(own.summary.time_s)
            shown[_DEVICE] |= bool(device)
            if not moves_data(found.operation):
                cells += ["", "", "", "", "", format_time_us(latency.time_s), device, ""]
            else:
                peak, half = found.peak.summary, found.half_peak_bytes
                assert peak is not None
                share = f"{peak.busbw_bytes_per_s / limit:.0%}" if limit else ""
                match = run.notes.match(found.peak, header)
                shown["link limit"] |= bool(share)
                shown["reference"] |= match is not None
                if match is not None:
                    users = references.setdefault(match.name_and_differences, {})
                    users.setdefault(name, []).append(run.name)
                cells += [
                    f"{peak.busbw_bytes_per_s / BYTES_PER_GB:.2f}",
                    f"{format_size(found.peak.case.size_bytes)} {found.peak.case.placement}"
                    f"{marks_text(found.peak)}",
                    share,
                    "" if match is None else share_text(match.share),
                    "" if half is None else format_size(half),
                    *_smallest(found.latency, latency, device),
                ]
            named += [found.peak, found.latency]
            rows.append(cells)
    if not rows:
        return None
    heads = (
        *("operation", "peak busbw GB/s", "at", "link limit", "reference"),
        *("half of peak from", "smallest message µs", _DEVICE, "size"),
    )
    kept = [place for place, name in enumerate(heads) if shown.get(name, True)]
    return PageTable(
        "Peak bus bandwidth and time of the smallest message",
        [f"of {heads[place]}" if heads[place] in _SHARES else heads[place] for place in kept],
        [[row[place] for place in kept] for row in rows],
        len(kept) - 1,
        [
            *staged_legend(named),
            *_mixed_peaks([run.journal.header for run in runs if run.findings]),
            *(
                ["device µs: the time of the device alone, where launches set the cost of a call."]
                if shown[_DEVICE]
                else []
            ),
            *(
                f"Reference of {_users(of, len(runs))}: {reference}."
                for reference, of in list(references.items())[:_MOST_NOTES]
            ),
        ],
    )


def _mixed_peaks(headers: Sequence[Header]) -> list[str]:
    """Returns a note if the tools of the runs define a time in different ways."""
    if len(definitions_of(headers)) < 2:
        return []
    return [
        "These tools have different definitions of a time, from which bandwidths are computed: "
        "compare only lines with the same definition, which each operation's section lists."
    ]


def _smallest(result: CaseResult, summary: Summary, device: str) -> list[str]:
    """Returns the time of the smallest message, the device's time if it differs, and the size."""
    return [
        f"{format_time_us(summary.time_s)}{staged_mark(result)}",
        device,
        f"{format_size(result.case.size_bytes)}{convergence_text(result)}",
    ]


def _users(of: Mapping[str, Sequence[str]], runs: int) -> str:
    """Returns the operations, with the names of their runs if there are several runs."""
    if runs == 1:
        return ", ".join(of)
    by_runs: dict[str, list[str]] = {}
    for operation, names in of.items():
        by_runs.setdefault(_some(list(dict.fromkeys(names))), []).append(operation)
    return "; ".join(f"{', '.join(words)} ({names})" for names, words in by_runs.items())


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_RUNS
    return ", ".join(names[:_MOST_RUNS]) + (f" and {more} more" if more > 0 else "")
