"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.kind import Kind
from cclmark_fleet.doctor.plan import DOCTOR, Examination
from cclmark_fleet.doctor.result import ExaminationResult


def _report() -> Any:
    from cclmark_fleet.doctor.document import REPORT

    return REPORT


KIND = Kind(
    DOCTOR,
    Examination,
    ExaminationResult,
    "hosts",
    _report,
)
