"""Replays of a program's step on one rank."""

from __future__ import annotations

import bisect
import gc
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import median

import msgspec

import cclmark._engine as engine
from cclmark.analysis.stopping import Precision, WarmUp
from cclmark.journal.schema import Verification, WrongOutput
from cclmark.rank.all_or_none import GRACE_S, in_step
from cclmark.rank.context import RankContext
from cclmark.rank.item_loop import measure_each, measure_items
from cclmark.rank.measure import measure_rounds
from cclmark.rank.opening import NativeLibrary, OpenLibrary, join_with_id
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import open_compute
from cclmark.work.inject import RankFaults
from cclmark.work.intervals import length_of, union_of
from cclmark.work.items import items_of
from cclmark_programs.replay.choices import (
    DROP,
    FIXED,
    LEAST_STEPS,
    TRAFFIC_LEVELS,
    TRAFFIC_REFINEMENTS,
    TRAFFIC_ROUNDS,
    WAIT_ROUNDS,
    steps_of_round,
)
from cclmark_programs.replay.plan import RankStep, Replay, ReplayedCall, ReplayWay
from cclmark_programs.replay.result import ReplayedOperation, ReplayResult

#: A call is slowed down in the program if it takes longer there by more than this share.
_CLEAR = 0.03


class TrafficFit:
    """Chooses the blocks of the traffic beside each call from measurements, round after round.

    A call that takes as long without traffic as in the program has none. For the others a few
    amounts are measured, and then those between that the times suggest.
    """

    def __init__(self, wanted_s: Sequence[float], most: int) -> None:
        """``wanted_s``: the time of each call in the program; 0 for one that has no traffic."""
        self._wanted_s = wanted_s
        self._levels = sorted({max(1, round(most * share)) for share in TRAFFIC_LEVELS})
        self._measured: list[dict[int, list[float]]] = [{} for _ in wanted_s]
        self._rounds = 0

    def next(self) -> list[int] | None:
        """The blocks by call that should be measured next; None when there is enough."""
        if self._rounds == 0:
            return [0] * len(self._wanted_s)
        if self._rounds <= len(self._levels):
            level = self._levels[self._rounds - 1]
            tried = [level if self._is_slowed(one) else 0 for one in range(len(self._wanted_s))]
            return tried if any(tried) else None
        if self._rounds > len(self._levels) + TRAFFIC_REFINEMENTS:
            return None
        return [self._guess(one) for one in range(len(self._wanted_s))]

    def add(self, blocks: Sequence[int], times_s: Sequence[float]) -> None:
        """Adds the times by call that were measured beside so many blocks."""
        for known, number, time_s in zip(self._measured, blocks, times_s, strict=True):
            known.setdefault(number, []).append(time_s)
        self._rounds += 1

    def chosen(self) -> list[int]:
        """The blocks by call whose time is nearest to that in the program, the fewest of equal."""
        return [
            min(
                sorted(self._times_s(one).items()),
                key=lambda entry, wanted_s=wanted_s: abs(entry[1] - wanted_s),  # type: ignore[misc]
            )[0]
            if self._is_slowed(one)
            else 0
            for one, wanted_s in enumerate(self._wanted_s)
        ]

    def _times_s(self, call: int) -> dict[int, float]:
        return {
            number: sum(values) / len(values) for number, values in self._measured[call].items()
        }

    def _is_slowed(self, call: int) -> bool:
        alone_s = self._times_s(call).get(0, 0.0)
        return alone_s > 0 and self._wanted_s[call] > (1 + _CLEAR) * alone_s

    def _guess(self, call: int) -> int:
        """Between the two amounts with which the call is shorter and longer than in the program."""
        if not self._is_slowed(call):
            return 0
        wanted_s = self._wanted_s[call]
        points = sorted(self._times_s(call).items())
        for (less, shorter_s), (more, longer_s) in pairwise(points):
            if shorter_s <= wanted_s <= longer_s and longer_s > shorter_s:
                share = (wanted_s - shorter_s) / (longer_s - shorter_s)
                return round(less + share * (more - less))
        return max(points, key=lambda entry: entry[1])[0]


_MOST_STEPS = 1000
_NS = 1e9
# What ranks wait is corrected by a part of its error, within limits: it varies from step to step.
_DAMPING, _MOST_LATER_S = 0.7, 30e-6
_MOST_SHARED = 1 << 20  # times of calls that all ranks share


