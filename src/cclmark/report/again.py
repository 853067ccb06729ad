"""A journal printed as its run printed it, or in another format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from cclmark.errors import UsageError
from cclmark.report.exporter import Exporter, Observer
from cclmark.report.paint import Paint, unpainted
from cclmark.report.reference_notes import Load, ReferenceNotes, no_references
from cclmark.report.text import plain
from cclmark.results.journal import Journal

AGAIN_FORMATS = ("table", "json", "csv", "markdown")
_NUMBERS = ("samples", "matrix", "flows", "weights")  # fields that may be large


def printed_again(
    journal: Journal,
    format: str,
    *,
    paint: Paint = unpainted,
    columns: int | None = None,
    references: Load = no_references,
) -> Iterator[str]:
    """The text of a journal, piece by piece. ``columns``: of the terminal, None for none.

    ``references`` loads what the peaks of a table are held against.

    It may come from anywhere. Raises UsageError where it makes no sense.
    """
    notes = ReferenceNotes(references)
    try:
        yield from _pieces(journal, _exporter(journal, format, paint, columns, notes), format)
    except (LookupError, ArithmeticError, ValueError, AssertionError) as error:
        raise UsageError(
            f"the journal of run {journal.header.run_id} cannot be shown as {format}: what it says "
            f"does not fit together ({type(error).__name__}: {error})"
        ) from None


def _pieces(journal: Journal, exporter: Exporter[Any], format: str) -> Iterator[str]:
    # The other formats write what would be obeyed in their own ways.
    clean: Callable[[Any], Any] = _plain if format == "table" else _as_it_is
    if isinstance(exporter, Observer):
        for condition in journal.conditions:
            exporter.observe(clean(condition))
    yield exporter.begin(clean(journal.header))
    for result in (*journal.results, *journal.transfers, *journal.checks):
        yield exporter.add(clean(result))
    yield exporter.end(clean(journal.footer))


def _as_it_is(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """The same without anything that a terminal would obey, however deep it is."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, msgspec.Struct):
        found = {
            name: _plain(part)
            for name in value.__struct_fields__
            if name not in _NUMBERS and not isinstance(part := getattr(value, name), (int, float))
        }
        return msgspec.structs.replace(value, **found)
    if isinstance(value, Mapping):
        return {plain(str(name)): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return value


def _exporter(
    journal: Journal, format: str, paint: Paint, columns: int | None, notes: ReferenceNotes
) -> Exporter[Any]:
    if journal.transfers:
        return _of_transfers(journal, format, paint, notes)
    if journal.checks:
        return _of_checks(format, paint)
    if any(result.case.pair is not None for result in journal.results):
        return _of_pairs(format, paint, columns)
    return _of_cases(journal, format, paint, columns, notes)


def _of_cases(
    journal: Journal, format: str, paint: Paint, columns: int | None, notes: ReferenceNotes
) -> Exporter[Any]:
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
            references=notes,
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


def _of_transfers(
    journal: Journal, format: str, paint: Paint, notes: ReferenceNotes
) -> Exporter[Any]:
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
    return TransferTable(paint=paint, hosts=hosts, references=notes)


def _of_checks(format: str, paint: Paint) -> Exporter[Any]:
    from cclmark.report.check_formats import CheckCsv, CheckMarkdown, CheckTable
    from cclmark.report.json_format import JsonExporter

    if format == "json":
        return JsonExporter("checks")
    if format == "csv":
        return CheckCsv()
    return CheckMarkdown() if format == "markdown" else CheckTable(paint=paint)
