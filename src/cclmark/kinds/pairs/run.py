"""Collectives of every two ranks, from the side of one rank."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import cclmark._engine as engine
from cclmark.journal.item_results import CaseResult, Result
from cclmark.journal.schema import Settings
from cclmark.kinds.pairs.figures import disturbance
from cclmark.kinds.pairs.plan import PairCases, probe_of
from cclmark.rank.context import MeasuredCases, RankContext
from cclmark.rank.item_loop import measure_each
from cclmark.rank.measure import Batches, CaseRunner, least_batch_s
from cclmark.rank.opening import NativeLibrary, OpenLibrary, join_with_id
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import buffer_kind, free_on_all, reserve_for
from cclmark.rendezvous.messages import Job
from cclmark.work.cases import Case
from cclmark.work.inject import Injection, RankFaults
from cclmark.work.items import items_of
from cclmark.work.operations import OPERATIONS
from cclmark.work.pair_cases import Pair, pair_rounds

if TYPE_CHECKING:
    from cclmark.rank.instruments import Instruments


_PHASES_OF_A_CASE = 5  # each with the timeout of one phase
_SLACK_S = 120.0  # for the overhead of a thousand short batches


@dataclass
class _Bench:
    """The resources of one pair. ``too_large``: places with the reason why they do not fit."""

    pair: Pair
    runner: CaseRunner
    session: engine.Session
    communicator: engine.Communicator
    too_large: dict[int, str]


class CasesOfPairs(Protocol):
    """Cases between two ranks, each with its index among the items of the run."""

    @property
    def of_two(self) -> Sequence[Case]:
        """The cases of each pair, without the pair."""

    def index_of(self, pair: Pair, place: int) -> int:
        """The index of case ``place`` in ``of_two`` for ``pair``, -1 if it is not measured."""

    def case_of(self, pair: Pair, place: int) -> Case:
        """Case ``place`` in ``of_two`` for ``pair``."""

    def settings(self, settings: Settings) -> Settings:
        """The settings of the measurements, from those of the run."""

    def batches_of(self, job: Job, pair: Pair) -> Batches:
        """How operations of the pair are divided into samples."""

    def result_of(self, result: CaseResult) -> Result:
        """The result of the run's item, from the result of a case."""


