"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.item_results import CaseResult
from cclmark.journal.kind import Kind
from cclmark.kinds.pairs.plan import cases_of_pairs, falls_with_pair
from cclmark.work.cases import Case
from cclmark.work.items import PAIRS


def _report() -> Any:
    from cclmark.kinds.pairs.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark.kinds.pairs.run import run

    return run


KIND = Kind(
    PAIRS,
    Case,
    CaseResult,
    "cases",
    _report,
    between_devices=True,
    # A library that fails for one pair may work for another.
    forgiven=("timeout", "error"),
    independent=True,
    items=cases_of_pairs,
    falls_with=falls_with_pair,
    runner=_runner,
)
