"""The measurement of several transfers in one process, in step with the other ranks of a host."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence

from cclmark import _engine as engine
from cclmark.plan.inject import Injection
from cclmark.plan.transfers import Transfer
from cclmark.results.item_results import TransferResult
from cclmark.run.context import RankContext
from cclmark.run.transfer import TransferRunner


def open_transfers(
    context: RankContext,
    rank_group: engine.RankGroup,
    injections: Sequence[Injection],
    host: str = "",
) -> TransferRunner:
    """A runner on the devices of ``rank_group``; its first rank reports checked outputs.

    ``host``: the name of their host in messages, empty in a run on a single one.

    The caller keeps it until the process exits if a copy hangs, because releasing the memory of
    such a copy would hang.
    """
    rank, job = context.rank, context.job
    rank.enter("allocating buffers")
    runner = TransferRunner(
        context.devices, rank_group, job.settings, injections, rank.enter, context.inherited
    )
    if runner.checked_on_host and rank_group.rank == 0 and not job.traced_operations:
        where = f"{host}: " if host else ""
        rank.notice(f"{where}outputs are checked on the host: {runner.checked_on_host}")
    return runner


def reserve(runner: TransferRunner, transfers: Sequence[Transfer]) -> dict[Transfer, str]:
    """Reserves memory for all transfers that fit and returns the others with the reason.

    Raises MissingError if the devices support none.
    """
    try:
        return runner.reserve(transfers)
    except engine.UnsupportedError as error:
        raise engine.MissingError(str(error)) from None


def measure_transfers(
    context: RankContext,
    runner: TransferRunner,
    transfers: Mapping[int, Transfer],
    report: Callable[[TransferResult], None],
) -> set[int]:
    """Measures transfers by their index in the run, and passes each result on.

    Returns the devices of the copies that hung. Raises MissingError.
    """
    too_large = reserve(runner, list(transfers.values()))
    gc.collect()
    gc.disable()
    hung: set[int] = set()
    for index, transfer in transfers.items():
        context.rank.case_index = index
        if transfer in too_large:
            result = TransferResult(index, transfer, "skipped", too_large[transfer])
        else:
            result = runner.run(index, transfer)
        hung.update(device for number in result.hung for device in transfer.flows[number])
        report(result)
    context.rank.case_index = -1
    return hung
