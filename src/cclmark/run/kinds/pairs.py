"""Collectives of every two ranks, from the side of one rank."""

from __future__ import annotations

from cclmark.plan.cases import Case
from cclmark.plan.items import items_of
from cclmark.plan.pair_cases import Pair, PairCases
from cclmark.rendezvous.messages import Job
from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Settings
from cclmark.run.context import RankContext
from cclmark.run.measure import Batches, least_batch_s
from cclmark.run.measured_libraries import NativeLibrary, OpenLibrary
from cclmark.run.opening import measure_each
from cclmark.run.pair_measurement import PairsRunner


class _EveryPair(PairCases):
    """All cases of every pair, which are the items of the run."""

    def case_of(self, pair: Pair, place: int) -> Case:
        """Case ``place`` in ``of_two`` for ``pair``."""
        return self[self.index_of(pair, place)]

    def settings(self, settings: Settings) -> Settings:
        """The settings of the run."""
        return settings

    def batches_of(self, job: Job, pair: Pair) -> Batches:
        """As those of collectives of the two ranks."""
        return Batches(least_batch_s(job, pair))

    def result_of(self, result: CaseResult) -> CaseResult:
        """The result itself."""
        return result


def run(context: RankContext) -> None:
    """Loads the libraries, introduces the rank and measures or explains all pairs.

    The first rank of each pair reports. Raises MissingError if a library is missing.
    """

    planned = items_of(context.rank.planned, Case)

    def measure(name: str, library: OpenLibrary) -> None:
        assert isinstance(library, NativeLibrary)
        PairsRunner(
            context.rank,
            library.ccl,
            context.devices[0],
            context.instruments,
            _EveryPair(planned, context.job.ranks),
            context.measured,
        ).run()

    measure_each(context, planned, measure, all_needed=True)
