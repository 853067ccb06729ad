"""Items with variants on one rank: the variants that share a process, one after the other."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from cclmark import _engine as engine
from cclmark.plan.variants import COMMUNICATOR, REGISTRATION, Variant, VariedCase
from cclmark.results.item_results import Result
from cclmark.run.all_or_none import in_step
from cclmark.run.context import RankContext
from cclmark.run.measured_libraries import OpenLibrary
from cclmark.run.opening import measure_each
from cclmark.run.reserved_buffers import buffer_kind_of, free_on_all, reserve_for

#: Measures the item with this index.
Measure = Callable[[int], Result]


def run_variants(
    context: RankContext,
    items: Sequence[VariedCase],
    measurer: Callable[[engine.Session], Measure],
    prepare: Callable[[], None] | None = None,
    *,
    starts_threads: bool = False,
) -> None:
    """Loads the libraries, introduces the rank and measures the items; rank 0 reports.

    ``measurer``: called for each communicator, with a session whose buffers fit the items.
    ``prepare``: called once, before the first communicator is created. ``starts_threads``: whether
    the measurement works with several threads.
    """
    runner = _VariantRunner(context, items, measurer, prepare)
    measure_each(
        context,
        [item.case for item in items],
        runner.measure,
        all_needed=True,
        starts_threads=starts_threads,
    )


class _VariantRunner:
    def __init__(
        self,
        context: RankContext,
        items: Sequence[VariedCase],
        measurer: Callable[[engine.Session], Measure],
        prepare: Callable[[], None] | None,
    ) -> None:
        self._prepare = prepare
        self._context = context
        self._rank = context.rank
        self._job = context.job
        self._device = context.devices[0]
        self._items = items
        self._measurer = measurer

    def measure(self, name: str, library: OpenLibrary) -> None:
        """Measures the items of one library, each variant with its own communicator."""
        if self._prepare is not None:
            self._prepare()
            self._prepare = None
        variants = dict.fromkeys(one.variant for one in self._items if one.case.ccl == name)
        for variant in variants:
            indices = [
                index
                for index, item in enumerate(self._items)
                if item.variant == variant and item.case.ccl == name
            ]
            # A failure before the first case is attributed to the variant's first item.
            self._rank.case_index = indices[0]
            self._rank.enter("communicator creation")
            with _variables(variant):
                join = partial(library.join, self._rank, self._device, variant.options)
                communicator = in_step(self._rank.agreement, join)
                try:
                    self._measure_on(communicator, library, variant, indices)
                except engine.AbortedError:
                    communicator.check()  # may raise the error that made the other ranks stop
                    raise
                del communicator

    def _measure_on(
        self,
        communicator: engine.Communicator,
        library: OpenLibrary,
        variant: Variant,
        indices: Sequence[int],
    ) -> None:
        job, rank = self._job, self._rank
        session = engine.Session(self._device, rank.rank_group, communicator, rank.counter)
        rank.enter("allocating buffers")
        kind = buffer_kind_of(self._context, library, variant)
        cases = [self._items[index].case for index in indices]
        free_bytes = free_on_all(self._device, rank.rank_group, len(job.ranks_here))
        too_large = reserve_for(cases, session, rank.rank_group, kind, free_bytes)
        if self._context.instruments is not None:
            fitting = [index for index in indices if self._items[index].case not in too_large]
            self._explain(session, communicator, variant, fitting)
        else:
            measure = self._measurer(session)
            gc.collect()
            gc.disable()
            for index in indices:
                item = self._items[index]
                rank.case_index = index
                if item.case in too_large:
                    result = rank.kind.failed(index, item, "skipped", too_large[item.case])
                else:
                    result = measure(index)
                if job.rank == 0:
                    rank.report(result)
            gc.enable()
            del measure
        # A failure while the communicator is destroyed is the variant's too.
        rank.enter("shutdown")
        del session
        communicator.leave()
        rank.case_index = -1

    def _explain(
        self,
        session: engine.Session,
        communicator: engine.Communicator,
        variant: Variant,
        indices: Sequence[int],
    ) -> None:
        """Observes the items instead of measuring them."""
        from cclmark.run.explaining import CaseExplainer  # not imported by ranks that measure

        instruments = self._context.instruments
        assert instruments is not None
        explainer = CaseExplainer(
            self._rank,
            session,
            self._rank.agreement,
            instruments,
            variant.value_of(REGISTRATION),
        )
        for index in indices:
            explainer.run(index, self._items[index].case)
        if indices and variant.is_default:
            explainer.finish(self._items[indices[0]].case.ccl, communicator)


@contextmanager
def _variables(variant: Variant) -> Iterator[None]:
    """Sets the variables that the library reads when it creates a communicator."""
    before = {name: os.environ.get(name) for name in variant.variables(COMMUNICATOR)}
    os.environ.update(variant.variables(COMMUNICATOR))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
