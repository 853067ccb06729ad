"""The loop over the items of a rank: libraries, communicators, buffers, results.

A kind contributes how it measures one item. ``CaseLoop`` has the rest for cases of libraries,
``TorchLoop`` (cclmark_training/torch_loop.py) for work of torch.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar, cast

import cclmark._engine as engine
from cclmark.journal.item_results import Result
from cclmark.rank.all_or_none import in_step
from cclmark.rank.context import RankContext
from cclmark.rank.opening import OpenLibrary, open_libraries, require_present
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import buffer_kind_of, free_on_all, reserve_for
from cclmark.work.cases import Case
from cclmark.work.items import Item
from cclmark.work.libraries import BRIDGE, torch_backend_of
from cclmark.work.variants import COMMUNICATOR, DEFAULT, REGISTRATION, Variant

R = TypeVar("R", bound=Result)

#: Measures the item with this index.
Measure = Callable[[int], Result]


def measure_items(
    rank: Rank,
    indices: Iterable[int],
    measure: Callable[[int], R],
    report: Callable[[R], None] | None = None,
) -> None:
    """Measures items in turn and reports each result, by default on rank 0.

    The last item remains the current one: what fails afterwards may belong to it.
    """
    rank.begin_conditions()
    for index in indices:
        rank.case_index = index
        result = measure(index)
        if report is not None:
            report(result)
        elif rank.job.rank == 0:
            rank.report(result)
        rank.read_conditions(index, getattr(result, "cycle", 0))


def measure_each(
    context: RankContext,
    cases: Sequence[Item],
    measure: Callable[[str, OpenLibrary], None],
    *,
    all_needed: bool = False,
    starts_threads: bool = False,
) -> None:
    """Loads the libraries of ``cases``, introduces the rank and calls ``measure`` with each.

    ``all_needed``: see open_libraries. ``starts_threads``: whether ``measure`` works with several
    threads. Raises the errors of open_libraries and ``measure``.
    """
    rank, job = context.rank, context.job
    rank.enter("loading the library")
    names = list(dict.fromkeys(case.ccl for case in cases))
    # Torch is loaded first: otherwise it uses a loaded libnccl, not the one that it contains.
    order = sorted(names, key=lambda name: torch_backend_of(name) is None)
    opened = open_libraries(order, job, all_needed=all_needed)
    libraries = {name: opened[name] for name in names}
    _share_processors_for(names[0], context, starts_threads)
    used = [it for library in libraries.values() for it in library.descriptions]
    context.introduce(list({it.name: it for it in used}.values()))
    for name, library in libraries.items():
        _share_processors_for(name, context, starts_threads)
        measure(name, library)
    if context.measured is not None:
        context.measured.send()
    rank.case_index = -1
    rank.enter("finished")
    # MPI must be finalized, which the destruction of its library does. Errors that torch keeps from
    # its own import hold a reference to this frame and its variables.
    opened.clear()
    libraries.clear()
    used.clear()


def _share_processors_for(name: str, context: RankContext, starts_threads: bool) -> None:
    """Binds a rank of the host to a separate processor, unless it works with several threads.

    Torch and the transport between hosts start threads, which may run on any inherited processor.
    """
    threads = (
        starts_threads
        or torch_backend_of(name) is not None
        or (name == BRIDGE and bool(context.job.hosts))
    )
    context.share_processors(alone=not threads)


class CaseLoop:
    """The cases of a rank, in step with the same object on the other ranks.

    Each variant of a library has its own communicator and buffers. A kind with more than
    ``measurer`` overrides other members.
    """

    def __init__(
        self,
        context: RankContext,
        items: Sequence[Item],
        measurer: Callable[[engine.Session], Measure],
        *,
        has_variants: bool = True,
        starts_threads: bool = False,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        """``items``: cases, or items with a case. ``measurer``: how a session measures an item.

        ``has_variants``: what fails while a communicator is created or destroyed belongs to the
        items of the variant, and all libraries are needed. Otherwise items of a missing library are
        skipped. ``prepare``: called once, before the first communicator is created.
        ``starts_threads``: whether the measurement works with several threads.
        """
        self.context = context
        self.rank = context.rank
        self.job = context.job
        self.device = context.devices[0]
        self.items = items
        self.cases = [cast("Case", getattr(one, "case", one)) for one in items]
        self._variants: list[Variant] = [getattr(one, "variant", DEFAULT) for one in items]
        self._measurer = measurer
        self._has_variants = has_variants
        self._starts_threads = starts_threads
        self._prepare = prepare
        #: With buffers that fit the items of the current communicator.
        self.session: engine.Session | None = None

    def run(self) -> None:
        """Loads the libraries, introduces the rank and measures the items; rank 0 reports."""
        measure_each(
            self.context,
            self.cases,
            self._measure_library,
            all_needed=self._has_variants,
            starts_threads=self._starts_threads,
        )

    def pending(self, name: str) -> list[int]:
        """The indices of the items of a library that are still to be measured."""
        indices = self.job.pending or range(len(self.cases))
        return [index for index in indices if self.cases[index].ccl == name]

    def order(self, indices: list[int], *, skipped: bool = False) -> Iterator[int]:
        """The indices in the order of the results. ``skipped``: whether none is measured."""
        yield from indices

    def skip(self, index: int, reason: str) -> Result:
        """The result of an item that cannot be measured."""
        return self.rank.kind.failed(index, self.items[index], "skipped", reason)

    def observe(
        self,
        communicator: engine.Communicator,
        indices: list[int],
        left_out: Mapping[Case, str],
    ) -> None:
        """Observes the items of a rank with instruments, instead of measuring them."""
        from cclmark.rank.explaining import CaseExplainer  # not imported by ranks that measure

        instruments = self.context.instruments
        assert instruments is not None and self.session is not None
        variant = self._variants[indices[0]]
        explainer = CaseExplainer(
            self.rank,
            self.session,
            self.rank.agreement,
            instruments,
            variant.value_of(REGISTRATION),
        )
        for index in indices:
            if self.cases[index] not in left_out:
                explainer.run(index, self.cases[index])
        if not self._has_variants:
            self.rank.case_index = -1
        if variant.is_default:
            explainer.finish(self.cases[indices[0]].ccl, communicator)

    def measured(self, index: int, session: engine.Session) -> None:
        """Called after an item was measured with ``session`` and not skipped."""

    def used(self, communicator: engine.Communicator, indices: list[int]) -> None:
        """Called after the last result of a communicator."""

    def left(self) -> None:
        """Called after a communicator was destroyed."""

    def _measure_library(self, name: str, library: OpenLibrary) -> None:
        """Measures the items of one library, a collective call. Raises EngineError."""
        if self._prepare is not None:
            self._prepare()
            self._prepare = None
        indices = self.pending(name)
        for variant in dict.fromkeys(self._variants[index] for index in indices):
            own = [index for index in indices if self._variants[index] == variant]
            if self._has_variants:
                self.rank.case_index = own[0]
            self.rank.enter("communicator creation")
            with _variables(variant):
                communicator = self._join(library, variant, own)
                if communicator is None:
                    continue
                try:
                    self._measure_on(communicator, library, variant, own)
                except engine.AbortedError:
                    communicator.check()  # may raise the error that made the other ranks stop
                    raise
                del communicator
        self.rank.leave_subgroup()

    def _join(
        self, library: OpenLibrary, variant: Variant, indices: list[int]
    ) -> engine.Communicator | None:
        """The communicator of all ranks; None after all items of an absent library are skipped.

        Raises MissingError if the run measures no other library.
        """
        agreement = self.rank.agreement
        join = partial(library.join, self.rank, self.device, variant.options)
        if self._has_variants:
            return in_step(agreement, join)
        try:
            in_step(agreement, partial(require_present, library))
            return in_step(agreement, join)
        except engine.UnsupportedError as error:
            name, reason = self.cases[indices[0]].ccl, str(error)
            if all(case.ccl == name for case in self.cases):
                raise engine.MissingError(reason) from None
        if self.job.rank == 0:
            for index in self.order(indices, skipped=True):
                self.rank.report(self.skip(index, reason))
        return None

    def _measure_on(
        self,
        communicator: engine.Communicator,
        library: OpenLibrary,
        variant: Variant,
        indices: list[int],
    ) -> None:
        rank = self.rank
        # No variable: it is destroyed before its communicator.
        self.session = engine.Session(self.device, rank.rank_group, communicator, rank.counter)
        rank.enter("allocating buffers")
        kind = buffer_kind_of(self.context, library, variant)
        cases = [self.cases[index] for index in indices]
        free_bytes = free_on_all(self.device, rank.rank_group, len(self.job.ranks_here))
        left_out = reserve_for(cases, self.session, rank.rank_group, kind, free_bytes)
        if self.context.instruments is not None:
            self.observe(communicator, indices, left_out)
        else:
            self._measure_with(self.session, indices, left_out)
            if not self._has_variants:
                rank.case_index = -1
            self.used(communicator, indices)
        rank.enter("shutdown")
        self.session = None
        communicator.leave()
        if self._has_variants:
            rank.case_index = -1
        self.left()

    def _measure_with(
        self, session: engine.Session, indices: list[int], left_out: Mapping[Case, str]
    ) -> None:
        measure = self._measurer(session)

        def result_of(index: int) -> Result:
            reason = left_out.get(self.cases[index])
            result = measure(index) if reason is None else self.skip(index, reason)
            if result.status != "skipped":
                self.measured(index, session)
            return result

        gc.collect()
        gc.disable()
        measure_items(self.rank, self.order(indices), result_of)
        gc.enable()


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
