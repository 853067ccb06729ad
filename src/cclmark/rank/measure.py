"""Measurement of one case: warm-up, sampling until the median converges, and verification."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import msgspec

import cclmark._engine as engine
from cclmark.analysis.stopping import (
    LEAST_BATCH_BETWEEN_HOSTS_S,
    LEAST_BATCH_S,
    Precision,
    WarmUp,
    operations_per_batch,
    operations_per_graph,
)
from cclmark.analysis.summary import SHARE_OF_COMPARED_LAUNCHES, launches_determine
from cclmark.journal.item_results import CaseResult
from cclmark.journal.sample_times import rounded
from cclmark.journal.schema import DeviceTime, Samples, Settings, Verification, WrongOutput
from cclmark.journal.summaries import chosen_times, clock_of, combine, summarise
from cclmark.rank.all_or_none import GRACE_S, in_step
from cclmark.rank.engine_values import operation_of
from cclmark.rendezvous.messages import Job
from cclmark.work.cases import Case
from cclmark.work.inject import RankFaults
from cclmark.work.operations import info_of

_TIMINGS = {
    "auto": engine.Timing.throughput,
    "throughput": engine.Timing.throughput,
    "blocking": engine.Timing.blocking,
    "graph": engine.Timing.graph,
    "per-op": engine.Timing.per_op,
}
_WARM_UP = WarmUp()
_SINGLY = ("blocking", "per-op")  # each operation of a batch is a separate sample
_MOST_SINGLE_OPERATIONS = 50
# Timed launches of a graph for device times. One launch before them keeps the devices busy while
# the host enqueues the timed ones.
_REPLAYS = 3
_LEAD_REPLAYS = 1  # launches before the timed ones
# The time of a graph depends on where the driver puts it, by 1 to 2 %. Samples of operations with a
# root, which differed most from run to run, are each of another graph, up to so many: then the
# interval of the median contains the places. More samples are of the same graphs.
_MOST_GRAPHS = 32
_LEAST_CAPTURED = 20  # operations in a graph
_DIGITS = 9  # of a time in seconds: nanoseconds
_MOST_OF_DEADLINE = 0.25  # for the repeated operations that the user requests in a batch


@dataclass(frozen=True)
class Batches:
    """How operations are divided into samples.

    ``least_s``: the time of operations that are timed together. ``repeated``: a fixed number of
    iterations is the least of a batch, and batches are repeated until the median is known.
    ``warm_up``: when batches before the samples end.
    """

    least_s: float = LEAST_BATCH_S
    repeated: bool = False
    warm_up: WarmUp = _WARM_UP


def batches_of(job: Job) -> Batches:
    """The batches of operations of all ranks: longer ones between hosts."""
    return Batches(least_batch_s(job, range(job.ranks)))


def least_batch_s(job: Job, ranks: Iterable[int]) -> float:
    """The least time of a batch of ``ranks``, which include this one."""
    is_here = set(job.ranks_here).issuperset(ranks)
    return LEAST_BATCH_S if is_here else LEAST_BATCH_BETWEEN_HOSTS_S


def _by_itself(done: bool) -> bool:
    """The stopping decision for a case that is independent of other ranks' cases."""
    return done


