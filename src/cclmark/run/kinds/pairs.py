"""Collectives of every two ranks, from the side of one rank."""

from __future__ import annotations

from cclmark.plan.cases import Case
from cclmark.plan.items import items_of
from cclmark.run.context import RankContext
from cclmark.run.measured_libraries import Library, NativeLibrary
from cclmark.run.opening import measure_each
from cclmark.run.pair_measurement import PairsRunner


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures or explains all pairs.

    The first rank of each pair reports. Raises MissingError if a library is missing.
    """

    def measure(name: str, library: Library) -> None:
        assert isinstance(library, NativeLibrary)
        PairsRunner(context.rank, library.ccl, context.devices[0], context.instruments).run()

    measure_each(context, items_of(context.rank.planned, Case), measure, all_needed=True)
