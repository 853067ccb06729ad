"""Runs steps in blocks until their times are known precisely enough, in step with other ranks."""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
import torch
from torch import Tensor

from cclmark.analysis.steps import ON_DEVICE, is_communication, is_host_compute
from cclmark.analysis.stopping import Precision, WarmUp
from cclmark.base.statistics import median
from cclmark.rank.rank import Rank
from cclmark.rank.torch_backend import module_of
from cclmark.work.intervals import length_of, union_of, without
from cclmark_training.torch.trainer import StepFunction

Span = tuple[float, float]


class StepClock(Protocol):
    """Records the ends of steps."""

    def mark(self) -> None:
        """Records a moment: before the first step, and after each one."""

    def read(self) -> list[float]:
        """The seconds between the moments since the last call; waits until the last has passed."""


class HostClock:
    """The host's clock, for steps that are complete when they return."""

    def __init__(self) -> None:
        self._marks: list[float] = []

    def mark(self) -> None:
        """See StepClock."""
        self._marks.append(time.perf_counter())

    def read(self) -> list[float]:
        """See StepClock."""
        marks, self._marks = self._marks, []
        return [after - before for before, after in itertools.pairwise(marks)]


class DeviceClock:
    """Events in the stream of the steps: the host may run ahead, as it does in training."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._module = module_of(torch, device)
        self._marks: list[torch.cuda.Event] = []

    def mark(self) -> None:
        """See StepClock."""
        event = self._module.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def read(self) -> list[float]:
        """See StepClock."""
        marks, self._marks = self._marks, []
        self._module.synchronize(self._device)
        return [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(marks)]


def clock_of(device: torch.device) -> StepClock:
    """The clock for steps on a device."""
    return HostClock() if device.type == "cpu" else DeviceClock(device)


_US_PER_S = 1e6
# What separates steps: on a device the kernel of torch.cuda._sleep, on the host an annotation.
_MARK_KERNEL, _MARK_ON_HOST = "spin_kernel", "cclmark end of a step"


class ProfilerEvent(msgspec.Struct):
    """An event of the Chrome trace format; times in microseconds."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0


class _Trace(msgspec.Struct):
    traceEvents: list[ProfilerEvent] = []  # noqa: N815 - the format's name


@dataclass(frozen=True)
class Busy:
    """Seconds for one step.

    ``step_s``: from the end of a step to the end of the next one. In it, ``compute_s``: something
    computes, ``exposed_s``: something communicates and nothing computes, ``communication_s``:
    something communicates. In the rest nothing runs.
    """

    step_s: float
    communication_s: float
    exposed_s: float
    compute_s: float


class Profiler:
    """Profiles steps on a device with a backend of torch.distributed.

    On an accelerator everything but the communication library's kernels and copies between devices
    computes; a backend
    without kernels (gloo) communicates while its operation runs on the host. On the host, torch's
    operators compute.
    """

    def __init__(self, device: torch.device, backend: str) -> None:
        self._device = device
        self._backend = backend

    @property
    def _activities(self) -> list[torch.profiler.ProfilerActivity]:
        kinds = torch.profiler.ProfilerActivity
        if self._device.type == "cpu":
            return [kinds.CPU]
        # Recording the host's operators as well would slow down the launches.
        return [kinds.CPU, kinds.CUDA] if self._backend == "gloo" else [kinds.CUDA]

    def end_step(self) -> None:
        """Marks the end of a step in the timeline."""
        if self._device.type == "cuda":
            torch.cuda._sleep(1)
        else:
            with torch.profiler.record_function(_MARK_ON_HOST):
                pass

    def profile(self, run: Callable[[], None]) -> Busy | None:
        """What was busy while ``run`` executed steps, each followed by ``end_step``.

        None if the profiler recorded no steps, or wrote no valid trace.
        """
        with torch.profiler.profile(activities=self._activities) as profiler:
            run()
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
        with tempfile.TemporaryDirectory(prefix="cclmark-profile-") as place:
            file = Path(place) / "trace.json"
            profiler.export_chrome_trace(str(file))
            try:
                trace = msgspec.json.decode(file.read_bytes(), type=_Trace, strict=False)
            except msgspec.DecodeError:  # the profiler does not escape all names
                return None
        events = [one for one in trace.traceEvents if one.ph == "X"]
        return busy_in(events, self._backend, on_host=self._device.type == "cpu")


