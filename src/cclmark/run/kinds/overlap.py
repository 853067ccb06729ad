"""Overlaps on one rank: collectives beside a compute."""

from __future__ import annotations

from cclmark import _engine as engine
from cclmark.plan.items import items_of
from cclmark.kinds.overlap.plan import Overlap
from cclmark.run.compute import open_compute
from cclmark.run.context import RankContext
from cclmark.run.overlap_runner import OverlapRunner
from cclmark.run.variant_runner import Measure, run_variants


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures the overlaps; rank 0 reports."""
    rank = context.rank
    overlaps = items_of(rank.planned, Overlap)
    is_host = context.devices[0].info.runtime == "host"
    opened: list[engine.Compute] = []

    def measurer(session: engine.Session) -> Measure:
        runner = OverlapRunner(session, rank, context.job.settings, opened[0], is_host=is_host)
        return lambda index: runner.run(index, overlaps[index])

    def prepare() -> None:
        rank.enter("preparing")
        opened.append(open_compute(context, overlaps[0].compute))

    explains = context.instruments is not None
    run_variants(context, overlaps, measurer, None if explains else prepare, starts_threads=True)
