"""A run in sentences: the work, the main figure, and the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from cclmark.document.document_text import Compose, document_of
from cclmark.document.head import origin_of
from cclmark.document.insight_words import (
    Insight,
    InsightKind,
    amount,
    ended,
    listed,
    sentence,
)
from cclmark.document.naming import Run
from cclmark.document.soundness import of_completeness
from cclmark.kinds.registry import report_kind
from cclmark.results.journal import Journal

_ORDER: dict[InsightKind, int] = {"bad": 0, "look": 1, "good": 2, "note": 3}


def insights(run: Run) -> list[Insight]:
    """Returns the findings, the most severe first, then positive ones, then notes."""
    kind = report_kind(run.journal.kind)
    found = kind.insights(run) if kind.document is None else _of_document(kind.document, run)
    return sorted(found, key=lambda one: _ORDER[one.kind])


def _of_document(compose: Compose, run: Run) -> Iterator[Insight]:
    """Yields the findings of a document, those on a subject as one, and what is missing."""
    document = document_of(compose, run)
    for (severity, subject), group in groupby(
        document.findings, lambda one: (one.severity, one.subject)
    ):
        own = [*group]
        if subject:
            texts = [text for one in own for text in (one.sentence, one.advice) if text]
            yield Insight(severity, f"{subject}: {' '.join(map(ended, texts))}")
        else:
            for one in own:
                advice = sentence(one.advice) if one.advice else ""
                yield Insight(severity, sentence(one.sentence), advice)
    yield from of_completeness(run.journal, [], with_end=not document.states_end)


def headline(run: Run) -> str:
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
    done = report_kind(journal.kind).counted(journal) if journal.results else "Nothing yet"
    libraries = listed([f"{one.name} {one.version}".strip() for one in header.libraries])
    by = f" with {libraries}" if libraries else ""
    if header.imported is not None:
        devices = devices or _ranks_of(journal, header.imported.ranks)
        by += f", imported {origin_of(header.imported)}"
    if header.settings.inject:
        by += f", with injected faults (--inject {(' '.join(header.settings.inject))})"
    of = f" of {where}" if where else ""
    return f"{done} on {devices or 'no device'}{of}{by}."
