"""Writes a journal as its run did, or in another format of runs."""

from __future__ import annotations

from collections.abc import Iterator

from cclmark.document.exporter import (
    Connects,
    HasNotices,
    Observer,
    Profiles,
)
from cclmark.document.exporters import exporter_of, formats_of
from cclmark.document.paint import Paint, unpainted
from cclmark.document.reference_notes import Load, ReferenceNotes, no_references
from cclmark.document.report_kind import View
from cclmark.errors import UsageError
from cclmark.kinds.registry import KINDS
from cclmark.results.journal import Journal


def replayed(
    journal: Journal,
    format: str,
    *,
    paint: Paint = unpainted,
    columns: int | None = None,
    references: Load = no_references,
) -> Iterator[str]:
    """Yields the text in ``format``, one of formats_of the journal's kind, piece by piece.

    ``columns``: the width of the terminal, None without one. ``references`` loads the references
    compared with the peaks of tables. Raises UsageError for an inconsistent journal.
    """
    try:
        view = View(journal, paint, columns, ReferenceNotes(references))
        yield from _pieces(journal, view, format)
    except (LookupError, ArithmeticError, ValueError, AssertionError) as error:
        raise UsageError(
            f"the journal of run {journal.header.run_id} cannot be shown as {format}: its "
            f"content is inconsistent ({type(error).__name__}: {error})"
        ) from None


def unshown(journal: Journal, format: str) -> list[str]:
    """Returns the findings for which the text in ``format`` has no place."""
    if format in ("json", "csv") or format not in formats_of(KINDS[journal.kind]):
        return []
    exporter = exporter_of(KINDS[journal.kind], format, View(journal))
    if not isinstance(exporter, HasNotices):
        return []
    exporter.begin(journal.header)
    for result in journal.results:
        exporter.add(result)
    exporter.end(journal.footer)
    return exporter.notices()


def _pieces(journal: Journal, view: View, format: str) -> Iterator[str]:
    exporter = exporter_of(KINDS[journal.kind], format, view)
    if isinstance(exporter, Observer):
        for condition in journal.conditions:
            exporter.observe(condition)
    if isinstance(exporter, Connects):
        for paths in journal.paths:
            exporter.connect(paths)
    if isinstance(exporter, Profiles) and journal.profile is not None:
        exporter.profile(journal.profile)
    yield exporter.begin(journal.header)
    for result in journal.results:
        yield exporter.add(result)
    yield exporter.end(journal.footer)