class StepRunner:
    """Repeats the calls of this rank, in step with the other ranks.

    Decisions depend only on times shared by all ranks, so all ranks decide alike.
    """

    def __init__(
        self,
        rank: Rank,
        device: engine.Device,
        step: RankStep,
        gaps: str,
        communicators: Sequence[engine.Communicator | None],
        compute: engine.Compute | None = None,
        later_s: dict[str, list[float]] | None = None,
    ) -> None:
        """``communicators``: of the groups of the step, None for those of other ranks.

        ``compute``: what runs beside the calls. ``later_s``: by how much each call begins later so
        that ranks wait as in the program, by gaps; the first runner with some gaps measures it for
        all that share the dictionary.

        Raises UnsupportedError, OutOfMemoryError.
        """
        self._rank = rank
        self._settings = rank.job.settings
        self._step = step
        self._is_host = device.info.runtime == "host"
        own = [number for number, one in enumerate(communicators) if one is not None]
        places = {group: place for place, group in enumerate(own)}
        self._replay = engine.StepReplay(
            device,
            rank.rank_group,
            communicators=[one for one in communicators if one is not None],
            places=[
                (step.groups[one].index(rank.job.rank), len(step.groups[one]), one) for one in own
            ],
            calls=_engine_calls(step.calls, places, gaps),
            seed=self._settings.seed,
            counter=rank.counter,
            compute=compute,
        )
        if self._replay.checked_on_host:
            rank.notice(f"outputs are checked on the host: {self._replay.checked_on_host}")
        job = rank.job
        self._faults = RankFaults.of_rank(self._settings.inject, job.rank, job.ranks)
        self._traffic = step.traffic
        self._gaps = gaps
        self._later_s = {} if later_s is None else later_s

    def _enter(self, phase: str, batches: int = 0) -> None:
        """Enters a phase; its deadline allows for the length of the program's step."""
        self._rank.enter(phase, batches, others_s=self._step.length_s)

    def run(self, index: int, item: Replay) -> ReplayResult:
        """Checks, warms up and times the step. Raises EngineError."""
        started_at_s, began_s = time.time(), time.monotonic()
        self._enter("warm-up", 0)
        # Connects, and is where a library refuses.
        in_step(self._rank.agreement, partial(self._replay.run, 0.0), GRACE_S)
        verification = self._verify() if self._settings.check else None
        if item.traffic:
            self._move_memory()
        if self._gaps != DROP and not self._is_host:
            self._keep_waits()
        self._warm_up()
        times = _Times(self._rank, self._step)
        gc.collect()
        gc.disable()
        converged = self._time(times)
        gc.enable()
        wrong = verification is not None and verification.wrong > 0
        return ReplayResult(
            index=index,
            replay=item,
            status="wrong" if wrong else "ok",
            reason="wrong data" if wrong else "",
            converged=converged,
            started_at_s=started_at_s,
            duration_s=time.monotonic() - began_s,
            span_s=times.by_rank(times.spans_s),
            communication_s=times.by_rank(times.communication_s),
            # The host works inside the call.
            enqueue_s=0.0 if self._is_host else median(max(row) for row in times.enqueue_s),
            operations=times.operations(),
            traffic=list(self._traffic or ()) if item.traffic else [],
            verification=verification,
        )

    def _move_memory(self) -> None:
        """Lets memory traffic run beside the calls, so that they take as long as in the program.

        A collective call: all ranks choose alike, from the times of all.
        """
        most = self._most_blocks()
        nothing = [0] * len(self._step.own_s)
        try:
            if self._traffic is None and most:
                fit = TrafficFit(self._step.own_s, most)
                steps = steps_of_round(TRAFFIC_ROUNDS, self._step.length_s)
                while (blocks := fit.next()) is not None:
                    self._set_traffic(blocks)
                    fit.add(blocks, self._own_times(steps))
                self._traffic = tuple(fit.chosen())
            self._set_traffic(self._traffic or nothing)
        except engine.UnsupportedError as error:  # raised on all ranks
            self._rank.notice(f"no memory traffic runs beside the calls: {error}")
            self._traffic = ()
            self._set_traffic(nothing)

    def _most_blocks(self) -> int:
        """The most blocks beside a call on every rank; 0 if there is nothing to choose."""
        wanted = len(self._step.own_s) * self._rank.job.ranks <= _MOST_SHARED
        own = self._replay.most_traffic_blocks if wanted and any(self._step.own_s) else 0
        return int(min(self._rank.rank_group.gather([float(own)])))

    def _set_traffic(self, blocks: Sequence[int]) -> None:
        """Raises UnsupportedError on all ranks if one of them has no memory for it."""
        by_call = [
            (blocks[one.number], one.beside_s) if one.number >= 0 else (0, 0.0)
            for one in self._step.calls
        ]

        def set_own() -> None:
            try:
                self._replay.set_traffic(by_call)
            except engine.OutOfMemoryError as error:
                raise engine.UnsupportedError(str(error)) from None

        in_step(self._rank.agreement, set_own)

    def _own_times(self, steps: int) -> list[float]:
        """The time of each numbered call, on the rank that waits least."""
        told = self._rank.rank_group.gather(self._median_times(steps))
        numbers = range(len(self._step.own_s))
        return [min(told[number :: len(numbers)]) for number in numbers]

    def _keep_waits(self) -> None:
        """Brings the time that ranks wait for each other in a call nearer to the program's.

        What a rank waits too long by, it begins later. Gaps are kept from call to call, but kernels
        of ranks do not end at the same moment, by some microseconds. A collective call.
        """
        if self._gaps not in self._later_s:
            self._later_s[self._gaps] = self._corrections_s()
        self._replay.set_later(self._later_s[self._gaps])

    def _corrections_s(self) -> list[float]:
        """By how much each call of this rank begins later. A collective call."""
        later_s = [0.0] * len(self._step.calls)
        size = len(self._step.own_s)
        if not size or size * self._rank.job.ranks > _MOST_SHARED:
            return later_s
        program_s = [math.inf] * size
        for call in self._step.calls:
            if call.number >= 0:
                program_s[call.number] = call.time_s
        told = self._rank.rank_group.gather(program_s)
        least_s = [min(told[number::size]) for number in range(size)]
        steps = steps_of_round(WAIT_ROUNDS, self._step.length_s)
        for _ in range(WAIT_ROUNDS):
            own_s = self._median_times(steps)
            told = self._rank.rank_group.gather(own_s)
            for place, call in enumerate(self._step.calls):
                if call.number < 0:
                    continue
                waited_s = own_s[call.number] - min(told[call.number :: size])
                error_s = waited_s - (call.time_s - least_s[call.number])
                later_s[place] = corrected_s(later_s[place], error_s, call.time_s)
            self._replay.set_later(later_s)
        return later_s

    def _median_times(self, steps: int) -> list[float]:
        """The time of each numbered call on this rank, infinite for those of others."""
        times_s: list[list[float]] = [[] for _ in self._step.own_s]
        for number in range(1 + steps):
            self._enter("warm-up", number)
            own = self._replay.run(0.0)
            if number == 0:  # what changed may take effect late
                continue
            for call, begin_s, end_s in zip(self._step.calls, own.begin_s, own.end_s, strict=True):
                if call.number >= 0:
                    times_s[call.number].append(end_s - begin_s)
        return [median(values) if values else math.inf for values in times_s]

    def _warm_up(self) -> None:
        rule = WarmUp()
        times_s: list[float] = []
        elapsed_s = 0.0
        fixed = self._settings.warmup
        while len(times_s) < fixed if fixed is not None else not rule.done(times_s, elapsed_s):
            self._enter("warm-up", len(times_s) + 1)
            own = self._replay.run(self._faults.delay_s)
            times_s.append(max(self._rank.rank_group.gather([own.host_s])))
            elapsed_s += times_s[-1]

    def _time(self, times: _Times) -> bool:
        """Times steps, and returns whether their median has the requested precision."""
        settings, fixed = self._settings, self._settings.iterations
        slowest_s: list[float] = []

        def measure(number: int) -> float:
            self._enter("timing", number)
            elapsed_s = times.add(self._replay.run(self._faults.delay_s))
            slowest_s.append(max(times.spans_s[-1]))
            return elapsed_s

        if fixed is not None:
            for number in range(fixed):
                measure(number)
            return True
        rule = Precision(settings.precision, settings.max_time_s, LEAST_STEPS, _MOST_STEPS)
        return measure_rounds(rule, measure, lambda: [slowest_s])

    def _verify(self) -> Verification:
        self._enter("verification")
        begin_s = time.monotonic()
        counts = self._replay.verify(self._faults.corrupt)
        wrong = sum(count for count, _ in counts)
        place = next((number for number, (count, _) in enumerate(counts) if count), -1)
        first = counts[place][1] if place >= 0 else 0
        operation = self._step.calls[place].operation if place >= 0 else 0
        told = self._rank.agreement.gather(
            [float(wrong), float(first), float(place), float(operation)]
        )
        findings = []
        for rank in range(self._rank.job.ranks):
            number, element, call, called = (int(one) for one in told[4 * rank : 4 * rank + 4])
            if number:
                name = self._step.operations[called].describe()
                findings.append(WrongOutput(rank, number, element, "", f"call {call + 1}: {name}"))
        return Verification(
            wrong=sum(one.wrong for one in findings),
            findings=findings,
            where="host" if self._replay.checked_on_host else "device",
            time_s=time.monotonic() - begin_s,
        )