def busy_in(events: Iterable[ProfilerEvent], backend: str, *, on_host: bool) -> Busy | None:
    """What was busy between the first and the last end of a step, for one step.

    None with less than two ends, or without compute.
    """
    communication: list[Span] = []
    compute: list[Span] = []
    ends: list[float] = []
    operation = f"{backend}:"
    for one in events:
        span = (one.ts, one.ts + one.dur)
        if one.name == _MARK_ON_HOST or (_MARK_KERNEL in one.name and one.cat == "kernel"):
            ends.append(span[1])
        elif one.name.startswith(operation) and one.cat != "gpu_user_annotation":
            communication.append(span)
        elif one.cat in ON_DEVICE:
            is_sent = is_communication(one.cat, one.name)
            (communication if is_sent else compute).append(span)
        elif on_host and is_host_compute(one.cat, one.name):
            compute.append(span)
    if len(ends) < 2:
        return None
    window = (min(ends), max(ends))
    sent, computed = _within(communication, window), _within(compute, window)
    if not computed:
        return None
    scale = 1 / (_US_PER_S * (len(ends) - 1))
    return Busy(
        (window[1] - window[0]) * scale,
        length_of(sent) * scale,
        length_of(without(sent, computed)) * scale,
        length_of(computed) * scale,
    )


def _within(spans: Sequence[Span], window: Span) -> list[Span]:
    begin, end = window
    return union_of((max(one[0], begin), min(one[1], end)) for one in spans)


_BLOCK_S = 0.5  # of steps between two decisions
_MOST_IN_BLOCK = 50
_LEAST_IN_BLOCK = 4
_LONG_S = 5.0  # of longer steps, a block has one
_WARM_UP_STEPS = 3  # of a block of warm-up
_WARM_UP_S = 3.0
_FIXED_WARM_UP_STEPS = 10  # of a block, if their number is given
_LEAST_SAMPLES = 12
_SLOWER = 2.0  # by so much a step may be slower than the last ones
_DIGITS = 9  # of a time in seconds: nanoseconds


@dataclass
class Sampled:
    """Times of steps by rank, the slowest rank's, and the losses of all steps by rank."""

    step_s: list[list[float]] = field(default_factory=list)
    slowest_s: list[float] = field(default_factory=list)
    losses: list[list[float]] = field(default_factory=list)
    converged: bool = True

    def add(self, times_s: list[list[float]], losses: list[list[float]]) -> None:
        """Adds a block."""
        ranks = len(times_s)
        self.step_s = self.step_s or [[] for _ in range(ranks)]
        self.losses = self.losses or [[] for _ in range(ranks)]
        for rank in range(ranks):
            self.step_s[rank] += times_s[rank]
            self.losses[rank] += losses[rank]
        self.slowest_s += [max(column) for column in zip(*times_s, strict=True)]


