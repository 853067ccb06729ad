"""Measuring one case: warm up until batches agree, sample until the median is known, then check."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from cclmark import _engine as engine
from cclmark.analysis.stopping import Precision, WarmUp, operations_per_batch
from cclmark.analysis.summary import chosen_times, clock_of, combine, summarise
from cclmark.plan.cases import Case
from cclmark.plan.inject import Injection
from cclmark.results.schema import CaseResult, Finding, Samples, Settings, Verification
from cclmark.run.together import in_step

_TIMINGS = {
    "throughput": engine.Timing.throughput,
    "blocking": engine.Timing.blocking,
    "graph": engine.Timing.graph,
    "per-op": engine.Timing.per_op,
}
_SINGLY = ("blocking", "per-op")  # each operation of a batch is a sample of its own
_MOST_SINGLE_OPERATIONS = 50
_GRACE_S = 10.0  # what one rank cannot do, the others cannot within so long, or they can


class CaseRunner:
    """Runs cases on one rank, in step with the same object on the others.

    What to do next depends only on times that every rank knows, so all ranks decide alike.
    """

    def __init__(
        self,
        session: engine.Session,
        agreement: engine.Team,
        settings: Settings,
        injections: Sequence[Injection],
        enter: Callable[[str, int], None],
    ) -> None:
        """``agreement``: the ranks of ``session``, in places of their own."""
        self._session = session
        self._agreement = agreement
        checked = agreement.gather([1.0 if session.checked_on_host else 0.0])
        #: The first rank whose outputs its host checks; None where devices check all.
        self.checking_host = checked.index(1.0) if 1.0 in checked else None
        self._tried = False  # whether all ranks have done an operation of this case
        self._settings = settings
        self._enter = enter
        delays_ms = [entry.value for entry in injections if entry.kind == "delay"]
        self._delay_s = sum(delays_ms) * 1e-3
        corrupt = [int(entry.value) for entry in injections if entry.kind == "corrupt"]
        self._corrupt = corrupt[0] if corrupt else None
        self._hangs = {int(entry.value) for entry in injections if entry.kind == "hang"}

    def run(
        self,
        index: int,
        case: Case,
        cycle: int,
        all_done: Callable[[bool], bool] = lambda done: done,
    ) -> CaseResult:
        """Measures and checks one case. A case that the library cannot do is skipped.

        ``all_done`` is asked before each batch that counts, and told whether this case needs no
        more of them: sampling goes on until it says so.
        """
        begin_s = time.monotonic()
        started_at_s = time.time()
        self._enter("preparing", 0)
        try:
            in_step(self._agreement, partial(self._prepare, case))
            self._tried = False
            iterations, warmup_batches = self._warm_up()
            if index in self._hangs:
                self._hang()
            samples, converged = self._sample(iterations, all_done)
        except engine.UnsupportedError as error:
            return CaseResult(index, case, "skipped", str(error), cycle=cycle)
        verification = self._verify(case) if self._settings.check else None
        wrong = verification.wrong if verification is not None else 0
        return CaseResult(
            index=index,
            case=case,
            status="wrong" if wrong else "ok",
            route=self._session.route,
            cycle=cycle,
            warmup_batches=warmup_batches,
            converged=converged,
            started_at_s=started_at_s,
            duration_s=time.monotonic() - begin_s,
            samples=samples,
            summary=summarise(case, samples, self._settings),
            verification=verification,
        )

    def _prepare(self, case: Case) -> None:
        self._session.prepare(
            case.operation,
            case.dtype,
            case.reduction or "sum",
            case.root or 0,
            case.count,
            list(case.matrix),
            case.in_place,
            self._settings.seed,
        )

    def _hang(self) -> None:
        """Never returns: whoever supervises this rank has to notice."""
        self._enter("timing", 0)
        while True:
            time.sleep(self._settings.timeout_s)

    def _batch(self, iterations: int) -> Samples:
        if not self._tried:
            samples = in_step(self._agreement, partial(self._run, iterations), _GRACE_S)
            self._tried = True
            return samples
        return self._run(iterations)

    def _run(self, iterations: int) -> Samples:
        settings = self._settings
        measured = self._session.run(
            _TIMINGS[settings.timing],
            iterations,
            settings.group,
            settings.graph_launches,
            self._delay_s,
            warm=settings.cache == "warm",
            library_barrier=settings.barrier == "library",
            events=settings.timing == "blocking" and settings.clock == "device",
        )
        single = settings.timing in _SINGLY
        launches = settings.graph_launches if settings.timing == "graph" else 1
        samples = Samples(
            host_s=_by_sample(measured.host_s),
            device_s=[
                [None if math.isnan(time_s) else time_s for time_s in row]
                for row in _by_sample(measured.device_s)
            ],
            enqueue_s=_by_sample(measured.enqueue_s),
            operations_per_sample=1 if single else iterations * settings.group * launches,
        )
        if settings.timing == "per-op" and clock_of(samples, settings) == "host":
            return _as_one(samples)
        return samples

    def _times(self, samples: Samples) -> list[float]:
        rows = chosen_times(samples, clock_of(samples, self._settings))
        return combine(rows, self._settings.across_ranks)

    def _batch_size(self, time_s: float) -> int:
        operations = operations_per_batch(time_s)
        if self._settings.timing in _SINGLY:
            return min(operations, _MOST_SINGLE_OPERATIONS)
        launches = self._settings.graph_launches if self._settings.timing == "graph" else 1
        return max(1, operations // (self._settings.group * launches))

    def _warm_up(self) -> tuple[int, int]:
        """Returns the number of operations for a batch and how many batches it took."""
        settings = self._settings
        self._enter("warm-up", 0)
        if settings.warmup == 0 and settings.iterations is not None:
            return settings.iterations, 0
        if settings.warmup is not None:
            time_s = _middle(self._times(self._batch(max(1, settings.warmup))))
            return settings.iterations or self._batch_size(time_s), 1
        self._batch(1)  # connects, compiles, maps: says nothing of speed
        time_s = _middle(self._times(self._batch(1)))
        rule = WarmUp()
        times_s: list[float] = []
        elapsed_s = 0.0
        while not rule.done(times_s, elapsed_s):
            iterations = self._batch_size(time_s)
            self._enter("warm-up", len(times_s) + 1)
            samples = self._batch(iterations)
            time_s = _middle(self._times(samples))
            times_s.append(time_s)
            elapsed_s += _elapsed(samples)
        return settings.iterations or self._batch_size(time_s), len(times_s) + 2

    def _sample(self, iterations: int, all_done: Callable[[bool], bool]) -> tuple[Samples, bool]:
        """Returns the samples and whether they reached the precision asked for."""
        settings = self._settings
        rule = Precision(settings.precision, settings.max_time_s)
        total = Samples([], [], [], 1)
        times_s: list[float] = []
        elapsed_s = 0.0
        batches = 0

        def enough() -> bool:
            fixed = settings.iterations is not None
            return batches > 0 if fixed else rule.done(times_s, elapsed_s)

        while not all_done(enough()):
            self._enter("timing", batches)
            more = self._batch(iterations)
            times_s += self._times(more)
            elapsed_s += _elapsed(more)
            total.operations_per_sample = more.operations_per_sample
            total.host_s += more.host_s
            total.device_s += more.device_s
            total.enqueue_s += more.enqueue_s
            batches += 1
        return total, settings.iterations is not None or rule.reached(times_s)

    def _verify(self, case: Case) -> Verification:
        self._enter("verification", 0)
        begin_s = time.monotonic()
        findings: list[Finding] = []
        wrong = 0
        compare_s = 0.0
        for _ in range(self._settings.check):
            verdict = self._session.verify(self._corrupt)
            wrong = sum(entry.wrong for entry in verdict.findings)
            findings = [
                Finding(
                    rank=rank,
                    wrong=entry.wrong,
                    first_element=entry.first_element,
                    expected=engine.format_value(case.dtype, entry.expected_bits),
                    actual=engine.format_value(case.dtype, entry.actual_bits),
                )
                for rank, entry in enumerate(verdict.findings)
                if entry.wrong
            ]
            compare_s = max(compare_s, verdict.compare_s)
            if wrong:
                break
        where = "host" if self.checking_host is not None else "device"
        return Verification(wrong, findings, where, time.monotonic() - begin_s, compare_s)


def _by_sample(by_rank: Sequence[Sequence[float]]) -> list[list[float]]:
    return [list(times) for times in zip(*by_rank, strict=True)]


def _as_one(samples: Samples) -> Samples:
    """Operations that were enqueued one after another as the single sample that they are to the
    host, whose clock sees the whole batch and none of them.
    """
    by_rank = zip(*samples.device_s, strict=True)
    return Samples(
        host_s=samples.host_s[:1],
        device_s=[[_mean(times_s) for times_s in by_rank]],
        enqueue_s=samples.enqueue_s[:1],
        operations_per_sample=len(samples.host_s),
    )


def _mean(times_s: Sequence[float | None]) -> float | None:
    known = [time_s for time_s in times_s if time_s is not None]
    return sum(known) / len(known) if len(known) == len(times_s) else None


def _elapsed(samples: Samples) -> float:
    """Seconds that the samples took, by the host clock of the rank that took longest."""
    return sum(max(row) for row in samples.host_s) * samples.operations_per_sample


def _middle(times_s: Sequence[float]) -> float:
    return sorted(times_s)[len(times_s) // 2]
