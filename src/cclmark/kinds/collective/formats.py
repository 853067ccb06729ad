"""The text formats of cases, of other tools.

To add a format: a module with its exporter, a function that imports it, and a line in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cclmark.document.exporter import Exporter
    from cclmark.journal.item_results import CaseResult


def _nccl_tests() -> Exporter[CaseResult]:
    from cclmark.kinds.collective.nccl_tests import NcclTestsExporter

    return NcclTestsExporter()


def _flagcx() -> Exporter[CaseResult]:
    from cclmark.kinds.collective.line_formats import FlagcxExporter

    return FlagcxExporter()


def _hccl() -> Exporter[CaseResult]:
    from cclmark.kinds.collective.line_formats import HcclExporter

    return HcclExporter()


CASE_FORMATS: dict[str, Callable[[], Exporter[CaseResult]]] = {
    "nccl-tests": _nccl_tests,
    "flagcx": _flagcx,
    "hccl": _hccl,
}
