"""The record of this kind of work."""

from __future__ import annotations

from typing import Any

from cclmark.journal.item_results import TransferResult
from cclmark.journal.kind import Kind
from cclmark.kinds.p2p.plan import falls_with_message, is_message
from cclmark.work.items import P2P
from cclmark.work.transfers import Transfer


def _report() -> Any:
    from cclmark.kinds.p2p.document import REPORT

    return REPORT


def _runner() -> Any:
    from cclmark.kinds.p2p.run import run

    return run


KIND = Kind(
    P2P,
    Transfer,
    TransferResult,
    "transfers",
    _report,
    between_devices=True,
    # As for pairs. A copy that hangs is a result, and one that fails ends the run.
    forgiven=("timeout", "error"),
    forgives=is_message,
    numbers_of_findings="flow",
    independent=True,
    falls_with=falls_with_message,
    runner=_runner,
)
