"""The timeline of some steps, from torch's profiler."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from cclmark.analysis.step_timeline import (
    ON_DEVICE,
    Span,
    clipped,
    is_communication,
    is_host_compute,
    length,
    merged,
    outside,
)

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
        length(sent) * scale,
        outside(sent, computed) * scale,
        length(computed) * scale,
    )


def _within(spans: Sequence[Span], window: Span) -> list[Span]:
    return merged(clipped(spans, window))
