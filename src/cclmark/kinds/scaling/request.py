"""Runs ``cclmark predict --model``: measured steps and options to jobs, their steps to journal and
screen."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace as replaced

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.document.insight_words import amount
from cclmark.kinds.need.plan import Assumption, Need
from cclmark.kinds.need.request import planned_accelerator, planned_needs
from cclmark.kinds.scaling.calibration import (
    ASSUMED_SPREAD,
    ONE_STEP_SPREAD,
    Calibration,
    MeasuredStep,
    calibrated,
    flops_of,
    read_steps,
    utilization_time_s,
)
from cclmark.kinds.scaling.figures import result_of, step_of
from cclmark.kinds.scaling.kind import KIND
from cclmark.kinds.scaling.plan import LAYOUT, MEASURED, STRONG, WEAK, ScaledJob
from cclmark.kinds.scaling.result import ScaledResult
from cclmark.options.job_options import JobOptions
from cclmark.recording.recorder import Recorded
from cclmark.recording.whole_run import PlanFlags, record_whole
from cclmark.scale.memory import most_memory_bytes
from cclmark.scale.training_job import TrainingJob, check_job

_MOST_LAYOUTS = 12  # listed
_MICRO_BATCHES = (1, 2, 4, 8, 16)
_MOST_STAGES = 64
_TERA = 1e12


class ScalingFlags(PlanFlags, Protocol):
    """The options besides those of the job. ``steps``: a table of measured steps; ``layouts``:
    whether all layouts are ranked."""

    steps: Path | None
    layouts: bool


def scale_job(job: JobOptions, flags: ScalingFlags) -> Recorded:
    """Predicts the steps of ``job``. Raises UsageError."""
    began_s = time.monotonic()
    results, notices = scaled_results(job, flags.steps, layouts=flags.layouts)
    return record_whole(KIND, results, flags, "predict", began_s, notices=notices)


def scaled_results(
    flags: JobOptions, steps: Path | None, *, layouts: bool = False
) -> tuple[list[ScaledResult], list[str]]:
    """Measured jobs, then strong and weak scaling, then layouts; and what readers have to know.

    Raises UsageError.
    """
    own = planned_needs(flags)
    if any(one.job.nodes > 1 and not one.network.bps for one in own):
        raise UsageError(
            "--network is missing: the line rate between nodes, for example --network 8x400"
        )
    measured = [] if steps is None else read_steps(steps, flags)
    calibration, assumption, notices = _calibration(own[0], measured, steps, flags)
    memory_bytes = planned_accelerator(flags).memory_bytes

    def job(need: Need, purpose: str) -> ScaledJob:
        need = calibration.on(need, assumption)
        return ScaledJob(need, purpose, calibration.spread, memory_bytes)

    results = [*_measured_results(measured, memory_bytes)]
    for purpose, needs in ((STRONG, _strong(flags, own)), (WEAK, _weak(flags, own))):
        for need in needs:
            results.append(_checked(job(need, purpose)))
    if layouts:
        ranked, left_out = _ranked([*_layouts(job(own[-1], LAYOUT))], memory_bytes)
        results += [result_of(one) for one in ranked]
        notices.append(left_out)
    for place, one in enumerate(results):
        one.index = place
    return results, notices


def _calibration(
    need: Need, measured: Sequence[MeasuredStep], steps: Path | None, flags: JobOptions
) -> tuple[Calibration, Assumption | None, list[str]]:
    """The rate of compute: of measured steps, else of --measured, else assumed."""
    if steps is None:
        compute = next((one for one in need.assumptions if one.name == "compute"), None)
        spread = ONE_STEP_SPREAD if flags.measured is not None else ASSUMED_SPREAD
        return Calibration(need.flops, spread), compute, []
    rates = [rate for one in measured if (rate := flops_of(one)) is not None]
    if not rates:
        raise UsageError(
            f"--steps {plain(str(steps))}: communication alone takes longer than the measured "
            "steps: check --network, --node-bandwidth and --overlap"
        )
    notices = []
    if len(rates) < len(measured):
        lost = amount(len(measured) - len(rates), "measured step")
        notices.append(
            f"{lost}: communication alone would take longer; left out of the calibration"
        )
    found = calibrated(rates)
    text = f"{found.flops / _TERA:.4g} TFLOP/s of a GPU, ± {found.spread * 100:.2g} %"
    source = f"measured: {amount(len(rates), 'step')} of {plain(steps.name)}"
    return found, Assumption("compute", text, source, measured=True), notices


def _measured_results(
    measured: Sequence[MeasuredStep], memory_bytes: float
) -> Iterator[ScaledResult]:
    """Each measured job, predicted from the others."""
    rates = [flops_of(one) for one in measured]
    for place, one in enumerate(measured):
        others = [other for at, other in enumerate(measured) if at != place]
        known = [rate for at, rate in enumerate(rates) if at != place and rate is not None]
        if not known:
            job = ScaledJob(one.need, MEASURED, 0.0, memory_bytes)
            yield ScaledResult(0, job, "ok", measured_s=one.step_s)
            continue
        calibration = calibrated(known)
        job = ScaledJob(calibration.on(one.need), MEASURED, calibration.spread, memory_bytes)
        found = result_of(job)
        found.measured_s = one.step_s
        found.baseline_s = utilization_time_s(one.need, others)
        yield found


def _checked(job: ScaledJob) -> ScaledResult:
    """The result of a job, skipped with the reason if it is not possible."""
    try:
        check_job(job.need.job)
    except UsageError as error:
        return ScaledResult(0, job, "skipped", plain(str(error)))
    needed = most_memory_bytes(job.need.job)
    if job.memory_bytes and needed > job.memory_bytes:
        reason = (
            f"it takes at least {needed / 1e9:,.0f} of the {job.memory_bytes / 1e9:.0f} GB of a GPU"
        )
        return ScaledResult(0, job, "skipped", reason, needed_bytes=needed)
    return result_of(job)


def _strong(flags: JobOptions, own: Sequence[Need]) -> list[Need]:
    """The same batch on all numbers of GPUs: --batch, or that of the largest number."""
    batch = flags.batch or own[-1].job.batch
    return [replaced(one, job=replaced(one.job, batch=batch)) for one in own]


def _weak(flags: JobOptions, own: Sequence[Need]) -> list[Need]:
    """As many sequences for each GPU: of --batch on the smallest number, or the usual ones."""
    first = own[0].job
    batch = flags.batch or first.batch
    return [
        replaced(one, job=replaced(one.job, batch=batch * one.job.devices // first.devices))
        for one in own
    ]


def _layouts(base: ScaledJob) -> Iterator[ScaledJob]:
    """The layouts of a job on as many GPUs with the same batch: tp, pp and ep of powers of two, tp
    within a node, and micro-batches; what else it asks for stays."""
    job = base.need.job
    doubled = [1 << shift for shift in range(20)]
    tensors = [one for one in doubled if one <= job.per_node]
    stages = [one for one in doubled if one <= min(_MOST_STAGES, job.model.layers)]
    experts = [one for one in doubled if one <= max(1, job.model.experts)]
    for tp, pp, ep, micro in product(tensors, stages, experts, _MICRO_BATCHES):
        changed = _with(job, micro, tp=tp, pp=pp, ep=ep)
        if changed is not None:
            yield replaced(base, need=replaced(base.need, job=changed))


def _with(job: TrainingJob, micro_batch: int, *, tp: int, pp: int, ep: int) -> TrainingJob | None:
    sp = tp > 1 and (job.layout.sp or job.layout.tp == 1)
    own = replaced(
        job.layout, dp=0, tp=tp, pp=pp, ep=ep, sp=sp, vp=1 if pp == 1 else job.layout.vp, shard=0
    )
    try:
        found = replaced(job, layout=own.on(job.devices), micro_batch=micro_batch)
        if not found.micro_batches:
            return None
        check_job(found)
    except (UsageError, ZeroDivisionError):
        return None
    return found


def _ranked(jobs: Sequence[ScaledJob], memory_bytes: float) -> tuple[list[ScaledJob], str]:
    """The fastest layouts that fit into the memory, and how many were considered."""
    fitting = [
        one for one in jobs if not memory_bytes or most_memory_bytes(one.need.job) <= memory_bytes
    ]
    ordered = sorted(fitting, key=lambda one: step_of(one.need).step_s)
    text = f"{amount(len(jobs), 'layout')} are possible"
    if len(fitting) < len(jobs):
        text += f", {len(jobs) - len(fitting)} of which do not fit into {memory_bytes / 1e9:.0f} GB"
    return ordered[:_MOST_LAYOUTS], f"{text}; the fastest {len(ordered[:_MOST_LAYOUTS])} are listed"
