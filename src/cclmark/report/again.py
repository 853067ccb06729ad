"""A journal printed as its run printed it, or in another format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cclmark.report.exporter import Exporter, Observer
from cclmark.report.paint import Paint, unpainted
from cclmark.results.journal import Journal

AGAIN_FORMATS = ("table", "json", "csv", "markdown")


def printed_again(
    journal: Journal, format: str, *, paint: Paint = unpainted, columns: int | None = None
) -> Iterator[str]:
    """The text of a journal, piece by piece. ``columns``: of the terminal, None for none."""
    exporter = _exporter(journal, format, paint, columns)
    if isinstance(exporter, Observer):
        for condition in journal.conditions:
            exporter.observe(condition)
    yield exporter.begin(journal.header)
    for result in (*journal.results, *journal.transfers, *journal.checks):
        yield exporter.add(result)
    yield exporter.end(journal.footer)


def _exporter(journal: Journal, format: str, paint: Paint, columns: int | None) -> Exporter[Any]:
    if journal.transfers:
        return _of_transfers(journal, format, paint)
    if journal.checks:
        return _of_checks(format, paint)
    if any(result.case.pair is not None for result in journal.results):
        return _of_pairs(format, paint, columns)
    return _of_cases(journal, format, paint, columns)


def _of_cases(journal: Journal, format: str, paint: Paint, columns: int | None) -> Exporter[Any]:
    from cclmark.report.formats import FORMATS
    from cclmark.report.soak import SoakTable
    from cclmark.report.table import TableExporter

    if format != "table":
        return FORMATS[format]()
    placements = {result.case.in_place for result in journal.results} or {False, True}

    def table() -> TableExporter:
        return TableExporter(
            paint=paint,
            out_of_place=False in placements,
            in_place=True in placements,
            terminal_columns=columns,
        )

    return SoakTable(table, paint, 0.0) if journal.header.settings.duration_s else table()


def _of_pairs(format: str, paint: Paint, columns: int | None) -> Exporter[Any]:
    from cclmark.report.formats import FORMATS
    from cclmark.report.pair_formats import PairCsv, PairMarkdown
    from cclmark.report.pair_table import PairTable

    if format == "csv":
        return PairCsv()
    if format == "markdown":
        return PairMarkdown()
    return FORMATS[format]() if format == "json" else PairTable(paint=paint, width=columns)


def _of_transfers(journal: Journal, format: str, paint: Paint) -> Exporter[Any]:
    from cclmark.report.json_format import JsonExporter
    from cclmark.report.transfer_formats import TransferCsv, TransferMarkdown
    from cclmark.report.transfer_table import TransferTable

    hosts = bool(journal.header.hosts)
    if format == "json":
        return JsonExporter("transfers")
    if format == "csv":
        return TransferCsv()
    if format == "markdown":
        return TransferMarkdown(shares=False, hosts=hosts)
    return TransferTable(paint=paint, hosts=hosts)


def _of_checks(format: str, paint: Paint) -> Exporter[Any]:
    from cclmark.report.check_formats import CheckCsv, CheckMarkdown, CheckTable
    from cclmark.report.json_format import JsonExporter

    if format == "json":
        return JsonExporter("checks")
    if format == "csv":
        return CheckCsv()
    return CheckMarkdown() if format == "markdown" else CheckTable(paint=paint)