def corrected_s(later_s: float, error_s: float, time_s: float) -> float:
    """By how much a call of a rank begins later, if it was ``later_s`` and waited too long.

    ``error_s``: by how much longer than in the program, where the call takes ``time_s``.
    """
    limit_s = max(_MOST_LATER_S, time_s / 2)
    return min(max(later_s + _DAMPING * error_s, -limit_s), limit_s)


class _Times:
    """The times of all steps: rows of ranks, and of this rank's calls by operation."""

    def __init__(self, rank: Rank, step: RankStep) -> None:
        self._rank = rank
        self._step = step
        self.spans_s: list[list[float]] = []
        self.communication_s: list[list[float]] = []
        self.enqueue_s: list[list[float]] = []
        self._by_operation: list[list[float]] = [[] for _ in step.operations]
        self._by_call: list[list[float]] = [[] for _ in step.calls]
        # Without calls whose times are known as a whole, nothing is compared with the program.
        self._only_partial = all(one.is_partial for one in step.calls)

    def add(self, own: engine.StepTimes) -> float:
        """Shares the times of a step with all ranks. Returns its time on the slowest host."""
        pairs = list(zip(own.begin_s, own.end_s, strict=True))
        union = union_of(
            (round(begin_s * _NS), round(end_s * _NS))
            for call, (begin_s, end_s) in zip(self._step.calls, pairs, strict=True)
            if self._only_partial or not call.is_partial
        )
        span_s = max(own.end_s) - min(own.begin_s) if pairs else 0.0
        told = self._rank.rank_group.gather(
            [span_s, length_of(union) / _NS, own.enqueue_s, own.host_s]
        )
        self.spans_s.append(told[0::4])
        self.communication_s.append(told[1::4])
        self.enqueue_s.append(told[2::4])
        sums_s = [0.0] * len(self._by_operation)
        for number, (call, (begin_s, end_s)) in enumerate(
            zip(self._step.calls, pairs, strict=True)
        ):
            sums_s[call.operation] += end_s - begin_s
            self._by_call[number].append(end_s - begin_s)
        for values, sum_s in zip(self._by_operation, sums_s, strict=True):
            values.append(sum_s)
        return max(told[3::4])

    def by_rank(self, rows: Sequence[Sequence[float]]) -> list[list[float]]:
        """The values of each rank."""
        return [list(column) for column in zip(*rows, strict=True)]

    def operations(self) -> list[ReplayedOperation]:
        """The times of calls by operation, in the order of the profile. A collective call."""
        operations = range(len(self._step.operations))
        own_calls = [[one for one in self._step.calls if one.operation == n] for n in operations]
        ratios: list[list[float]] = [[] for _ in operations]
        for call, values in zip(self._step.calls, self._by_call, strict=True):
            if call.time_s > 0 and not call.is_partial:
                ratios[call.operation].append(max(0.0, median(values)) / call.time_s)
        told = self._rank.rank_group.gather(
            [
                value
                for calls, own, values in zip(own_calls, ratios, self._by_operation, strict=True)
                for value in (
                    len(calls),
                    sum(one.time_s for one in calls if not one.is_partial),
                    median(values),
                    min(own, default=math.inf),
                    max(own, default=0.0),
                )
            ]
        )
        found = []
        columns = 5
        for number in operations:
            by_rank = [
                told[at : at + columns]
                for at in range(columns * number, len(told), columns * len(operations))
            ]
            callers = [one for one in by_rank if one[0]]
            if not callers:
                continue
            lowest = min(one[3] for one in callers)
            found.append(
                ReplayedOperation(
                    self._step.operations[number],
                    int(max(one[0] for one in callers)),
                    sum(one[1] for one in callers) / len(callers),
                    max(0.0, sum(one[2] for one in callers) / len(callers)),
                    [] if math.isinf(lowest) else [lowest, max(one[4] for one in callers)],
                )
            )
        return found


