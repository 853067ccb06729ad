"""Texts of a run as it is measured, in each format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cclmark.base.errors import UsageError
from cclmark.document.blocks import Document, RunContent
from cclmark.document.columns import CsvExporter, rows_table
from cclmark.document.document_text import DocumentMarkdown, DocumentText
from cclmark.document.exporter import Exporter
from cclmark.document.json_format import JsonExporter
from cclmark.document.report_kind import ReportKind, View
from cclmark.journal.kind import Kind

_OF_DOCUMENTS = {"table": DocumentText, "markdown": DocumentMarkdown}
_WHILE_RUNNING = View()


def formats_of(kind: Kind) -> list[str]:
    """Returns the formats in which one journal with results of ``kind`` can be written."""
    own: ReportKind = kind.report()
    return list(dict.fromkeys(("table", "json", "csv", *_OF_DOCUMENTS, *own.formats)))


def exporter_of(kind: Kind, format: str, view: View = _WHILE_RUNNING) -> Exporter[Any]:
    """Returns the exporter of ``format``, one of formats_of(kind). Raises KeyError for another.

    The table requires a view with a journal. Raises UsageError for unknown fields of the view, and
    for a format that consists of more than fields.
    """
    own: ReportKind = kind.report()
    if view.fields:
        return _exporter_of_fields(own, format, view)
    if format == "json":
        return JsonExporter(
            *(kind.listed_as, own.document, view.references),
            headline=own.headline,
            keeps_samples=own.needs_samples,
            reduction=own.reduction,
        )
    if format == "csv":
        return CsvExporter(own.csv)
    if format in own.formats:
        return own.formats[format](view)
    return _OF_DOCUMENTS[format](
        *(own.document, view, own.part),
        in_order=own.in_order,
        keeps_samples=own.needs_samples,
        reduction=own.reduction,
        headline=own.headline,
    )


def _exporter_of_fields(own: ReportKind, format: str, view: View) -> Exporter[Any]:
    """The exporter of a row for each result, or several, with the fields of the view."""
    layout = own.fields.layout.chosen(view.fields)
    if format == "csv":
        return CsvExporter(layout)
    if format not in _OF_DOCUMENTS:
        formats = ", ".join(("csv", *_OF_DOCUMENTS))
        raise UsageError(f"--columns: {format} has no columns to choose: use {formats}")

    def compose(run: RunContent) -> Document:
        rows_of = layout.rows_of(run.header, run.profile)
        rows = [row for result in run.results for row in rows_of(result)]
        blocks = [rows_table(own.title, layout, rows)] if rows else []
        if not run.is_whole:
            return Document(own.title, own.method(run.header), blocks)
        return replace(own.document(run), opening=(), blocks=blocks, closing=())

    return _OF_DOCUMENTS[format](
        compose, view, lambda result: (result.index, 1), keeps_samples=own.needs_samples
    )