class CaseRunner:
    """Runs cases on one rank, in step with the same object on the others.

    Decisions depend only on times shared by all ranks, so all ranks decide alike.
    """

    def __init__(
        self,
        session: engine.Session,
        agreement: engine.RankGroup,
        settings: Settings,
        faults: RankFaults,
        enter: Callable[[str, int], None],
        *,
        compares: bool = False,
        batches: Batches = Batches(),
    ) -> None:
        """``agreement``: a group of the ranks of ``session`` with separate slots.

        ``compares``: results of the same case are compared with each other, and so the device's
        time is measured wherever launches may determine one of them.
        """
        self._session = session
        self._agreement = agreement
        checked = agreement.gather([1.0 if session.checked_on_host else 0.0])
        #: The first rank whose outputs its host checks; None where devices check all.
        self.checking_host = checked.index(1.0) if 1.0 in checked else None
        without = agreement.gather([1.0 if session.no_graphs else 0.0])
        #: The reason why operations are not replayed from graphs, empty if all ranks have graphs.
        self._no_graphs = session.no_graphs or (
            f"rank {without.index(1.0)} does not support graphs" if 1.0 in without else ""
        )
        self._tried = False  # whether all ranks have completed an operation of this case
        self._settings = settings
        self._batches = batches
        self._fixed = settings.iterations is not None and not batches.repeated
        self._decides = (
            partial(launches_determine, share=SHARE_OF_COMPARED_LAUNCHES)
            if compares
            else launches_determine
        )
        self._enter = enter
        self._faults = faults
        self._case_delay_s = faults.delay_s

    def run(
        self,
        index: int,
        case: Case,
        cycle: int,
        all_done: Callable[[bool], bool] = _by_itself,
        *,
        is_delayed: bool = True,
    ) -> CaseResult:
        """Measures and checks one case. A case that the library does not support is skipped.

        ``all_done`` is called before each timed batch with the argument whether this case has
        enough samples. Sampling ends when it returns true. ``is_delayed``: whether delays that are
        injected concern this case.
        """
        self._case_delay_s = self._faults.delay_s if is_delayed else 0.0
        begin_s = time.monotonic()
        started_at_s = time.time()
        self._enter("preparing", 0)
        try:
            in_step(self._agreement, partial(self._prepare, case))
            self._tried = False
            iterations, warmup_batches = self._warm_up()
            if index in self._faults.hangs:
                hang(self._enter, self._settings.timeout_s)
            samples, converged = self._sample(partial(self._batch, iterations), all_done)
        except engine.UnsupportedError as error:
            return CaseResult(index, case, "skipped", str(error), cycle=cycle)
        device, device_reason = self._device_time(case, iterations, samples)
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
            device=device,
            device_reason=device_reason,
            verification=verification,
        )

    def _prepare(self, case: Case) -> None:
        self._session.prepare(operation_of(case), case.in_place, self._settings.seed)

    def _batch(self, iterations: int) -> Samples:
        if not self._tried:
            samples = in_step(self._agreement, partial(self._run, iterations), GRACE_S)
            self._tried = True
            return samples
        return self._run(iterations)

    def _device_time(
        self, case: Case, iterations: int, samples: Samples
    ) -> tuple[DeviceTime | None, str]:
        """The device time of a case whose time launches determine, or the reason for none.

        All ranks have the same samples, so all ranks decide alike.
        """
        if self._settings.timing != "auto" or not self._decides(samples):
            return None, ""
        if self._no_graphs:
            return None, self._no_graphs
        try:
            self._enter("replaying", 0)
            # The time of a short graph would include the time of its launches.
            iterations = max(iterations, _LEAST_CAPTURED)
            numbers = itertools.cycle(range(self._graphs_of(case)))
            replayed, converged = self._sample(
                lambda: self._replay(iterations, next(numbers)),
                _by_itself,
                phase="replaying",
                clock="device",
                elapsed_factor=(_LEAD_REPLAYS + _REPLAYS) / _REPLAYS,
            )
        except engine.UnsupportedError as error:
            return None, str(error)
        settings = msgspec.structs.replace(self._settings, clock="device")
        return DeviceTime(replayed, summarise(case, replayed, settings), converged), ""

    def _graphs_of(self, case: Case) -> int:
        """From how many graphs the device time of a case is replayed; all ranks decide alike."""
        if self._fixed or not info_of(case.operation).rooted:
            return 1
        spaced = self._agreement.gather([float(self._session.spaces_graphs())])
        return _MOST_GRAPHS if min(spaced) > 0 else 1

    def _replay(self, iterations: int, graph: int) -> Samples:
        """A sample of device time from graph replays, without individual launches.

        Raises UnsupportedError on all ranks if one of them cannot capture the graph.
        """
        capture = partial(self._session.capture, self._replayed(iterations, graph))
        in_step(self._agreement, capture)
        measured = self._session.run(self._replayed(iterations, graph))
        return samples_of(measured, iterations * self._settings.group * _REPLAYS)

    def _replayed(self, iterations: int, graph: int) -> engine.Batch:
        settings = self._settings
        return engine.Batch(
            timing=engine.Timing.graph,
            iterations=iterations,
            group=settings.group,
            graph_launches=_REPLAYS,
            lead_launches=_LEAD_REPLAYS,
            graph=graph,
            warm=settings.cache == "warm",
            library_barrier=settings.barrier == "library",
        )

    def _run(self, iterations: int) -> Samples:
        settings = self._settings
        batch = engine.Batch(
            timing=_TIMINGS[settings.timing],
            iterations=iterations,
            group=settings.group,
            graph_launches=settings.graph_launches,
            delay_s=self._case_delay_s,
            warm=settings.cache == "warm",
            library_barrier=settings.barrier == "library",
            events=settings.timing == "blocking" and settings.clock == "device",
        )
        measured = self._session.run(batch)
        single = settings.timing in _SINGLY
        launches = settings.graph_launches if settings.timing == "graph" else 1
        samples = samples_of(measured, 1 if single else iterations * settings.group * launches)
        if settings.timing == "per-op" and clock_of(samples, settings) == "host":
            return _as_one(samples)
        return samples

    def _times(self, samples: Samples, clock: str = "") -> list[float]:
        rows = chosen_times(samples, clock or clock_of(samples, self._settings))
        return combine(rows, self._settings.across_ranks)

    def _batch_size(self, time_s: float) -> int:
        operations = operations_per_batch(time_s, self._batches.least_s)
        if self._settings.timing in _SINGLY:
            return min(operations, _MOST_SINGLE_OPERATIONS)
        if self._settings.timing == "graph":
            launches = self._settings.graph_launches
            operations = operations_per_graph(operations, time_s, launches)
        return max(1, operations // self._settings.group)

    def _iterations(self, time_s: float) -> int:
        """The iterations of a batch, by the time of an operation."""
        fixed = self._settings.iterations
        if fixed is not None and not self._batches.repeated:
            return fixed
        least = fixed or 1
        if time_s > 0:  # a batch must end long before the deadline of its phase
            least = min(least, max(1, int(_MOST_OF_DEADLINE * self._settings.timeout_s / time_s)))
        return max(least, self._batch_size(time_s))

    def _warm_up(self) -> tuple[int, int]:
        """Returns the number of operations per batch and the number of warm-up batches."""
        settings = self._settings
        self._enter("warm-up", 0)
        if settings.warmup == 0 and settings.iterations is not None and self._fixed:
            return settings.iterations, 0
        if settings.warmup is not None:
            time_s = _middle(self._times(self._batch(max(1, settings.warmup))))
            return self._iterations(time_s), 1
        self._batch(1)  # connects, compiles and maps memory, so its time is not representative
        time_s = _middle(self._times(self._batch(1)))

        def batch(iterations: int) -> tuple[float, float]:
            samples = self._batch(iterations)
            return _middle(self._times(samples)), _elapsed(samples)

        rule = self._batches.warm_up
        time_s, batches = warm_up(self._enter, time_s, self._batch_size, batch, rule)
        return self._iterations(time_s), batches + 2

    def _sample(
        self,
        batch: Callable[[], Samples],
        all_done: Callable[[bool], bool],
        *,
        phase: str = "timing",
        clock: str = "",
        elapsed_factor: float = 1.0,
    ) -> tuple[Samples, bool]:
        """Returns the samples and whether they converged to the requested precision.

        ``clock``: the clock whose times decide, by default the clock of the figures.
        ``elapsed_factor``: the ratio of the time of a batch to the time of its timed operations.
        """
        settings = self._settings
        rule = Precision(settings.precision, settings.max_time_s)
        total = Samples([], [], [], 1)
        times_s: list[float] = []
        elapsed_s = 0.0
        batches = 0

        def enough() -> bool:
            return batches > 0 if self._fixed else rule.done(times_s, elapsed_s)

        while not all_done(enough()):
            self._enter(phase, batches)
            more = batch()
            times_s += self._times(more, clock)
            elapsed_s += _elapsed(more) * elapsed_factor
            total.operations_per_sample = more.operations_per_sample
            total.host_s += more.host_s
            total.device_s += more.device_s
            total.enqueue_s += more.enqueue_s
            batches += 1
        return total, self._fixed or rule.reached(times_s)

    def _verify(self, case: Case) -> Verification:
        self._enter("verification", 0)
        begin_s = time.monotonic()
        return verification_of(
            partial(self._session.verify, self._faults.corrupt),
            self._settings.check,
            case.dtype,
            "host" if self.checking_host is not None else "device",
            begin_s,
        )


def hang(enter: Callable[[str, int], None], timeout_s: float) -> NoReturn:
    """Never returns, so that the supervisor of this rank must detect the hang."""
    enter("timing", 0)
    while True:
        time.sleep(timeout_s)


def warm_up(
    enter: Callable[[str, int], None],
    time_s: float,
    length: Callable[[float], int],
    batch: Callable[[int], tuple[float, float]],
    rule: WarmUp = _WARM_UP,
) -> tuple[float, int]:
    """Repeats batches until the times of two agree, or until ``rule`` ends them.

    Returns the time of an operation and the number of batches.

    ``time_s``: of an operation before. ``length``: the operations of a batch by the time of one.
    ``batch``: the time of an operation and of the batch, from the number of operations.
    """
    times_s: list[float] = []
    elapsed_s = time_s
    while not rule.done(times_s, elapsed_s):
        operations = length(time_s)
        enter("warm-up", len(times_s) + 1)
        time_s, batch_s = batch(operations)
        times_s.append(time_s)
        elapsed_s += batch_s
    return time_s, len(times_s)


def measure_rounds(
    rule: Precision,
    measure: Callable[[int], float],
    series: Callable[[], Iterable[Sequence[float]]],
) -> bool:
    """Measures the least number of rounds or more, and returns whether the medians are precise.

    ``measure``: measures the round with this number and returns its time in seconds. ``series``:
    the times whose medians count, so far.
    """
    elapsed_s = 0.0
    number = 0
    while number < rule.least_samples or not all(rule.done(one, elapsed_s) for one in series()):
        elapsed_s += measure(number)
        number += 1
    return all(rule.reached(one) for one in series())


def rounded_s(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Times in seconds, in full nanoseconds."""
    return [[round(one, _DIGITS) for one in row] for row in rows]


def verification_of(
    verify: Callable[[], engine.VerificationResult],
    times: int,
    dtype: str,
    where: str,
    begin_s: float,
) -> Verification:
    """Checks outputs so many ``times``, or until one is wrong. ``begin_s``: of the whole check."""
    findings: list[WrongOutput] = []
    compare_s = 0.0
    for _ in range(times):
        checked = verify()
        compare_s = max(compare_s, checked.compare_s)
        if findings := findings_of(checked, dtype):
            break
    wrong = sum(one.wrong for one in findings)
    return Verification(wrong, findings, where, time.monotonic() - begin_s, compare_s)


def findings_of(checked: engine.VerificationResult, dtype: str) -> list[WrongOutput]:
    """The wrong outputs of a check, by rank."""
    return [
        WrongOutput(
            rank=rank,
            wrong=entry.wrong,
            first_element=entry.first_element,
            expected=engine.format_value(dtype, entry.expected_bits),
            actual=engine.format_value(dtype, entry.actual_bits),
        )
        for rank, entry in enumerate(checked.findings)
        if entry.wrong
    ]


def samples_of(measured: engine.Samples, operations: int) -> Samples:
    """Converts the times of one batch, with ``operations`` operations per sample."""
    device_s = [
        [None if math.isnan(time_s) else time_s for time_s in row]
        for row in _by_sample(measured.device_s)
    ]
    return Samples(
        host_s=rounded(_by_sample(measured.host_s), operations),
        device_s=rounded(device_s, operations),
        enqueue_s=rounded(_by_sample(measured.enqueue_s), operations),
        operations_per_sample=operations,
    )


def _by_sample(by_rank: Sequence[Sequence[float]]) -> list[list[float]]:
    return [list(times) for times in zip(*by_rank, strict=True)]


def _as_one(samples: Samples) -> Samples:
    """Merges operations enqueued in a row into one sample: the host's clock measures only that."""
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
    """The time of all samples in seconds, by the host clock of the slowest rank of each."""
    return sum(max(row) for row in samples.host_s) * samples.operations_per_sample


def _middle(times_s: Sequence[float]) -> float:
    return sorted(times_s)[len(times_s) // 2]
