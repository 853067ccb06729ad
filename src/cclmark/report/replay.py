"""A journal written out by the exporters that runs use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cclmark.report.check_formats import CheckMarkdown, CheckTable
from cclmark.report.exporter import Exporter, Observer
from cclmark.report.formats import FORMATS
from cclmark.report.json_format import JsonExporter
from cclmark.report.pair_formats import PairMarkdown
from cclmark.report.pair_table import PairTable
from cclmark.report.reference_notes import Load, ReferenceNotes, no_references
from cclmark.report.table import TableExporter
from cclmark.report.transfer_formats import TransferMarkdown, TransferPccl
from cclmark.report.transfer_table import TransferTable
from cclmark.results.journal import Journal
from cclmark.results.schema import CaseResult, CheckResult, Header, TransferResult

_R = TypeVar("_R")
_Cases = Callable[[Header, ReferenceNotes], Exporter[CaseResult]]
_Transfers = Callable[[Header, ReferenceNotes], Exporter[TransferResult]]
_Checks = Callable[[Header, ReferenceNotes], Exporter[CheckResult]]

_CASES: dict[str, _Cases] = {
    "table": lambda header, notes: TableExporter(references=notes),
    "json": lambda header, notes: JsonExporter(),
    "markdown": lambda header, notes: FORMATS["markdown"](),
    "nccl-tests": lambda header, notes: FORMATS["nccl-tests"](),
    "flagcx": lambda header, notes: FORMATS["flagcx"](),
    "hccl": lambda header, notes: FORMATS["hccl"](),
}
_PAIRS: dict[str, _Cases] = {
    "table": lambda header, notes: PairTable(),
    "json": lambda header, notes: JsonExporter(),
    "markdown": lambda header, notes: PairMarkdown(),
}
_TRANSFERS: dict[str, _Transfers] = {
    "table": lambda header, notes: TransferTable(hosts=_several_hosts(header), references=notes),
    "json": lambda header, notes: JsonExporter("transfers"),
    "markdown": lambda header, notes: TransferMarkdown(shares=False, hosts=_several_hosts(header)),
    "pccl": lambda header, notes: TransferPccl(shares=False, hosts=_several_hosts(header)),
}
_CHECKS: dict[str, _Checks] = {
    "table": lambda header, notes: CheckTable(),
    "json": lambda header, notes: JsonExporter("checks"),
    "markdown": lambda header, notes: CheckMarkdown(),
}


def kind_of(journal: Journal) -> str:
    """``transfers``, ``checks``, ``pairs`` or ``cases``: what a journal's results are."""
    if journal.transfers:
        return "transfers"
    if journal.checks:
        return "checks"
    pairs = bool(journal.results) and all(one.case.pair is not None for one in journal.results)
    return "pairs" if pairs else "cases"


def formats_of(kind: str) -> list[str]:
    """The formats in which results of ``kind`` can be written out one journal at a time."""
    return {
        "transfers": list(_TRANSFERS),
        "checks": list(_CHECKS),
        "pairs": list(_PAIRS),
        "cases": list(_CASES),
    }[kind]


def replayed(journal: Journal, format: str, references: Load = no_references) -> str:
    """The text of ``format``, one of formats_of the journal's kind.

    ``references`` loads what the peaks of tables are held against.
    """
    notes = ReferenceNotes(references)
    kind, header = kind_of(journal), journal.header
    if kind == "transfers":
        return _replay(journal, _TRANSFERS[format](header, notes), journal.transfers)
    if kind == "checks":
        return _replay(journal, _CHECKS[format](header, notes), journal.checks)
    exporters = _PAIRS if kind == "pairs" else _CASES
    return _replay(journal, exporters[format](header, notes), journal.results)


def _replay(journal: Journal, exporter: Exporter[_R], results: Sequence[_R]) -> str:
    parts = [exporter.begin(journal.header)]
    parts += [exporter.add(result) for result in results]
    if isinstance(exporter, Observer):
        for condition in journal.conditions:
            exporter.observe(condition)
    parts.append(exporter.end(journal.footer))
    return "".join(parts)


def _several_hosts(header: Header) -> bool:
    return len({device.host for device in header.devices}) > 1
