"""The results of checks in journals."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import msgspec

from cclmark.journal.item_results import ItemResult
from cclmark.kinds.check.plan import Check
from cclmark.work.counts import Count
from cclmark.work.items import Status

# Enumerations for msgspec, texts for the type checker: see work.items.
if TYPE_CHECKING:
    Moment: TypeAlias = str
else:
    Moment = Literal["", "before", "after"]


class CheckedValue(msgspec.Struct):
    """A tensor of a check on one rank, as text.

    ``moment``: ``before`` the operation ``call`` that has it as the argument ``name``, or ``after``
    it, where ``name`` is the output that was compared. Empty for the number of values left out.
    """

    rank: int
    moment: Moment
    call: str
    name: str
    text: str


class CheckResult(ItemResult[Check], tag="check", omit_defaults=True):
    """A check of a framework's backend and its verdict on all ranks together.

    ``status``: ok, unsupported (on every rank, with the reason) or failed (with the first rank that
    failed, and the reason). ``values``: the tensors before and after the operations, by rank, if
    they are reported.
    """

    is_measured: ClassVar[bool] = True
    is_checked: ClassVar[bool] = True

    index: Count
    check: Check
    status: Status
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0
    values: list[CheckedValue] = []
