"""Messages in pieces, from the side of one rank."""

from __future__ import annotations

import gc
from functools import partial

from cclmark import _engine as engine
from cclmark.plan.inject import Injection
from cclmark.plan.items import items_of
from cclmark.kinds.pieces.plan import PieceCase
from cclmark.kinds.pieces.result import PieceResult
from cclmark.run.all_or_none import in_step
from cclmark.run.context import RankContext
from cclmark.run.measured_libraries import OpenLibrary
from cclmark.run.opening import measure_each, require_present
from cclmark.run.pieces_runner import PieceRunner
from cclmark.run.reserved_buffers import buffer_kind_of, free_on_all, reserve_for


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the cases; rank 0 reports."""
    items = items_of(context.rank.planned, PieceCase)
    measure_each(context, [one.case for one in items], partial(_measure, context, items))


def _measure(context: RankContext, items: list[PieceCase], name: str, library: OpenLibrary) -> None:
    """Measures the cases of one library, a collective call. Raises EngineError."""
    rank, job = context.rank, context.job
    pending = job.pending or range(len(items))
    indices = [index for index in pending if items[index].ccl == name]
    if not indices:
        return
    rank.enter("communicator creation")
    device = context.devices[0]
    try:
        in_step(rank.agreement, partial(require_present, library))
        communicator = in_step(rank.agreement, partial(library.join, rank, device))
    except engine.UnsupportedError as error:
        if all(one.ccl == name for one in items):
            raise engine.MissingError(str(error)) from None
        for index in indices if job.rank == 0 else []:
            rank.report(PieceResult(index, items[index], "skipped", str(error)))
        return
    try:
        _measure_on(context, items, indices, library, communicator)
    except engine.AbortedError:
        communicator.check()  # may raise the error that made the other ranks stop
        raise
    del communicator


def _measure_on(
    context: RankContext,
    items: list[PieceCase],
    indices: list[int],
    library: OpenLibrary,
    communicator: engine.Communicator,
) -> None:
    rank, job, device = context.rank, context.job, context.devices[0]
    session = engine.Session(device, rank.rank_group, communicator, rank.counter)
    rank.enter("allocating buffers")
    kind = buffer_kind_of(context, library)
    cases = [items[index].case for index in indices]
    free_bytes = free_on_all(device, rank.rank_group, len(job.ranks_here))
    too_large = reserve_for(cases, session, rank.rank_group, kind, free_bytes)
    parsed = [Injection.parse(text, job.ranks) for text in job.settings.inject]
    runner = PieceRunner(
        session,
        rank,
        [one for one in parsed if one.rank == job.rank],
        launches=device.info.runtime != "host" and job.settings.timing != "blocking",
    )
    if session.checked_on_host:
        rank.notice(f"outputs are checked on the host: {session.checked_on_host}")
    gc.collect()
    gc.disable()
    for index in indices:
        rank.case_index = index
        item = items[index]
        if item.case in too_large:
            result = PieceResult(index, item, "skipped", too_large[item.case])
        else:
            result = runner.run(index, item)
        if job.rank == 0:
            rank.report(result)
    rank.case_index = -1
    rank.enter("shutdown")
    del runner, session
    communicator.leave()
