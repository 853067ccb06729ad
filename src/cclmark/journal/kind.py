"""The record of a kind of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cclmark.journal.item_results import Result
from cclmark.work.items import Item


@dataclass(frozen=True)
class Kind:
    """A kind of work: what launching, recording and reading have to know of it.

    ``name``: as Item.kind has it. ``item``: the type of the planned items, ``result`` that of their
    results. ``listed_as``: the name of their list in JSON documents. ``between_devices``: the
    results include the connections between devices. ``forgiven``: the failures (see
    messages.Failed) after which new ranks continue with the remaining items, empty where every
    failure ends the run. ``forgives``: whether this applies to an item. ``independent``: a hang in
    one item does not predict a hang in the next one. ``in_rounds``: items have variants and rounds;
    each variant may require other processes, and an item whose ranks fail has been measured like
    any other, so the run ends well. ``requires_variant``: a run in which every variant failed has
    failed, even if the default was measured. ``has_device_times``: --timing auto measures the time
    of the devices. ``numbers_of_findings``: what the numbers of findings count. ``items``: returns
    all items to measure, from the planned items and the number of processes. ``falls_with``:
    whether an item is skipped together with the item that failed in a phase. ``carry``: where
    devices that fail are left out and the others continue, what rank 0 has to know: from the
    attachment of the request, the numbers of the remaining devices, the reasons by the numbers of
    those left out, and the results so far; None where a failure of a device ends the run.
    ``report`` imports and returns what reports have to know, a document.report_kind.ReportKind.
    ``runner`` imports and returns what a rank does, a function of its rank.context.RankContext;
    None if no ranks of cclmark measure the items, because they come from programs of the user.
    ``usual_s``: the time of an item on a host of two processors, for the plan of --dry-run, where
    no option limits it.
    """

    name: str
    item: type[Any]
    result: type[Any]
    listed_as: str
    report: Callable[[], Any]
    between_devices: bool = False
    forgiven: tuple[str, ...] = ()
    forgives: Callable[[Item], bool] = lambda item: True
    independent: bool = False
    in_rounds: bool = False
    requires_variant: bool = False
    has_device_times: bool = False
    numbers_of_findings: str = "rank"
    usual_s: float = 0.0
    items: Callable[[Sequence[Item], int], Sequence[Item]] = lambda planned, processes: planned
    falls_with: Callable[[Item, Item, str], bool] = lambda item, culprit, phase: False
    runner: Callable[[], Callable[[Any], None]] | None = None
    carry: Callable[[bytes, Sequence[int], Mapping[int, str], Sequence[Result]], bytes] | None = (
        None
    )

    def failed(self, index: int, item: Item, status: str, reason: str, report: str = "") -> Result:
        """The result of an item without figures. ``report``: the state of every rank."""
        result: Result = self.result(index, item, status, reason, report=report)
        return result
