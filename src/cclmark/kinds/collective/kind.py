"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.item_results import CaseResult
from cclmark.journal.kind import Kind
from cclmark.work.cases import Case
from cclmark.work.items import COLLECTIVE


def _report() -> Any:
    from cclmark.kinds.collective.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark.kinds.collective.run import run

    return run


KIND = Kind(
    COLLECTIVE,
    Case,
    CaseResult,
    "cases",
    _report,
    forgiven=("timeout",),
    has_device_times=True,
    runner=_runner,
)
