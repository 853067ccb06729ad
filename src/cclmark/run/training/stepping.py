"""Runs steps in blocks until their times are known precisely enough, in step with other ranks."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cclmark.analysis.statistics import median
from cclmark.analysis.stopping import Precision, WarmUp
from cclmark.run.rank import Rank
from cclmark.run.training.step_clock import StepClock
from cclmark.run.training.trainer import StepFunction

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
