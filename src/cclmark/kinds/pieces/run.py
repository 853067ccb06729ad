"""Messages in pieces, from the side of one rank."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import cclmark._engine as engine
from cclmark.analysis.stopping import LEAST_BATCH_S, operations_per_batch, precision_of_rounds
from cclmark.journal.schema import Samples, Verification
from cclmark.journal.summaries import chosen_times, clock_of, combine
from cclmark.kinds.pieces.figures import row_of
from cclmark.kinds.pieces.plan import GROUPED, Division, PieceCase, piece_counts
from cclmark.kinds.pieces.result import PieceResult, PieceRow
from cclmark.rank.all_or_none import GRACE_S, in_step
from cclmark.rank.context import RankContext
from cclmark.rank.engine_values import operation_of
from cclmark.rank.item_loop import CaseLoop, Measure
from cclmark.rank.measure import (
    hang,
    least_batch_s,
    measure_rounds,
    samples_of,
    verification_of,
    warm_up,
)
from cclmark.rank.rank import Rank
from cclmark.work.inject import RankFaults
from cclmark.work.items import items_of


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
        *,
        launches: bool,
    ) -> None:
        """``launches``: see row_of."""
        self._launches = launches
        self._session = session
        self._rank = rank
        self._settings = rank.job.settings
        self._least_s = (
            LEAST_BATCH_S  # each call has its own barrier
            if self._settings.timing == "blocking"
            else least_batch_s(rank.job, range(rank.job.ranks))
        )
        job = rank.job
        self._faults = RankFaults.of_rank(self._settings.inject, job.rank, job.ranks)
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
        if index in self._faults.hangs:
            hang(self._rank.enter, self._settings.timeout_s)
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
                delay_s=self._faults.delay_s,
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
        in_step(self._rank.agreement, partial(self._batch, way, 1), GRACE_S)
        time_s = self._time_s(self._batch(way, 1))
        length = partial(operations_per_batch, least_s=self._least_s)

        def batch(operations: int) -> tuple[float, float]:
            found_s = self._time_s(self._batch(way, operations))
            return found_s, found_s * operations

        way.operations = length(warm_up(self._rank.enter, time_s, length, batch)[0])

    def _rounds(self, item: PieceCase, ways: Sequence[_Way]) -> bool:
        """Measures rounds, and returns whether all medians have the requested precision.

        Each round begins with another division. ``--max-time`` is the time for each of them.
        """

        def measure(number: int) -> float:
            elapsed_s = 0.0
            for step in range(len(ways)):
                way = ways[(step + number) % len(ways)]
                self._rank.enter("timing", number)
                self._prepare(item, way)
                self._batch(way, 1)  # the operations before were others
                more = self._batch(way, way.operations)
                elapsed_s += self._time_s(more) * (way.operations + 1)
                _append(way.samples, more)
            return elapsed_s

        settings = self._settings
        return measure_rounds(
            precision_of_rounds(settings.precision, settings.max_time_s * len(ways)),
            measure,
            lambda: (self._times(way.samples) for way in ways),
        )

    def _verify(self, item: PieceCase, way: _Way) -> Verification:
        self._rank.enter("verification")
        begin_s = time.monotonic()
        self._prepare(item, way)
        verify = partial(self._session.verify, self._faults.corrupt)
        return verification_of(verify, self._settings.check, item.case.dtype, self._where, begin_s)


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
    rank = context.rank
    items = items_of(rank.planned, PieceCase)
    is_host = context.devices[0].info.runtime == "host"

    def measurer(session: engine.Session) -> Measure:
        launches = not is_host and context.job.settings.timing != "blocking"
        runner = PieceRunner(session, rank, launches=launches)
        if session.checked_on_host:
            rank.notice(f"outputs are checked on the host: {session.checked_on_host}")
        return lambda index: runner.run(index, items[index])

    CaseLoop(context, items, measurer, has_variants=False).run()
