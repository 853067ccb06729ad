"""Measurement of object calls beside calls with tensors, round by round in the same processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from cclmark import _engine as engine
from cclmark.analysis.object_figures import figures_of
from cclmark.analysis.stopping import Precision, WarmUp, operations_per_batch
from cclmark.plan.inject import Injection
from cclmark.kinds.objects.plan import ObjectCall
from cclmark.kinds.objects.result import ObjectResult
from cclmark.kinds.objects.result import ObjectFinding, ObjectTimes
from cclmark.run.all_or_none import in_step
from cclmark.run.measure import least_batch_s
from cclmark.run.object_binding import ObjectBinding, RunOnce
from cclmark.run.rank import Rank
from cclmark.run.torch_backend import cannot, one_line

_GRACE_S = 10.0  # a call unsupported on one rank must fail on the others within this time
_LEAST_ROUNDS, _MOST_ROUNDS = 7, 200
_DIGITS = 9  # of a time in seconds: nanoseconds
_OBJECTS, _TENSORS = 0, 1  # places in _Rows


class _Rows(NamedTuple):
    """The times of one round by rank, in seconds per call."""

    objects: list[float]
    tensors: list[float]
    pickling: list[float]
    unpickling: list[float]


class ObjectRunner:
    """Measures object calls on one rank, in step with the same object on the others.

    Decisions depend only on times shared by all ranks, so all ranks decide alike.
    """

    def __init__(self, rank: Rank, torch: Any, device: Any, place: Any) -> None:
        """``device``: of the rank. ``place``: of tensors that the backend sends."""
        self._rank = rank
        self._torch = torch
        self._device = device
        self._place = place
        self._settings = rank.job.settings
        self._least_s = least_batch_s(rank.job, range(rank.job.ranks))
        faults = [Injection.parse(text, rank.job.ranks) for text in self._settings.inject]
        own = [one for one in faults if one.rank == rank.job.rank]
        self._delay_s = sum(one.value * 1e-3 for one in own if one.kind == "delay")
        corrupt = [int(one.value) for one in own if one.kind == "corrupt"]
        self._corrupt = corrupt[0] if corrupt else None
        self._hangs = {int(one.value) for one in own if one.kind == "hang"}
        self.was_corrupted = False  # whether an output had the element to corrupt

    @property
    def corrupts(self) -> bool:
        """Whether this rank has an element to corrupt."""
        return self._corrupt is not None

    def run(self, index: int, call: ObjectCall) -> ObjectResult:
        """Measures and checks one call. A call that the backend does not support is skipped."""
        begin_s, started_at_s = time.monotonic(), time.time()
        rank, job = self._rank, self._rank.job
        rank.enter("preparing")
        binding = ObjectBinding(
            self._torch, self._place, call, job.rank, job.ranks, self._settings.seed
        )
        runs = (
            binding.with_objects,
            binding.with_tensors,
            binding.pickle_own,
            binding.unpickle_received,
        )
        try:
            for run in runs[:2]:
                # Connects, allocates, and is refused by a backend that does not support it.
                in_step(rank.agreement, partial(self._first, run), _GRACE_S)
        except engine.UnsupportedError as error:
            return ObjectResult(index, call, "skipped", str(error))
        counts = [self._warm_up(run) for run in runs]
        if index in self._hangs:
            self._hang()
        rounds, converged = self._rounds(runs, counts)
        findings = self._verify(binding) if self._settings.check else []
        times = ObjectTimes(
            objects_s=_rounded([row.objects for row in rounds]),
            tensors_s=_rounded([row.tensors for row in rounds]),
            pickling_s=_rounded([row.pickling for row in rounds]),
            unpickling_s=_rounded([row.unpickling for row in rounds]),
            calls=counts[_OBJECTS],
            tensor_calls=counts[_TENSORS],
        )
        return ObjectResult(
            index=index,
            call=call,
            status="wrong" if findings else "ok",
            started_at_s=started_at_s,
            duration_s=time.monotonic() - begin_s,
            converged=converged,
            times=times,
            figures=figures_of(times),
            checked=bool(self._settings.check),
            findings=findings,
        )

    def _first(self, run: RunOnce) -> None:
        with _torch_errors(unsupported=True):
            run()
            self._synchronize()

    def _synchronize(self) -> None:
        if self._device.type != "cpu":
            self._torch.cuda.synchronize(self._device)

    def _batch(self, run: RunOnce, count: int) -> list[float]:
        """The time of a call in seconds on every rank, from ``count`` calls in a row."""
        group = self._rank.rank_group
        self._synchronize()
        group.barrier()
        begin_s = time.perf_counter()
        if self._delay_s:
            time.sleep(self._delay_s)
        with _torch_errors():
            for _ in range(count):
                run()
            self._synchronize()
        return list(group.gather([(time.perf_counter() - begin_s) / count]))

    def _warm_up(self, run: RunOnce) -> int:
        """Calls until the times of two batches agree, and returns the length of a batch."""
        self._rank.enter("warm-up", 0)
        time_s = max(self._batch(run, 1))
        rule = WarmUp()
        times_s: list[float] = []
        elapsed_s = 0.0
        while not rule.done(times_s, elapsed_s):
            self._rank.enter("warm-up", len(times_s) + 1)
            count = operations_per_batch(time_s, self._least_s)
            time_s = max(self._batch(run, count))
            times_s.append(time_s)
            elapsed_s += time_s * count
        return operations_per_batch(time_s, self._least_s)

    def _hang(self) -> None:
        """Never returns, so that the supervisor of this rank must detect the hang."""
        self._rank.enter("timing", 0)
        while True:
            time.sleep(self._settings.timeout_s)

    def _rounds(self, runs: Sequence[RunOnce], counts: Sequence[int]) -> tuple[list[_Rows], bool]:
        """The rounds, and whether both medians have the requested precision.

        Each round begins with another of the four.
        """
        settings = self._settings
        rule = Precision(settings.precision, settings.max_time_s, _LEAST_ROUNDS, _MOST_ROUNDS)
        rounds: list[_Rows] = []
        elapsed_s = 0.0

        def slowest(place: int) -> list[float]:
            return [max(row[place]) for row in rounds]

        def every(decide: Callable[[Sequence[float]], bool]) -> bool:
            return decide(slowest(_OBJECTS)) and decide(slowest(_TENSORS))

        def is_over() -> bool:
            enough = len(rounds) >= _LEAST_ROUNDS
            return enough and every(lambda times_s: rule.done(times_s, elapsed_s))

        while not is_over():
            self._rank.enter("timing", len(rounds))
            found: dict[int, list[float]] = {}
            for step in range(len(runs)):
                place = (step + len(rounds)) % len(runs)
                found[place] = self._batch(runs[place], counts[place])
                elapsed_s += max(found[place]) * counts[place]
            rounds.append(_Rows(*(found[place] for place in range(len(runs)))))
        return rounds, every(rule.reached)

    def _verify(self, binding: ObjectBinding) -> list[ObjectFinding]:
        """One more call of each kind whose outputs are overwritten before and compared after."""
        rank, job = self._rank, self._rank.job
        rank.enter("verification")
        binding.poison()
        self._synchronize()
        rank.rank_group.barrier()
        with _torch_errors():
            binding.with_objects()
            binding.with_tensors()
            self._synchronize()
        texts: list[str] = []
        for check in (binding.wrong_object, binding.wrong_tensor):
            text, was_corrupted = check(self._corrupt)
            self.was_corrupted |= was_corrupted
            texts.append(text)
        wrong = rank.rank_group.gather([float(bool(text)) for text in texts])
        return self._told(texts, [wrong[2 * one : 2 * one + 2] for one in range(job.ranks)])

    def _told(self, own: Sequence[str], wrong: Sequence[Sequence[float]]) -> list[ObjectFinding]:
        """The texts of every rank with wrong data, on rank 0; on others the places alone."""
        rank, job = self._rank, self._rank.job
        found = []
        for other in range(job.ranks):
            for place, name in enumerate(("objects", "tensors")):
                if not wrong[other][place]:
                    continue
                key = f"wrong {name} {rank.case_index} of rank {other}"
                if other == job.rank != 0:
                    rank.client.put(key, own[place].encode())
                text = own[place]
                if job.rank == 0 and other:
                    text = rank.client.get(key, self._settings.timeout_s).decode()
                found.append(ObjectFinding(other, name, text))
        return found


@contextmanager
def _torch_errors(*, unsupported: bool = False) -> Iterator[None]:
    """Raises EngineError for any error of torch, its plug-ins and pickle, which may be of any type.

    ``unsupported``: UnsupportedError if the backend reports that it does not support the call.
    """
    try:
        yield
    except Exception as error:
        if unsupported and cannot(error):
            raise engine.UnsupportedError(one_line(error)) from None
        name = "" if isinstance(error, RuntimeError) else f"{type(error).__name__}: "
        raise engine.EngineError(f"torch.distributed: {name}{one_line(error)}") from None


def _rounded(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[round(one, _DIGITS) for one in row] for row in rows]
