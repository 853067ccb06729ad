"""Texts of a run as it is measured, in each format."""

from __future__ import annotations

from typing import Any

from cclmark.document.columns import CsvExporter
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

    The table requires a view with a journal.
    """
    own: ReportKind = kind.report()
    if format == "json":
        return JsonExporter(
            *(kind.listed_as, own.document, view.references),
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
    )