def _engine_calls(
    calls: Sequence[ReplayedCall], places: dict[int, int], gaps: str
) -> list[engine.StepCall]:
    """The calls of a rank with their gaps.

    KEEP: a call begins so long after the last one, on any stream, that had ended before it in the
    program.
    """
    found = []
    ended: list[tuple[float, int]] = []  # the ends of earlier calls, in order, and their places
    for number, call in enumerate(calls):
        gap, gap_s, after = engine.Gap.after_begin, call.begin_s, None
        place = bisect.bisect_right(ended, (call.begin_s, len(calls)))
        if gaps == DROP:
            gap, gap_s = engine.Gap.none, 0.0
        elif gaps != FIXED and place > 0:
            end_s, after = ended[place - 1]
            gap, gap_s = engine.Gap.after_previous, call.begin_s - end_s
        bisect.insort(ended, (call.begin_s + call.time_s, number))
        found.append(
            engine.StepCall(
                communicator=places[call.group],
                stream=call.stream,
                operation=engine.Operation(
                    collective=call.collective,
                    dtype=call.dtype,
                    count=call.count,
                    matrix=list(call.matrix),
                ),
                gap=gap if gap_s > 0 or after is not None else engine.Gap.none,
                gap_s=max(0.0, gap_s),
                after=after,
            )
        )
    return found


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
    ways = _Ways(context, {index: items[index] for index in indices}, step, communicators)
    try:
        measure_items(rank, indices, ways.measure)
    except engine.AbortedError:
        for communicator in communicators:
            if communicator is not None:
                communicator.check()  # may raise the error that made the other ranks stop
        raise
    rank.enter("shutdown")
    ways.release()
    del ways
    for communicator in communicators:
        if communicator is not None:
            communicator.leave()
    del communicator, communicators
    rank.groups.clear()
    rank.case_index = -1


