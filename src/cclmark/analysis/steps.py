"""The figures of a step that trainings and profiles of programs share.

Also communication and compute on the timeline of profiled steps: what of one the other hides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from cclmark.base.statistics import median, median_interval
from cclmark.journal.schema import ProcessTimeline, Profile
from cclmark.work.profiled import PLUG_IN

_KINETO, _EXECUTION_TRACE = "kineto", "execution-trace"
_IMPORT_A_TRACE = "imported traces of torch.profiler contain all kernels"
_CLEARLY_MORE = 1.1  # ranks with equal work differed by less than 1 % in compute on 4 × H200


@dataclass(frozen=True)
class StepFigures:
    """Seconds for one step; None: unknown, for ``reason``.

    ``step_s``: the median over ``steps`` steps of the slowest rank's time, ``interval_s`` its 95 %
    interval. The others are means over profiled steps of one rank. ``profiled_s``: a step, which
    consists of ``compute_s`` (something computes), ``exposed_s`` (something communicates and
    nothing computes) and ``idle_s`` (nothing runs). ``communication_s`` consists of ``exposed_s``
    and ``hidden_s`` (something communicates beside compute).
    """

    steps: int = 0
    step_s: float | None = None
    interval_s: tuple[float, float] | None = None
    profiled_s: float | None = None
    compute_s: float | None = None
    exposed_s: float | None = None
    idle_s: float | None = None
    hidden_s: float | None = None
    communication_s: float | None = None
    reason: str = ""

    @property
    def profile_difference(self) -> float | None:
        """How much longer the step is whose parts are known than ``step_s``, as a share."""
        if self.profiled_s is None or not self.step_s:
            return None
        return self.profiled_s / self.step_s - 1


@dataclass(frozen=True)
class StepRun:
    """The steps of one program, or of one variant of a training.

    ``variant``: empty if the run has no variants. ``work``: the program or the model.
    ``operations``: the floating-point operations of a step of all ranks, 0 if unknown. ``dtype``:
    of the arithmetic, empty if unknown.
    """

    variant: str
    work: str
    ccl: str
    ranks: int
    status: str
    figures: StepFigures
    operations: float = 0.0
    dtype: str = ""


def limiting_rank(exposed_s: Sequence[float], compute_s: Sequence[float]) -> int:
    """The rank for which the others wait, by the seconds of its parts of a step.

    The one with the least exposed communication. Where another one computes clearly more, for
    example the stage of a pipeline with the output head, the one that computes most: less exposed
    communication of a stage that computes little only shows in what it waits.
    """
    least = min(range(len(exposed_s)), key=exposed_s.__getitem__)
    most = max(range(len(compute_s)), key=compute_s.__getitem__)
    return most if compute_s[most] > _CLEARLY_MORE * compute_s[least] else least


def slowest_of(by_rank: Sequence[Sequence[float]]) -> list[float]:
    """The time of the slowest rank in each step."""
    return [max(column) for column in zip(*by_rank, strict=True)]


def steps_of_profile(profile: Profile) -> StepFigures:
    """The figures of the steps of a program, of the ranks that have steps."""
    timelines = [
        one.timeline
        for one in profile.processes
        if one.timeline is not None and one.timeline.step_s
    ]
    if not timelines:
        return _of_older(profile)
    steps_s = _steps(timelines)
    parts = _least(timelines)
    found = StepFigures(
        steps=len(steps_s),
        step_s=median(steps_s),
        interval_s=median_interval(steps_s),
        reason=_why_unknown(profile, parts),
    )
    if parts is None:
        return found
    communication_s, profiled_s = fmean(parts.communication_s), fmean(parts.step_s)
    found = replace(found, communication_s=communication_s)
    if not _has_parts(parts):
        return found
    compute_s, exposed_s = fmean(parts.compute_s), fmean(parts.exposed_s)
    return replace(
        found,
        profiled_s=profiled_s,
        compute_s=compute_s,
        exposed_s=exposed_s,
        idle_s=max(0.0, profiled_s - compute_s - exposed_s),
        hidden_s=max(0.0, communication_s - exposed_s),
    )


def _steps(timelines: Sequence[ProcessTimeline]) -> list[float]:
    """The time of the slowest rank in each step.

    Of ranks that have different numbers of steps, it is unknown which ones belong together: then
    the steps of the rank with the longest median.
    """
    by_rank = [one.step_s for one in timelines]
    if len(set(map(len, by_rank))) == 1:
        return slowest_of(by_rank)
    return max(by_rank, key=median)


def _least(timelines: Sequence[ProcessTimeline]) -> ProcessTimeline | None:
    """See limiting_rank; of unknown compute the rank with least communication, or None."""
    known = [one for one in timelines if _has_parts(one)]
    if known:
        exposed_s = [fmean(one.exposed_s) for one in known]
        return known[limiting_rank(exposed_s, [fmean(one.compute_s) for one in known])]
    known = [one for one in timelines if len(one.communication_s) == len(one.step_s)]
    return min(known, key=lambda one: fmean(one.communication_s), default=None)


def _has_parts(one: ProcessTimeline) -> bool:
    lists = (one.communication_s, one.exposed_s, one.compute_s)
    return all(len(times) == len(one.step_s) for times in lists)


def _of_older(profile: Profile) -> StepFigures:
    """What a journal without times of single steps contains: medians of each process."""
    known = [one for one in profile.processes if one.step_s is not None]
    if not known:
        return StepFigures(reason=_why_no_steps(profile))
    sent = [one.step_communication_s for one in known if one.step_communication_s is not None]
    return StepFigures(
        steps=max(one.steps for one in known),
        step_s=max(one.step_s or 0.0 for one in known),
        communication_s=min(sent, default=None),
        reason=(
            "compute, exposed, idle and hidden are unknown: an older cclmark, which did not store "
            "single steps, wrote the journal"
        ),
    )


def _why_no_steps(profile: Profile) -> str:
    if profile.source == _EXECUTION_TRACE:
        return "times of steps are unknown: execution traces contain no times"
    advice = ": mark them with a schedule and profiler.step()" if profile.source == _KINETO else ""
    return f"steps are unknown: no sequence of calls repeats{advice}"


def _why_unknown(profile: Profile, parts: ProcessTimeline | None) -> str:
    if parts is None:
        return (
            "communication, compute, exposed, idle and hidden are unknown: there are no times of "
            "kernels"
        )
    if _has_parts(parts):
        return ""
    unknown = "compute, exposed, idle and hidden are unknown: "
    if profile.source == PLUG_IN:
        return f"{unknown}the plug-in sees the kernels of communication only; {_IMPORT_A_TRACE}"
    return f"{unknown}the source contains no compute; {_IMPORT_A_TRACE}"


#: The categories of a trace of torch.profiler that are work of the device.
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
# Kernels of communication libraries. The profiler has no other mark of them.
_COMMUNICATES = re.compile(
    r"nccl|rccl|flagcx|msccl|nvshmem|symm_mem|one_shot|two_shot", re.IGNORECASE
)


def is_communication(category: str, name: str) -> bool:
    """Whether work of the device, a category of ON_DEVICE, is a communication library's.

    A step itself copies nothing between devices: such copies are a library's.
    """
    return bool(_COMMUNICATES.search(name)) or (category == "gpu_memcpy" and "PtoP" in name)


def is_host_compute(category: str, name: str) -> bool:
    """Whether an event is compute where the host is the device: an operator of torch."""
    return category == "cpu_op" and name.startswith("aten::")
