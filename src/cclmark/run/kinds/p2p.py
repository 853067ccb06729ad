"""Transfers between devices, from the side of one rank."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence

from cclmark import _engine as engine
from cclmark.plan.inject import Injection
from cclmark.plan.items import items_of
from cclmark.plan.transfers import MEASURES_MEMORY, Transfer
from cclmark.results.kinds import TransferResult
from cclmark.run.context import RankContext
from cclmark.run.host_transfers import HostTransfers
from cclmark.run.memory_limit import memory_bytes_per_s
from cclmark.run.transfer import TransferRunner

_kept: list[TransferRunner | HostTransfers] = []


def run(context: RankContext) -> None:
    """Introduces the rank and measures the transfers; rank 0 reports."""
    rank, job, devices = context.rank, context.job, context.devices
    if job.hosts:
        of_hosts = HostTransfers(context)
        _kept.append(of_hosts)
        of_hosts.run()
        return
    limit = 0.0
    if job.attachment == MEASURES_MEMORY:
        rank.enter("measuring the memory")
        limit = memory_bytes_per_s(devices, rank.rank_group, job.settings.seed)
    context.introduce([], limit)
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
    if runner.checked_on_host and job.rank == 0 and not job.traced_operations:
        rank.notice(f"outputs are checked on the host: {runner.checked_on_host}")
    # Kept until the process exits, because releasing the memory of a copy that hangs would hang.
    _kept.append(runner)
    pending = job.pending or range(len(transfers))
    try:
        too_large = runner.reserve([transfers[index] for index in pending])
    except engine.UnsupportedError as error:
        raise engine.MissingError(str(error)) from None
    if job.traced_operations:
        _trace(context, runner, transfers, too_large)
        return
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


def _trace(
    context: RankContext,
    runner: TransferRunner,
    transfers: Sequence[Transfer],
    left_out: Mapping[Transfer, str],
) -> None:
    """Traces the transfer instead of measuring it. Raises MissingError if that is not possible."""
    from cclmark.run.copy_tracing import CopyTracer  # not imported by ranks that measure

    (transfer,) = transfers
    if transfer in left_out:
        raise engine.MissingError(left_out[transfer])
    context.rank.stage_bytes = runner.room_bytes(transfer)
    tracer = CopyTracer(context.rank, runner, context.devices)
    try:
        tracer.run(0, transfer)
    except (engine.UnsupportedError, engine.OutOfMemoryError) as error:
        raise engine.MissingError(str(error)) from None
    tracer.send()