class Stepper:
    """Runs steps with the batches in turn. ``delay_s``: a wait of the host before each step.

    The first block has one step, for which the deadline of a phase applies. The deadline of a later
    block allows for the time of its steps besides. Decisions depend only on times shared by all
    ranks, so all ranks decide alike.
    """

    def __init__(
        self, rank: Rank, clock: StepClock, batches: list[Tensor], delay_s: float = 0.0
    ) -> None:
        self._rank = rank
        self._clock = clock
        self._batches = batches
        self._delay_s = delay_s
        self._done = 0
        self._step_s = 0.0

    def warm_up(self, step: StepFunction, fixed: int | None) -> Sampled:
        """Runs a step, then steps until blocks of them agree; or ``fixed`` steps."""
        found = Sampled()
        if fixed is not None:
            begin = 0
            while begin < fixed:
                number = min(_FIXED_WARM_UP_STEPS if begin else 1, fixed - begin)
                self.enter("warm-up", number, begin)
                self._block(step, found, number, timed=False)
                begin += number
            return found
        self.enter("warm-up", 1)
        elapsed_s = self._block(step, found, 1, timed=False)
        rule = WarmUp(most_time_s=_WARM_UP_S)
        medians: list[float] = []
        while not rule.done(medians, elapsed_s):
            begin = len(found.slowest_s)
            self.enter("warm-up", _WARM_UP_STEPS + 1, begin)
            elapsed_s += self._block(step, found, _WARM_UP_STEPS)
            medians.append(median(found.slowest_s[begin:]))
        return found

    def sample(
        self, step: StepFunction, steps: int | None, precision: float, most_s: float
    ) -> Sampled:
        """Times ``steps`` steps, or as many as ``precision`` (a share of the median) requires.

        Each block begins with a step that is not timed: at its start the device has no work queued.
        """
        found = Sampled()
        rule = Precision(precision, most_s, _LEAST_SAMPLES)
        elapsed_s = 0.0
        while True:
            number = self._block_length()
            if steps is not None:  # blocks of equal length
                left = steps - len(found.slowest_s)
                number = math.ceil(left / math.ceil(left / number))
            self.enter("timing", number + 1, len(found.slowest_s))
            elapsed_s += self._block(step, found, number)
            if steps is not None:
                if len(found.slowest_s) >= steps:
                    return found
            elif rule.done(found.slowest_s, elapsed_s):
                found.converged = rule.reached(found.slowest_s)
                return found

    def enter(self, phase: str, steps: int, done: int = 0) -> None:
        """Enters a phase of ``steps`` steps, whose time is added to the deadline once it is known.

        ``done``: the steps before. Where no step has run yet, the deadline is that of any phase.
        """
        self._rank.enter(phase, done, others_s=_SLOWER * steps * self._step_s)

    def run(self, step: StepFunction, number: int) -> None:
        """Runs steps that are not timed."""
        for _ in range(number):
            step(self._next())

    def _block_length(self) -> int:
        if self._step_s > _LONG_S:
            return 1
        return min(_MOST_IN_BLOCK, max(_LEAST_IN_BLOCK, int(_BLOCK_S / (self._step_s or _BLOCK_S))))

    def _next(self) -> Tensor:
        if self._delay_s:
            time.sleep(self._delay_s)
        tokens = self._batches[self._done % len(self._batches)]
        self._done += 1
        return tokens

    def _block(
        self, step: StepFunction, found: Sampled, number: int, *, timed: bool = True
    ) -> float:
        """Runs ``number`` steps, timed ones after another step; returns the time of the block."""
        rank = self._rank
        rank.rank_group.barrier()
        begin_s = time.monotonic()
        losses = [step(self._next())] if timed else []
        self._clock.mark()
        for _ in range(number):
            losses.append(step(self._next()))
            self._clock.mark()
        times_s = [round(one, _DIGITS) or 10**-_DIGITS for one in self._clock.read()]
        own = torch.stack(losses).double().tolist()
        gathered = rank.rank_group.gather([time.monotonic() - begin_s, *times_s, *own])
        length = 1 + len(times_s) + len(own)
        rows = [gathered[place : place + length] for place in range(0, len(gathered), length)]
        by_rank = [row[1 : 1 + number] for row in rows]
        found.add(by_rank if timed else [[] for _ in rows], [row[1 + number :] for row in rows])
        self._step_s = max(median(one) for one in by_rank)
        return max(row[0] for row in rows)
