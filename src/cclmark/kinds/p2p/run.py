"""Copies and messages between devices, from the side of one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cclmark._engine as engine
from cclmark.kinds.p2p.host_transfers import HostTransfers
from cclmark.kinds.p2p.transfer_runner import (
    TransferRunner,
    measure_transfers,
    memory_bytes_per_s,
    open_transfers,
    reserve,
)
from cclmark.rank.context import RankContext
from cclmark.work.inject import Injection
from cclmark.work.items import items_of
from cclmark.work.transfers import MEASURES_MEMORY, Transfer

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
    total = len(devices) * job.ranks
    injections = [Injection.parse_for_pairs(text, total) for text in job.settings.inject]
    runner = open_transfers(context, rank.rank_group, injections)
    _kept.append(runner)
    pending = {index: transfers[index] for index in job.pending or range(len(transfers))}
    if job.traced_operations:
        _trace(context, runner, transfers, reserve(runner, list(pending.values())))
        return

    measure_transfers(context, runner, pending)
    rank.enter("finished")


def _trace(
    context: RankContext,
    runner: TransferRunner,
    transfers: Sequence[Transfer],
    left_out: Mapping[Transfer, str],
) -> None:
    """Traces the transfer instead of measuring it. Raises MissingError if that is not possible."""
    from cclmark.kinds.p2p.trace import CopyTracer  # not imported by ranks that measure

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
