"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_fleet.scan.plan import SCAN, ScanRound
from cclmark_fleet.scan.result import ScanResult, carried


def _runner() -> Any:
    from cclmark_fleet.scan.run import run

    return run


def _report() -> Any:
    from cclmark_fleet.scan.document import REPORT

    return REPORT


KIND = Kind(
    SCAN,
    ScanRound,
    ScanResult,
    "rounds",
    runner=_runner,
    usual_s=0.5,
    report=_report,
    carry=carried,
)
