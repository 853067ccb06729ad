"""A run in sentences: the work, the main figure, and the findings."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cclmark.analysis.links import link_limit
from cclmark.base.grouping import by_key
from cclmark.base.printable import plain
from cclmark.document.blocks import SEVERITY_ORDER, Finding, Severity
from cclmark.document.document_text import Compose, TextLines, document_of
from cclmark.document.head import (
    Definitions,
    definition_lines,
    definition_of,
    definitions_of,
    origin_of,
)
from cclmark.document.insight_words import MOST_NAMED, amount, in_sentences, listed
from cclmark.document.naming import NamedRun
from cclmark.document.report_kind import View
from cclmark.document.soundness import of_completeness
from cclmark.document.text import BYTES_PER_GB, three_digits
from cclmark.document.verdict import JOURNAL, RunVerdict, verdict_of
from cclmark.journal.journal_file import Journal
from cclmark.journal.resume import differing_settings
from cclmark.journal.schema import Header
from cclmark.journal.surroundings import differing_memory, told_by_both
from cclmark.kinds.registry import report_kind
from cclmark.work.operations import moves_data

Group = tuple[str, list[Finding]]
# Settings that change the meaning of a time, not only its precision.
_METHOD = ("timing", "barrier", "clock", "across_ranks", "cache", "group", "registration")


def together(
    found: Sequence[tuple[str, Sequence[Finding]]], between: Sequence[Finding] = ()
) -> list[Group]:
    """Groups insights by run; insights that several runs share come first, once, with these runs.

    ``found``: the insights of each run by its name, which is safe to print. ``between``: insights
    from the comparison of the runs.
    """
    runs = by_key((one, name) for name, own in found for one in dict.fromkeys(own))
    shared = [*between] + [
        replace(one, sentence=f"{_which(names, len(found))}: {one.sentence}")
        for one, names in runs.items()
        if len(names) > 1
    ]
    groups: list[Group] = [("", shared)] if shared else []
    for name, own in found:
        if alone := [one for one in own if len(runs[one]) == 1]:
            groups.append((name, alone))
    return groups


def of_methods(runs: Sequence[tuple[str, Journal]]) -> list[Finding]:
    """Reports runs that measured the same items with another method than the first run that did.

    Only runs with the same definition of a time are compared, see ``of_definitions``. The names of
    ``runs`` must be safe to print.
    """
    firsts: dict[tuple[str, str, str], tuple[str, Header]] = {}
    unlike: dict[tuple[str, str], list[str]] = {}
    for name, run in runs:
        here = run.header
        own = [
            firsts.setdefault((*thing, definition_of(here)), (name, here))
            for thing in sorted(_things(run))
        ]
        if not own:
            continue
        first, there = own[0]
        names = told_by_both(there, here, _METHOD)
        found = [
            *differing_settings(there.settings, here.settings, names),
            *differing_memory(there, here),
        ]
        if found:
            unlike.setdefault((first, "; ".join(found)), []).append(name)
    return [
        Finding(
            "methods-differ",
            "look",
            f"Measured differently from {first} (there): {listed(names[:MOST_NAMED], len(names))} "
            f"(here). {differences}.",
            advice="Their times are not of the same thing: measure again with the same options.",
        )
        for (first, differences), names in unlike.items()
    ]


def of_definitions(runs: Sequence[Journal]) -> list[Finding]:
    """Reports items that tools with different definitions of a time measured.

    Few definitions are in the text; of many, the notice of each run has its own.
    """
    headers = by_key((thing, run.header) for run in runs for thing in sorted(_things(run)))
    alike: dict[tuple[str, ...], tuple[Definitions, list[str]]] = {}
    for (work, _), of in headers.items():
        definitions = definitions_of(of)
        if len(definitions) > 1:
            key = tuple(definition_lines(definitions))
            alike.setdefault(key, (definitions, []))[1].append(work)
    return [
        Finding(
            "definitions-differ",
            "look",
            f"Times of {listed(works)} have {len(definitions)} definitions{_defined(definitions)}.",
            advice="Compare only figures of one definition.",
        )
        for definitions, works in alike.values()
    ]


def _defined(definitions: Definitions) -> str:
    """Returns the definitions if they are few, otherwise the tools."""
    if len(definitions) <= MOST_NAMED:
        return f": {'; '.join(definition_lines(definitions))}"
    tools = dict.fromkeys(tool for of in definitions.values() for tool in of)
    return f", which are in the notes on each run ({listed([*tools])})"


def _things(journal: Journal) -> set[tuple[str, str]]:
    """Returns the measured items that share axes."""
    return {(result.item.work, journal.kind) for result in journal.results}


def _which(names: Sequence[str], of: int) -> str:
    if len(names) == of:
        return "Both runs" if of == 2 else f"All {of} runs"
    return f"{len(names)} of {of} runs ({listed(names[:MOST_NAMED], len(names))})"


def insights(run: NamedRun) -> list[Finding]:
    """Returns the findings, the most severe first, then positive ones, then notes."""
    found = _of_document(report_kind(run.journal.kind).document, run)
    return sorted(found, key=lambda one: SEVERITY_ORDER[one.severity])


def _of_document(compose: Compose, run: NamedRun) -> Iterator[Finding]:
    """Yields the findings of a document, and what is missing."""
    document = document_of(compose, run)
    missing = of_completeness(run.journal, [], with_end=not document.states_end)
    yield from map(in_sentences, [*document.findings, *missing])


def verdict(run: NamedRun) -> RunVerdict:
    """Returns the answer, what is most notable, and what to run next."""
    kind = report_kind(run.journal.kind)
    return verdict_of(document_of(kind.document, run), run, kind.headline)


@dataclass(frozen=True)
class RunLine:
    """A run in a line of a list.

    ``figure``: the main one, ``detail``: the same in a sentence. ``share``: of a reference or of
    the link limit, None if unknown, with ``of``, the name of which. ``peaks``: the bandwidths of
    operations in bytes per second, each with its share of the link limit.
    """

    severity: Severity
    word: str
    answer: str
    figure: str
    detail: str
    share: float | None = None
    of: str = ""
    peaks: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)


def run_line(run: NamedRun) -> RunLine:
    """Returns the verdict on a run and its main figure."""
    found = verdict(run)
    header = run.journal.header
    limit = link_limit(header.links, header.hosts)
    measured = [one for one in run.findings if moves_data(one.operation) and one.peak.summary]
    rates: dict[str, float] = {}
    for one in measured:
        assert one.peak.summary is not None
        rate = one.peak.summary.busbw_bytes_per_s
        rates[one.operation] = max(rate, rates.get(one.operation, 0.0))
    peaks = {name: (rate, rate / limit if limit else None) for name, rate in rates.items()}
    figure, share, of = "", None, ""
    if measured:
        first = measured[0]
        rate, share = peaks[first.operation]
        figure = f"{first.operation} {three_digits(rate / BYTES_PER_GB)} GB/s"
        of = "link limit" if limit else ""
        match = run.notes.match(first.peak, header)
        if match is not None:
            share, of = match.share, match.name
    detail = headline(run)
    return RunLine(found.severity, found.word, found.answer, figure, detail, share, of, peaks)


def verdict_rows(run: NamedRun, found: RunVerdict, *, on_page: bool) -> list[tuple[str, str]]:
    """Returns the lines of a verdict with their labels. ``on_page``: see RunVerdict.rows."""
    path = shlex.quote(run.path) if run.path else JOURNAL
    can_rerun = run.journal.header.is_of_cclmark
    return found.rows(path, can_rerun=can_rerun, on_page=on_page)


def verdict_lines(
    run: NamedRun, columns: int | None = None, *, on_page: bool = False, short: bool = False
) -> list[str]:
    """Returns the verdict on a run as lines of a terminal with ``columns``, None for any number.

    ``on_page``: see RunVerdict.rows. ``short``: of one of several runs, with its name, and without
    what is notable and what follows.
    """
    found = verdict(run)
    rows = [(label, plain(text)) for label, text in verdict_rows(run, found, on_page=on_page)]
    if short:
        rows = [(rows[0][0], f"{run.name}: {rows[0][1]}")]
    return TextLines(View(columns=columns)).verdict(found, rows)


def headline(run: NamedRun) -> str:
    """Returns the main figure in a sentence; empty if nothing was measured."""
    return report_kind(run.journal.kind).headline(run)


def _ranks_of(journal: Journal, most: int) -> str:
    """The number of ranks; a text may contain tables of several numbers."""
    least = min((one.case.ranks for one in journal.cases), default=most)
    return f"{least} to {most} ranks" if least < most else amount(most, "rank")


def measured_words(journal: Journal) -> str:
    """Describes the measured work in a sentence."""
    header = journal.header
    names = Counter(device.name for device in header.devices)
    devices = " and ".join(
        f"{count} × {name}" if name else amount(count, "device") for name, count in names.items()
    )
    hosts = [one.machine.hostname for one in header.hosts]
    where = f"{len(hosts)} hosts" if len(hosts) > 1 else header.machine.hostname
    kind = report_kind(journal.kind)
    done = kind.counted(journal) if journal.results else "Nothing yet"
    if kind.is_computed and journal.results:
        return f"{done}, from formulas."
    if kind.verb and journal.results:
        return f"{done}."
    libraries = listed([f"{one.name} {one.version}".strip() for one in header.libraries])
    by = f" with {libraries}" if libraries else ""
    if header.imported is not None:
        devices = devices or _ranks_of(journal, header.imported.ranks)
        by += f", imported {origin_of(header.imported)}"
    if header.settings.inject:
        by += f", with injected faults (--inject {(' '.join(header.settings.inject))})"
    of = f" of {where}" if where else ""
    return f"{done} on {devices or 'no device'}{of}{by}."
