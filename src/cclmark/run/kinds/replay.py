"""Replays of a program's step on one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from cclmark import _engine as engine
from cclmark.plan.items import items_of
from cclmark.kinds.replay.plan import RankStep, Replay, ReplayWay
from cclmark.kinds.replay.result import ReplayResult
from cclmark.run.all_or_none import in_step
from cclmark.run.compute import open_compute
from cclmark.run.context import RankContext
from cclmark.run.measured_libraries import NativeLibrary, OpenLibrary, join_with_id
from cclmark.run.opening import measure_each
from cclmark.run.rank import Rank
from cclmark.run.step_runner import StepRunner


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the replays; rank 0 reports."""
    items = items_of(context.rank.planned, Replay)
    step = msgspec.msgpack.decode(context.job.attachment, type=RankStep)
    measure_each(context, items, partial(_measure, context, items, step), all_needed=True)


def _measure(
    context: RankContext, items: Sequence[Replay], step: RankStep, name: str, library: OpenLibrary
) -> None:
    """Measures the replays with one library, a collective call. Raises EngineError."""
    rank, device = context.rank, context.devices[0]
    indices = [index for index, item in enumerate(items) if item.ccl == name]
    # A failure before the first step is attributed to the first item.
    rank.case_index = indices[0]
    rank.enter("communicator creation")
    # Each variant has its own processes.
    options = items[indices[0]].variant.options
    communicators = _join_groups(rank, device, step, library, options)
    runner, compute = None, None
    way: ReplayWay | None = None
    later_s: dict[str, list[float]] = {}
    ways = {items[index].way for index in indices}
    try:
        for index in indices:
            item = items[index]
            rank.case_index = index
            if runner is None or way != item.way:
                rank.enter("allocating buffers")
                runner, compute = None, None  # their memory is free before more is taken
                way = item.way
                try:
                    if item.compute is not None:
                        compute = open_compute(context, item.compute)
                    runner = in_step(
                        rank.agreement,
                        partial(
                            StepRunner,
                            *(rank, device, step, item.gaps, communicators, compute, later_s),
                        ),
                    )
                except (engine.MissingError, engine.UnsupportedError) as error:
                    # Raised on all ranks. What all replays require ends the run.
                    if item.compute is None or len(ways) == 1:
                        raise
                    if rank.job.rank == 0:
                        rank.report(ReplayResult(index, item, "skipped", str(error)))
                    continue
            result = runner.run(index, item)
            if rank.job.rank == 0:
                rank.report(result)
    except engine.AbortedError:
        for communicator in communicators:
            if communicator is not None:
                communicator.check()  # may raise the error that made the other ranks stop
        raise
    rank.enter("shutdown")
    del runner, compute
    for communicator in communicators:
        if communicator is not None:
            communicator.leave()
    del communicator, communicators
    rank.groups.clear()
    rank.case_index = -1


def _join_groups(
    rank: Rank,
    device: engine.Device,
    step: RankStep,
    library: OpenLibrary,
    options: Mapping[str, str],
) -> list[engine.Communicator | None]:
    """Creates the communicators of all groups, one after the other; None for those of others."""
    if not isinstance(library, NativeLibrary):
        raise engine.MissingError("replay supports only libraries that cclmark loads itself")
    found: list[engine.Communicator | None] = []
    for number, members in enumerate(step.groups):
        rank.enter("communicator creation")
        join = partial(_join, rank, device, library, number, members, options)
        if rank.job.rank in members:
            found.append(in_step(rank.agreement, join))
        else:
            found.append(in_step(rank.agreement, lambda: None))
        # The next group meets in the same slots.
        rank.rank_group.barrier()
    return found


def _join(
    rank: Rank,
    device: engine.Device,
    library: NativeLibrary,
    number: int,
    members: Sequence[int],
    options: Mapping[str, str],
) -> engine.Communicator:
    job = rank.job
    group = rank.rank_group.subgroup(job.rank_group_fd, list(members), job.ranks)
    rank.groups.append(group)
    rank.enter("communicator creation")
    key = f"communicator id of {library.ccl.info.name} for group {number}"
    return join_with_id(library.ccl, rank, device, group, key, options)
