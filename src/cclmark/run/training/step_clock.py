"""The times of steps: by events on the device, or by the host's clock."""

from __future__ import annotations

import itertools
import time
from typing import Protocol

import torch


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
        self._marks: list[torch.cuda.Event] = []

    def mark(self) -> None:
        """See StepClock."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def read(self) -> list[float]:
        """See StepClock."""
        marks, self._marks = self._marks, []
        torch.cuda.synchronize(self._device)
        return [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(marks)]


def clock_of(device: torch.device) -> StepClock:
    """The clock for steps on a device."""
    return DeviceClock(device) if device.type == "cuda" else HostClock()
