"""The formats by name. To add one: a file with its exporter, a function and a line here."""

from __future__ import annotations

from collections.abc import Callable

from cclmark.report.formats.exporter import Exporter
from cclmark.results.kinds import CaseResult


def _csv() -> Exporter[CaseResult]:
    from cclmark.report.formats.csv_format import CsvExporter

    return CsvExporter()


def _json() -> Exporter[CaseResult]:
    from cclmark.report.formats.json_format import JsonExporter

    return JsonExporter()


def _markdown() -> Exporter[CaseResult]:
    from cclmark.report.formats.markdown import MarkdownExporter

    return MarkdownExporter()


def _nccl_tests() -> Exporter[CaseResult]:
    from cclmark.report.formats.nccl_tests import NcclTestsExporter

    return NcclTestsExporter()


def _flagcx() -> Exporter[CaseResult]:
    from cclmark.report.formats.flagcx import FlagcxExporter

    return FlagcxExporter()


def _hccl() -> Exporter[CaseResult]:
    from cclmark.report.formats.hccl import HcclExporter

    return HcclExporter()


# Functions and not classes, so that a run imports only the format that it writes.
FORMATS: dict[str, Callable[[], Exporter[CaseResult]]] = {
    "csv": _csv,
    "json": _json,
    "markdown": _markdown,
    "nccl-tests": _nccl_tests,
    "flagcx": _flagcx,
    "hccl": _hccl,
}
