"""Measures the repetitions of a program's step on one rank."""

from __future__ import annotations

import bisect
import gc
import time
from collections.abc import Sequence
from functools import partial
from statistics import median

from cclmark import _engine as engine
from cclmark.analysis.stopping import Precision, WarmUp
from cclmark.plan.inject import Injection
from cclmark.plan.replay_choices import DROP, FIXED, LEAST_STEPS
from cclmark.plan.replays import RankStep, Replay, ReplayedCall
from cclmark.profile.intervals import length_of, union_of
from cclmark.results.kinds import ReplayResult
from cclmark.results.schema import Finding, ReplayedOperation, Verification
from cclmark.run.all_or_none import in_step
from cclmark.run.rank import Rank

_GRACE_S = 10.0  # a call unsupported on one rank must fail on the others within this time
_MOST_STEPS = 1000
_NS = 1e9


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
    ) -> None:
        """``communicators``: of the groups of the step, None for those of other ranks.

        ``compute``: what runs beside the calls.

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
        faults = [Injection.parse(text, rank.job.ranks) for text in self._settings.inject]
        faults = [one for one in faults if one.rank == rank.job.rank]
        self._delay_s = sum(one.value * 1e-3 for one in faults if one.kind == "delay")
        corrupt = [int(one.value) for one in faults if one.kind == "corrupt"]
        self._corrupt = corrupt[0] if corrupt else None

    def _enter(self, phase: str, batches: int = 0) -> None:
        """Enters a phase; its deadline allows for the length of the program's step."""
        self._rank.enter(phase, batches, others_s=self._step.length_s)

    def run(self, index: int, item: Replay) -> ReplayResult:
        """Checks, warms up and times the step. Raises EngineError."""
        started_at_s, began_s = time.time(), time.monotonic()
        self._enter("warm-up", 0)
        # Connects, and is where a library refuses.
        in_step(self._rank.agreement, partial(self._replay.run, 0.0), _GRACE_S)
        verification = self._verify() if self._settings.check else None
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
            verification=verification,
        )

    def _warm_up(self) -> None:
        rule = WarmUp()
        times_s: list[float] = []
        elapsed_s = 0.0
        fixed = self._settings.warmup
        while len(times_s) < fixed if fixed is not None else not rule.done(times_s, elapsed_s):
            self._enter("warm-up", len(times_s) + 1)
            own = self._replay.run(self._delay_s)
            times_s.append(max(self._rank.rank_group.gather([own.host_s])))
            elapsed_s += times_s[-1]

    def _time(self, times: _Times) -> bool:
        """Times steps, and returns whether their median has the requested precision."""
        settings = self._settings
        rule = Precision(settings.precision, settings.max_time_s, LEAST_STEPS, _MOST_STEPS)
        elapsed_s = 0.0
        fixed = settings.iterations
        slowest_s: list[float] = []
        while (
            len(slowest_s) < fixed
            if fixed is not None
            else len(slowest_s) < LEAST_STEPS or not rule.done(slowest_s, elapsed_s)
        ):
            self._enter("timing", len(slowest_s))
            elapsed_s += times.add(self._replay.run(self._delay_s))
            slowest_s.append(max(times.spans_s[-1]))
        return fixed is not None or rule.reached(slowest_s)

    def _verify(self) -> Verification:
        self._enter("verification")
        begin_s = time.monotonic()
        counts = self._replay.verify(self._corrupt)
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
                findings.append(Finding(rank, number, element, "", f"call {call + 1}: {name}"))
        return Verification(
            wrong=sum(one.wrong for one in findings),
            findings=findings,
            where="host" if self._replay.checked_on_host else "device",
            time_s=time.monotonic() - begin_s,
        )


class _Times:
    """The times of all steps: rows of ranks, and of this rank's calls by operation."""

    def __init__(self, rank: Rank, step: RankStep) -> None:
        self._rank = rank
        self._step = step
        self.spans_s: list[list[float]] = []
        self.communication_s: list[list[float]] = []
        self.enqueue_s: list[list[float]] = []
        self._by_operation: list[list[float]] = [[] for _ in step.operations]

    def add(self, own: engine.StepTimes) -> float:
        """Shares the times of a step with all ranks. Returns its time on the slowest host."""
        pairs = list(zip(own.begin_s, own.end_s, strict=True))
        union = union_of((round(begin * _NS), round(end * _NS)) for begin, end in pairs)
        span_s = max(own.end_s) - min(own.begin_s) if pairs else 0.0
        told = self._rank.rank_group.gather(
            [span_s, length_of(union) / _NS, own.enqueue_s, own.host_s]
        )
        self.spans_s.append(told[0::4])
        self.communication_s.append(told[1::4])
        self.enqueue_s.append(told[2::4])
        sums_s = [0.0] * len(self._by_operation)
        for call, (begin_s, end_s) in zip(self._step.calls, pairs, strict=True):
            sums_s[call.operation] += end_s - begin_s
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
        told = self._rank.rank_group.gather(
            [
                value
                for calls, values in zip(own_calls, self._by_operation, strict=True)
                for value in (len(calls), sum(one.time_s for one in calls), median(values))
            ]
        )
        found = []
        for number in operations:
            by_rank = [
                told[at : at + 3] for at in range(3 * number, len(told), 3 * len(operations))
            ]
            callers = [one for one in by_rank if one[0]]
            if not callers:
                continue
            found.append(
                ReplayedOperation(
                    self._step.operations[number],
                    int(max(calls for calls, _, _ in callers)),
                    sum(program_s for _, program_s, _ in callers) / len(callers),
                    max(0.0, sum(replayed_s for _, _, replayed_s in callers) / len(callers)),
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
