"""Writes a journal as its run did, or in another format of runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cclmark.document.document_text import DocumentMarkdown, DocumentText
from cclmark.document.exporter import (
    Connects,
    Exporter,
    HasNotices,
    Observer,
    Profiles,
)
from cclmark.document.paint import Paint, unpainted
from cclmark.document.reference_notes import Load, ReferenceNotes, no_references
from cclmark.document.report_kind import View
from cclmark.errors import UsageError
from cclmark.kinds.registry import KINDS, report_kind
from cclmark.report.formats.csv_format import CsvExporter
from cclmark.report.formats.json_format import JsonExporter
from cclmark.results.journal import Journal

_OF_DOCUMENTS = {"table": DocumentText, "markdown": DocumentMarkdown}


def formats_of(kind: str) -> list[str]:
    """Returns the formats in which one journal with results of ``kind`` can be written."""
    own = report_kind(kind)
    others = own.formats if own.document is None else _OF_DOCUMENTS
    return list(dict.fromkeys(("table", "json", "csv", *others)))


_WHILE_RUNNING = View()


def exporter_of(kind: str, format: str, view: View = _WHILE_RUNNING) -> Exporter[Any]:
    """Returns the exporter of ``format``, one of formats_of(kind). Raises KeyError for another.

    The table requires a view with a journal.
    """
    if format == "json":
        return JsonExporter(KINDS[kind].listed_as)
    own = report_kind(kind)
    if format == "csv":
        return CsvExporter(own.csv)
    if own.document is not None:
        return _OF_DOCUMENTS[format](own.document, view, own.part)
    return own.formats[format](view)


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
    if format in ("json", "csv") or format not in formats_of(journal.kind):
        return []
    exporter = exporter_of(journal.kind, format, View(journal))
    if not isinstance(exporter, HasNotices):
        return []
    exporter.begin(journal.header)
    for result in journal.results:
        exporter.add(result)
    exporter.end(journal.footer)
    return exporter.notices()


def _pieces(journal: Journal, view: View, format: str) -> Iterator[str]:
    exporter = exporter_of(journal.kind, format, view)
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
