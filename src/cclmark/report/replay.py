"""A journal written out as its run wrote it, or in another format of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from cclmark.errors import UsageError
from cclmark.report.formats.exporter import Exporter, Observer
from cclmark.report.formats.json_format import JsonExporter
from cclmark.report.formats.text_formats import FORMATS
from cclmark.report.kinds.case_table import TableExporter
from cclmark.report.kinds.check_formats import CheckCsv, CheckMarkdown, CheckTable
from cclmark.report.kinds.pair_formats import PairCsv, PairMarkdown
from cclmark.report.kinds.pair_table import PairTable
from cclmark.report.kinds.soak_table import SoakTable
from cclmark.report.kinds.transfer_formats import TransferCsv, TransferMarkdown, TransferPccl
from cclmark.report.kinds.transfer_table import TransferTable
from cclmark.report.wording.paint import Paint, unpainted
from cclmark.report.wording.reference_notes import Load, ReferenceNotes, no_references
from cclmark.report.wording.text import plain, plain_lines
from cclmark.results.journal import Journal
from cclmark.results.schema import Footer

# Text for a terminal. The other formats write in their own ways what one would obey.
_FOR_TERMINALS = ("table", "pccl")
_NUMBERS = ("samples", "matrix", "flows", "weights")  # fields that may be large


@dataclass(frozen=True)
class _Page:
    """What is written out, and for where. ``columns``: of the terminal, None for none.

    ``references``: what the peaks of a table are held against.
    """

    journal: Journal
    paint: Paint
    columns: int | None
    references: ReferenceNotes

    @property
    def hosts(self) -> bool:
        """Whether devices are of several hosts."""
        header = self.journal.header
        return len(header.hosts) > 1 or len({device.host for device in header.devices}) > 1


_Exporters = dict[str, Callable[[_Page], Exporter[Any]]]


def _case_table(page: _Page) -> Exporter[Any]:
    placements = {result.case.in_place for result in page.journal.cases} or {False, True}

    def table() -> TableExporter:
        return TableExporter(
            paint=page.paint,
            out_of_place=False in placements,
            in_place=True in placements,
            terminal_columns=page.columns,
            references=page.references,
        )

    soak = page.journal.header.settings.duration_s > 0
    return SoakTable(table, page.paint, 0.0) if soak else table()


_CASES: _Exporters = {
    "table": _case_table,
    "json": lambda page: JsonExporter(),
    "csv": lambda page: FORMATS["csv"](),
    "markdown": lambda page: FORMATS["markdown"](),
    "nccl-tests": lambda page: FORMATS["nccl-tests"](),
    "flagcx": lambda page: FORMATS["flagcx"](),
    "hccl": lambda page: FORMATS["hccl"](),
}
_PAIRS: _Exporters = {
    "table": lambda page: PairTable(paint=page.paint, width=page.columns),
    "json": lambda page: JsonExporter(),
    "csv": lambda page: PairCsv(),
    "markdown": lambda page: PairMarkdown(),
}
_TRANSFERS: _Exporters = {
    "table": lambda page: TransferTable(
        paint=page.paint, hosts=page.hosts, width=page.columns, references=page.references
    ),
    "json": lambda page: JsonExporter("transfers"),
    "csv": lambda page: TransferCsv(),
    "markdown": lambda page: TransferMarkdown(
        shares=False, hosts=page.hosts, references=page.references
    ),
    "pccl": lambda page: TransferPccl(shares=False, hosts=page.hosts),
}
_CHECKS: _Exporters = {
    "table": lambda page: CheckTable(paint=page.paint),
    "json": lambda page: JsonExporter("checks"),
    "csv": lambda page: CheckCsv(),
    "markdown": lambda page: CheckMarkdown(),
}
_KINDS = {"transfers": _TRANSFERS, "checks": _CHECKS, "pairs": _PAIRS, "cases": _CASES}


def kind_of(journal: Journal) -> str:
    """``transfers``, ``checks``, ``pairs`` or ``cases``: what a journal's results are."""
    if journal.transfers:
        return "transfers"
    if journal.checks:
        return "checks"
    pairs = bool(journal.cases) and all(one.case.pair is not None for one in journal.cases)
    return "pairs" if pairs else "cases"


def formats_of(kind: str) -> list[str]:
    """The formats in which results of ``kind`` can be written out one journal at a time."""
    return list(_KINDS[kind])


def replayed(
    journal: Journal,
    format: str,
    *,
    paint: Paint = unpainted,
    columns: int | None = None,
    references: Load = no_references,
) -> Iterator[str]:
    """The text of ``format``, one of formats_of the journal's kind, piece by piece.

    ``columns``: of the terminal, None for none. ``references`` loads what the peaks of tables are
    held against. The journal may come from anywhere: nothing in it
    reaches a terminal raw. Raises UsageError for an inconsistent journal.
    """
    try:
        yield from _pieces(_Page(journal, paint, columns, ReferenceNotes(references)), format)
    except (LookupError, ArithmeticError, ValueError, AssertionError) as error:
        raise UsageError(
            f"the journal of run {journal.header.run_id} cannot be shown as {format}: what it says "
            f"does not fit together ({type(error).__name__}: {error})"
        ) from None


def _pieces(page: _Page, format: str) -> Iterator[str]:
    journal = page.journal
    exporter = _KINDS[kind_of(journal)][format](page)
    clean: Callable[[Any], Any] = _plain if format in _FOR_TERMINALS else _as_it_is
    if isinstance(exporter, Observer):
        for condition in journal.conditions:
            exporter.observe(clean(condition))
    yield exporter.begin(clean(journal.header))
    for result in journal.results:
        yield exporter.add(clean(result))
    yield exporter.end(clean(journal.footer))


def _as_it_is(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """The same without anything that a terminal would obey, however deep it is."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Footer):
        # Tables show the first line of its message.
        return msgspec.structs.replace(value, message=plain_lines(value.message))
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
