"""Transfers between devices, from the side of one rank."""

from __future__ import annotations

import gc

from cclmark import _engine as engine
from cclmark.plan.inject import Injection
from cclmark.plan.items import items_of
from cclmark.plan.transfers import Transfer
from cclmark.results.kinds import TransferResult
from cclmark.run.context import RankContext
from cclmark.run.transfer import TransferRunner

_kept: list[TransferRunner] = []


def run(context: RankContext) -> None:
    """Introduces the rank and measures the transfers; rank 0 reports."""
    rank, job, devices = context.rank, context.job, context.devices
    context.introduce([])
    transfers = items_of(rank.planned, Transfer)
    rank.enter("allocating buffers")
    total = len(devices) * job.ranks
    injections = [Injection.parse_for_pairs(text, total) for text in job.settings.inject]
    runner = TransferRunner(
        devices,
        rank.rank_group,
        job.settings,
        injections,
        rank.enter,
        context.inherited,
    )
    if runner.checked_on_host and job.rank == 0:
        rank.notice(f"outputs are checked on the host: {runner.checked_on_host}")
    # Kept until the process exits, because releasing the memory of a copy that hangs would hang.
    _kept.append(runner)
    pending = job.pending or range(len(transfers))
    try:
        too_large = runner.reserve([transfers[index] for index in pending])
    except engine.UnsupportedError as error:
        raise engine.MissingError(str(error)) from None
    gc.collect()
    gc.disable()
    for index in pending:
        transfer = transfers[index]
        rank.case_index = index
        if transfer in too_large:
            result = TransferResult(index, transfer, "skipped", too_large[transfer])
        else:
            result = runner.run(index, transfer)
        if job.rank == 0:
            rank.report(result)
    rank.case_index = -1
    rank.enter("finished")
