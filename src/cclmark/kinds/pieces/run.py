"""Messages in pieces, from the side of one rank."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from cclmark import _engine as engine
from cclmark.analysis.stopping import LEAST_BATCH_S, Precision, WarmUp, operations_per_batch
from cclmark.analysis.summary import chosen_times, clock_of, combine
from cclmark.kinds.pieces.figures import row_of
from cclmark.kinds.pieces.plan import GROUPED, Division, PieceCase, piece_counts
from cclmark.kinds.pieces.result import PieceResult, PieceRow
from cclmark.plan.inject import Injection
from cclmark.plan.items import items_of
from cclmark.results.schema import Samples, Verification, WrongOutput
from cclmark.run.all_or_none import in_step
from cclmark.run.context import RankContext
from cclmark.run.engine_operation import operation_of
from cclmark.run.measure import findings_of, least_batch_s, samples_of
from cclmark.run.measured_libraries import OpenLibrary
from cclmark.run.opening import measure_each, require_present
from cclmark.run.rank import Rank
from cclmark.run.reserved_buffers import buffer_kind_of, free_on_all, reserve_for

_GRACE_S = 10.0  # an operation unsupported on one rank must fail on the others within this time
_LEAST_ROUNDS, _MOST_ROUNDS = 7, 200


@dataclass
class _Way:
    """A division that the library supports, with its samples so far."""

    division: Division
    pieces: engine.Pieces
    operations: int = 1
    samples: Samples = field(default_factory=lambda: Samples([], [], [], 1))
    verification: Verification | None = None


class PieceRunner:
    """Measures messages in pieces on one rank, in step with the same object on the others.

    Decisions depend only on times shared by all ranks, so all ranks decide alike.
    """

    def __init__(
        self,
        session: engine.Session,
        rank: Rank,
        injections: Sequence[Injection],
        *,
        launches: bool,
    ) -> None:
        """``injections``: the faults of this rank. ``launches``: see row_of."""
        self._launches = launches
        self._session = session
        self._rank = rank
        self._settings = rank.job.settings
        self._least_s = (
            LEAST_BATCH_S  # each call has its own barrier
            if self._settings.timing == "blocking"
            else least_batch_s(rank.job, range(rank.job.ranks))
        )
        self._delay_s = sum(one.value * 1e-3 for one in injections if one.kind == "delay")
        corrupt = [int(one.value) for one in injections if one.kind == "corrupt"]
        self._corrupt = corrupt[0] if corrupt else None
        self._hangs = {int(one.value) for one in injections if one.kind == "hang"}
        without = rank.agreement.gather([1.0 if session.checked_on_host else 0.0])
        self._where = "host" if 1.0 in without else "device"

    def run(self, index: int, item: PieceCase) -> PieceResult:
        """Measures and checks one case. Divisions that the library does not support are skipped.

        A case that it does not support in one call is skipped entirely.
        """
        begin_s, started_at_s = time.monotonic(), time.time()
        ways: list[_Way] = []
        skipped: dict[Division, str] = {}
        for division in item.divisions:
            way = _Way(
                division,
                engine.Pieces(
                    counts=piece_counts(item.case, division), grouped=division.form == GROUPED
                ),
            )
            try:
                self._warm_up(item, way)
            except engine.UnsupportedError as error:
                if not ways:
                    return PieceResult(index, item, "skipped", str(error))
                skipped[division] = str(error)
            else:
                ways.append(way)
        if index in self._hangs:
            self._hang()
        converged = self._rounds(item, ways)
        if self._settings.check:
            for way in ways:
                way.verification = self._verify(item, way)
        found = {way.division: self._row(item, way, ways[0]) for way in ways}
        rows = [found.get(one) or PieceRow(one, "skipped", skipped[one]) for one in item.divisions]
        return PieceResult(
            index=index,
            pieces=item,
            status="wrong" if any(row.status == "wrong" for row in rows) else "ok",
            started_at_s=started_at_s,
            duration_s=time.monotonic() - begin_s,
            converged=converged,
            rows=rows,
        )

    def _row(self, item: PieceCase, way: _Way, of_one: _Way) -> PieceRow:
        row = row_of(
            item.case,
            way.samples,
            of_one.samples,
            self._settings,
            way.division,
            launches=self._launches,
        )
        row.verification = way.verification
        if row.verification is not None and row.verification.wrong:
            row.status = "wrong"
        return row

    def _prepare(self, item: PieceCase, way: _Way) -> None:
        self._session.prepare(
            operation_of(item.case), item.case.in_place, self._settings.seed, way.pieces
        )

    def _batch(self, way: _Way, operations: int) -> Samples:
        settings = self._settings
        is_blocking = settings.timing == "blocking"
        measured = self._session.run(
            engine.Batch(
                timing=engine.Timing.blocking if is_blocking else engine.Timing.throughput,
                iterations=operations,
                delay_s=self._delay_s,
                warm=settings.cache == "warm",
                library_barrier=settings.barrier == "library",
                events=is_blocking and settings.clock == "device",
            )
        )
        return samples_of(measured, 1 if is_blocking else operations)

    def _time_s(self, samples: Samples) -> float:
        times_s = self._times(samples)
        return sorted(times_s)[len(times_s) // 2]

    def _times(self, samples: Samples) -> list[float]:
        rows = chosen_times(samples, clock_of(samples, self._settings))
        return combine(rows, self._settings.across_ranks)

    def _warm_up(self, item: PieceCase, way: _Way) -> None:
        """Repeats a division until two batches agree, and sets the length of its batches.

        Raises UnsupportedError on all ranks.
        """
        self._rank.enter("preparing")
        in_step(self._rank.agreement, partial(self._prepare, item, way))
        self._rank.enter("warm-up", 0)
        # Connects, compiles and maps memory, and is where a library refuses.
        in_step(self._rank.agreement, partial(self._batch, way, 1), _GRACE_S)
        time_s = self._time_s(self._batch(way, 1))
        rule = WarmUp()
        times_s: list[float] = []
        elapsed_s = 0.0
        while not rule.done(times_s, elapsed_s):
            way.operations = operations_per_batch(time_s, self._least_s)
            self._rank.enter("warm-up", len(times_s) + 1)
            time_s = self._time_s(self._batch(way, way.operations))
            times_s.append(time_s)
            elapsed_s += time_s * way.operations
        way.operations = operations_per_batch(time_s, self._least_s)

    def _hang(self) -> None:
        """Never returns, so that the supervisor of this rank must detect the hang."""
        self._rank.enter("timing", 0)
        while True:
            time.sleep(self._settings.timeout_s)

    def _rounds(self, item: PieceCase, ways: Sequence[_Way]) -> bool:
        """Measures rounds, and returns whether all medians have the requested precision.

        Each round begins with another division. ``--max-time`` is the time for each of them.
        """
        settings = self._settings
        rule = Precision(
            settings.precision, settings.max_time_s * len(ways), _LEAST_ROUNDS, _MOST_ROUNDS
        )
        elapsed_s = 0.0
        rounds = 0
        while rounds < _LEAST_ROUNDS or not all(
            rule.done(self._times(way.samples), elapsed_s) for way in ways
        ):
            for step in range(len(ways)):
                way = ways[(step + rounds) % len(ways)]
                self._rank.enter("timing", rounds)
                self._prepare(item, way)
                self._batch(way, 1)  # the operations before were others
                more = self._batch(way, way.operations)
                elapsed_s += self._time_s(more) * (way.operations + 1)
                _append(way.samples, more)
            rounds += 1
        return all(rule.reached(self._times(way.samples)) for way in ways)

    def _verify(self, item: PieceCase, way: _Way) -> Verification:
        self._rank.enter("verification")
        begin_s = time.monotonic()
        self._prepare(item, way)
        findings: list[WrongOutput] = []
        compare_s = 0.0
        for _ in range(self._settings.check):
            checked = self._session.verify(self._corrupt)
            compare_s = max(compare_s, checked.compare_s)
            if findings := findings_of(checked, item.case.dtype):
                break
        wrong = sum(one.wrong for one in findings)
        duration_s = time.monotonic() - begin_s
        return Verification(wrong, findings, self._where, duration_s, compare_s)


def _append(samples: Samples, more: Samples) -> None:
    """Adds a batch as one sample: blocking batches consist of several, whose mean is one."""
    samples.operations_per_sample = more.operations_per_sample * len(more.host_s)
    samples.host_s.append(_means(more.host_s))
    samples.enqueue_s.append(_means(more.enqueue_s))
    known = all(one is not None for row in more.device_s for one in row)
    device_s = [[one or 0.0 for one in row] for row in more.device_s]
    samples.device_s.append([*_means(device_s)] if known else [None] * len(more.device_s[0]))


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


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