class _Ways:
    """Measures replays on open communicators: each way with its own compute and runner."""

    def __init__(
        self,
        context: RankContext,
        items: Mapping[int, Replay],
        step: RankStep,
        communicators: Sequence[engine.Communicator | None],
    ) -> None:
        self._context = context
        self._step = step
        self._communicators = communicators
        self._items = items
        self._is_single = len({item.way for item in items.values()}) == 1
        self._later_s: dict[str, list[float]] = {}
        self._way: ReplayWay | None = None
        self.release()

    def release(self) -> None:
        """Destroys the runner and the compute."""
        self._runner: StepRunner | None = None
        self._compute: engine.Compute | None = None

    def measure(self, index: int) -> ReplayResult:
        """Measures a replay, a collective call. One whose compute is not supported is skipped."""
        item = self._items[index]
        if self._runner is None or self._way != item.way:
            self._context.rank.enter("allocating buffers")
            self.release()  # their memory is free before more is taken
            self._way = item.way
            try:
                self._runner = self._opened(item)
            except (engine.MissingError, engine.UnsupportedError) as error:
                # Raised on all ranks. What all replays require ends the run.
                if item.compute is None or self._is_single:
                    raise
                return ReplayResult(index, item, "skipped", str(error))
        return self._runner.run(index, item)

    def _opened(self, item: Replay) -> StepRunner:
        rank, device = self._context.rank, self._context.devices[0]
        if item.compute is not None:
            self._compute = open_compute(self._context, item.compute)
        arguments = (item.gaps, self._communicators, self._compute, self._later_s)
        open_runner = partial(StepRunner, rank, device, self._step, *arguments)
        return in_step(rank.agreement, open_runner)


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
