"""The timeline of some steps, from torch's profiler."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from cclmark.analysis.step_timeline import Span, length, merged, outside

_US_PER_S = 1e6
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
#: Kernels of communication libraries. The profiler has no other mark of them.
_COMMUNICATES = re.compile(
    r"nccl|rccl|flagcx|msccl|nvshmem|symm_mem|one_shot|two_shot", re.IGNORECASE
)


class _Event(msgspec.Struct):
    """An event of the Chrome trace format; times in microseconds."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0


class _Trace(msgspec.Struct):
    traceEvents: list[_Event] = []  # noqa: N815 - the format's name


@dataclass(frozen=True)
class Busy:
    """Seconds for one step.

    ``communication_s``: something communicates, ``exposed_s``: and nothing computes meanwhile,
    ``compute_s``: something computes.
    """

    communication_s: float
    exposed_s: float
    compute_s: float


def profiled(
    run: Callable[[], None], steps: int, device: torch.device, backend: str
) -> Busy | None:
    """Runs ``run``, which executes ``steps`` steps, and returns what was busy, for one step.

    On a device, everything but the communication library's kernels computes; a backend without
    kernels communicates while torch waits for its operations. On the host, torch's operators
    compute. None if the profiler recorded no work, or wrote no valid trace.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        device_only = [torch.profiler.ProfilerActivity.CUDA]
        activities = device_only if backend != "gloo" else [*activities, *device_only]
    with torch.profiler.profile(activities=activities) as profiler:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    with tempfile.TemporaryDirectory(prefix="cclmark-profile-") as place:
        file = Path(place) / "trace.json"
        profiler.export_chrome_trace(str(file))
        try:
            trace = msgspec.json.decode(file.read_bytes(), type=_Trace, strict=False)
        except msgspec.DecodeError:  # the profiler does not escape all names
            return None
    events = [one for one in trace.traceEvents if one.ph == "X" and one.dur > 0]
    return busy_in(events, steps, backend, on_host=device.type == "cpu")


def busy_in(events: Iterable[_Event], steps: int, backend: str, *, on_host: bool) -> Busy | None:
    """What was busy according to the events of a trace."""
    communication: list[Span] = []
    compute: list[Span] = []
    operation = f"{backend}:"
    for one in events:
        span = (one.ts, one.ts + one.dur)
        if one.name.startswith(operation) and one.cat != "gpu_user_annotation":
            communication.append(span)
        elif one.cat in _ON_DEVICE:
            (communication if _COMMUNICATES.search(one.name) else compute).append(span)
        elif on_host and one.cat == "cpu_op" and one.name.startswith("aten::"):
            compute.append(span)
    if not compute:
        return None
    sent, computed = merged(communication), merged(compute)
    scale = 1 / (_US_PER_S * steps)
    return Busy(length(sent) * scale, outside(sent, computed) * scale, length(computed) * scale)