class PairsRunner:
    """Runs the cases of all pairs with one library on one rank, in step with the other ranks."""

    def __init__(
        self,
        rank: Rank,
        ccl: engine.Ccl,
        device: engine.Device,
        instruments: Instruments | None,
        cases: CasesOfPairs,
        measured: MeasuredCases | None = None,
    ) -> None:
        """``instruments``: of a rank that explains instead of measuring. ``measured``: of one that
        explains after measuring.
        """
        self._instruments = instruments
        self._measured = measured
        self._rank = rank
        self._job = rank.job
        self._ccl = ccl
        self._device = device
        self._cases = cases
        own = [place for place, case in enumerate(cases.of_two) if case.ccl == ccl.info.name]
        self._places = own
        self._left = set(rank.job.pending)
        self._sizes_at_once = _sizes_at_once(cases, own)
        settings = self._settings = cases.settings(rank.job.settings)
        self._case_s = (
            (_PHASES_OF_A_CASE + settings.check) * settings.timeout_s
            + settings.max_time_s
            + _SLACK_S
        )
        self._patience_s = self._case_s
        self._finished = False
        self._first_here = -1  # the rank of this host that reports for all of them

    def run(self) -> None:
        """Measures everything; the first rank of each pair sends the results.

        With instruments, both ranks of each pair send what they observed instead.
        """
        self._rank.enter("communicator creation")
        self._ccl.start(self._rank.rank_group, self._device)
        self._rank.enter("allocating buffers")
        here = len(self._job.ranks_here)
        self._free_bytes = free_on_all(self._device, self._rank.rank_group, here)
        gc.collect()
        gc.disable()
        rounds = list(pair_rounds(self._job.ranks))
        is_one_by_one = self._settings.one_by_one
        busy = {end for pairs in rounds for pair in pairs if self._pending(pair) for end in pair}
        self._first_here = min(busy & set(self._job.ranks_here), default=-1)
        for every_pair in rounds:
            pairs = [pair for pair in every_pair if self._pending(pair)]
            if not pairs:
                continue
            bench = self._bench(pairs)
            self._meet(0)
            if self._instruments is not None:
                self._explain(pairs, bench, self._instruments)
            elif self._left or len(pairs) == 1 or not self._sizes_at_once or is_one_by_one:
                for pair in pairs:
                    self._alone([pair], bench, self._pending(pair))
            else:
                self._with_probes(pairs, bench)
            self._close(bench)

    def _pending(self, pair: Pair) -> list[int]:
        """The places still to be measured for ``pair``."""
        indices = {place: self._cases.index_of(pair, place) for place in self._places}
        return [
            place
            for place, index in indices.items()
            if index >= 0 and (not self._left or index in self._left)
        ]

    def _explain(
        self, pairs: Sequence[Pair], bench: _Bench | None, instruments: Instruments
    ) -> None:
        """Observes the cases of all pairs instead of measuring them."""
        from cclmark.rank.explaining import CaseExplainer  # not imported by ranks that measure

        if bench is not None:
            assert self._rank.subgroup_agreement is not None
            explainer = CaseExplainer(
                self._rank, bench.session, self._rank.subgroup_agreement, instruments
            )
            for place in self._pending(bench.pair):
                if place not in bench.too_large:
                    index = self._cases.index_of(bench.pair, place)
                    explainer.run(index, self._cases.case_of(bench.pair, place))
        self._meet(max(len(self._pending(pair)) for pair in pairs))

    def _with_probes(self, pairs: Sequence[Pair], bench: _Bench | None) -> None:
        following = {place for places in self._sizes_at_once.values() for place in places}
        alone = self._alone(pairs, bench, [one for one in self._places if one not in following])
        left: list[int] = []
        for probe, sizes_at_once in self._sizes_at_once.items():
            beside = self._at_once(bench, probe)
            ratio = None if beside is None else disturbance(alone[probe], beside)
            if beside is not None and beside.status == "wrong":
                # A fault that occurs only next to other pairs must be reported in addition to the
                # result of the pair alone.
                beside.beside = len(pairs) - 1
                self._report(beside)
            if not self._all(bench is None or ratio is not None, self._case_s):
                left += sizes_at_once
                continue
            for place in sizes_at_once:
                result = self._at_once(bench, place)
                if result is None:
                    continue
                if result.summary is not None:
                    result.beside = len(pairs) - 1
                    result.at_once_ratio = ratio
                self._report(result)
        if left:
            self._alone(pairs, bench, left)

    def _bench(self, pairs: Sequence[Pair]) -> _Bench | None:
        """Joins the pair of this rank, and returns None if the rank is in no pair."""
        job, rank = self._job, self._rank
        pair = next((pair for pair in pairs if job.rank in pair), None)
        rank.rank_group.rest(pair is None)
        if pair is None:
            return None
        # A hang from here on is attributed to this pair.
        rank.case_index = self._cases.index_of(pair, self._pending(pair)[0])
        subgroup = rank.form_subgroup(list(pair), 2 * pairs.index(pair))
        rank.enter("communicator creation")
        key = f"communicator id of {self._ccl.info.name} for ranks {pair[0]} and {pair[1]}"
        communicator = join_with_id(self._ccl, rank, self._device, subgroup, key)
        session = engine.Session(self._device, subgroup, communicator, rank.counter)
        if session.checked_on_host and job.rank == self._first_here:
            where = f"{job.host_name}: " if job.host_name else ""
            rank.notice(f"{where}outputs are checked on the host: {session.checked_on_host}")
        rank.enter("allocating buffers")
        cases = [self._cases.of_two[place] for place in self._places]
        own = self._ccl.info
        kind = buffer_kind(self._device, self._settings, own.name, own.capabilities)
        try:
            left_out = reserve_for(cases, session, subgroup, kind, self._free_bytes)
        except engine.OutOfMemoryError as error:
            left_out = dict.fromkeys(cases, str(error))
        assert rank.subgroup_agreement is not None
        runner = CaseRunner(
            session,
            rank.subgroup_agreement,
            self._settings,
            RankFaults.among(self._injections(pair)),
            rank.enter,
            batches=self._cases.batches_of(job, pair),
        )
        too_large = {
            place: left_out[case]
            for place, case in zip(self._places, cases, strict=True)
            if case in left_out
        }
        return _Bench(pair, runner, session, communicator, too_large)

    def _injections(self, pair: Pair) -> list[Injection]:
        """The faults that affect this rank in ``pair``.

        A delay affects the first device of the fault's pair, corruption the second one.
        """
        faults = [
            Injection.parse_for_pairs(text, self._job.ranks) for text in self._job.settings.inject
        ]
        struck = []
        for fault in faults:
            assert fault.pair is not None
            strikes = fault.pair[0 if fault.kind == "delay" else 1]
            if sorted(fault.pair) == list(pair) and strikes == self._job.rank:
                struck.append(fault)
        return struck

    def _close(self, bench: _Bench | None) -> None:
        self._rank.case_index = -1
        self._rank.enter("shutdown")
        if bench is not None:
            del bench.runner, bench.session
            bench.communicator.leave()
            del bench.communicator
            self._rank.leave_subgroup()
        self._meet(0)
        self._rank.rank_group.rest(False)

    def _report(self, result: CaseResult) -> None:
        self._rank.read_conditions(result.index)
        pair = result.case.pair
        if pair is None or self._job.rank != pair[0]:
            return
        # Ranks of the pair are converted to ranks of the run.
        if result.summary is not None:
            for name in ("slowest_rank", "late_rank"):
                number = getattr(result.summary, name)
                if number is not None:
                    setattr(result.summary, name, pair[number])
        for finding in result.verification.findings if result.verification is not None else []:
            finding.rank = pair[finding.rank]
        self._rank.report(self._cases.result_of(result))

    def _wait(self, others_s: float) -> None:
        """Enters a wait for all ranks, some of which may work for ``others_s``.

        A rank that hangs is detected by its partners first, because their deadlines are shorter.
        """
        self._rank.case_index = -1
        self._rank.enter("waiting for other pairs", others_s=others_s)

    def _meet(self, cases: int) -> None:
        """Waits for all ranks, some of which have ``cases`` cases to measure."""
        self._wait(cases * self._case_s)
        self._rank.rank_group.barrier()

    def _all(self, holds: bool, others_s: float) -> bool:
        """Whether ``holds`` is true on every rank."""
        self._wait(others_s)
        return min(self._rank.rank_group.gather([1.0 if holds else 0.0])) > 0

    def _run(self, bench: _Bench, place: int, *, at_once: bool) -> CaseResult:
        index = self._cases.index_of(bench.pair, place)
        case = self._cases.case_of(bench.pair, place)
        if place in bench.too_large:
            return CaseResult(index, case, "skipped", bench.too_large[place])
        self._rank.case_index = index
        is_delayed = self._sends(case)
        if not at_once:
            return self._noted(bench, bench.runner.run(index, case, 0, is_delayed=is_delayed))

        def all_done(done: bool) -> bool:
            # Every batch of every pair begins at this barrier, and no pair is checked before the
            # last batch is timed. Other ranks may reach the first one late, after their warm-up.
            self._finished = self._all(done, self._patience_s)
            self._patience_s = self._settings.timeout_s
            self._rank.case_index = index
            return self._finished

        result = bench.runner.run(index, case, 0, all_done, is_delayed=is_delayed)
        return self._noted(bench, result)

    def _noted(self, bench: _Bench, result: CaseResult) -> CaseResult:
        """Notes a measured case for its explanation, and returns its result."""
        if self._measured is not None and result.status != "skipped":
            self._measured.add(result.index, result.case, bench.session)
        return result

    def _sends(self, case: Case) -> bool:
        """Whether this rank sends, so that a delay of its direction concerns the case."""
        info = OPERATIONS[case.operation]
        if not (info.rooted and info.of_two) or case.pair is None or case.root is None:
            return True
        return case.pair[case.root] == self._job.rank

    def _alone(
        self, pairs: Sequence[Pair], bench: _Bench | None, places: Iterable[int]
    ) -> dict[int, CaseResult]:
        """Measures one pair after the other, each with ``places``, while the others sleep."""
        results: dict[int, CaseResult] = {}
        places = list(places)
        for pair in pairs:
            working = bench is not None and bench.pair == pair
            self._rank.rank_group.rest(not working)
            if bench is not None and working:
                self._rank.begin_conditions()
                for place in places:
                    results[place] = self._run(bench, place, at_once=False)
                    self._report(results[place])
            self._meet(0 if working else len(places))
        self._rank.rank_group.rest(bench is None)
        return results

    def _at_once(self, bench: _Bench | None, place: int) -> CaseResult | None:
        """Measures one case of all pairs at once, and returns None if this rank is in no pair."""
        self._finished = False
        self._patience_s = self._case_s
        if bench is not None:
            self._rank.begin_conditions()
        result = None if bench is None else self._run(bench, place, at_once=True)
        while not self._finished:  # a rank without a case, or whose case cannot be measured
            self._finished = self._all(True, self._patience_s)
        return result


def _sizes_at_once(cases: CasesOfPairs, places: Iterable[int]) -> dict[int, list[int]]:
    """The probe of each sweep with the places that follow it: see kinds.pairs.plan.probe_of."""
    sweeps: dict[tuple[object, ...], list[int]] = {}
    for place in places:
        case = cases.of_two[place]
        sweeps.setdefault((case.series(), case.root), []).append(place)
    found: dict[int, list[int]] = {}
    for sweep in sweeps.values():
        sweep.sort(key=lambda place: cases.of_two[place].size_bytes)
        known = probe_of([cases.of_two[place].size_bytes for place in sweep])
        if known is not None:
            probe, sizes_at_once = known
            found[sweep[probe]] = [sweep[number] for number in sizes_at_once]
    return found


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
    """Measures or explains all pairs; the first rank of each reports. Raises MissingError."""

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
