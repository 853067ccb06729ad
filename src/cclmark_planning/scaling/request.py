"""Runs ``cclmark predict --model`` and ``--job``: measured steps, profiles and options to jobs,
their steps to journal and screen."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace as replaced

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.document.insight_words import amount
from cclmark.recording.recorder import Recorded
from cclmark.recording.whole_run import PlanFlags, record_whole
from cclmark_planning.job_options import JobOptions
from cclmark_planning.need.plan import Assumption, Need
from cclmark_planning.need.request import (
    parallel_layout,
    planned_accelerator,
    planned_needs,
    planned_network,
)
from cclmark_planning.scale.frameworks import TORCH
from cclmark_planning.scale.memory import most_memory_bytes
from cclmark_planning.scale.profiled_step import ProfiledStep, check_growth
from cclmark_planning.scale.training_job import TrainingJob, check_job
from cclmark_planning.scaling.calibration import (
    ASSUMED_SPREAD,
    LEAST_SPREAD,
    ONE_STEP_SPREAD,
    Calibration,
    MeasuredStep,
    calibrated,
    flops_of,
    read_steps,
    utilization_time_s,
)
from cclmark_planning.scaling.figures import result_of, step_of
from cclmark_planning.scaling.kind import KIND
from cclmark_planning.scaling.plan import LAYOUT, MEASURED, STRONG, WEAK, ScaledJob, ScaledProgram
from cclmark_planning.scaling.profiles import read_profiled_step
from cclmark_planning.scaling.result import ScaledResult

_MOST_LAYOUTS = 12  # listed
_MICRO_BATCHES = (1, 2, 4, 8, 16)
_MOST_STAGES = 64
_TERA = 1e12
_NO_NETWORK = "--network is missing: the line rate between nodes, for example --network 8x400"


class ScalingFlags(PlanFlags, Protocol):
    """The options besides those of the job. ``steps``: a table of measured steps; ``layouts``:
    whether all layouts are ranked; ``programs``: profiles of a program."""

    steps: Path | None
    layouts: bool
    programs: list[Path]


def scale_job(job: JobOptions, flags: ScalingFlags) -> Recorded:
    """Predicts the steps of ``job``, or of a profiled program. Raises UsageError."""
    began_s = time.monotonic()
    results: list[ScaledResult]
    notices: list[str] = []
    if flags.programs:
        results = program_results(job, flags.programs)
        if not job.accelerator and job.node_gbps is None:
            name = planned_accelerator(job).name
            notices.append(f"the profile names no device: links of {name}; see --accelerator")
    else:
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
        raise UsageError(_NO_NETWORK)
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


def program_results(flags: JobOptions, paths: Sequence[Path]) -> list[ScaledResult]:
    """The profiled steps, each but the first predicted from the one on fewer GPUs, then those on
    more GPUs, with a batch that grows and with the same one. Raises UsageError."""
    layout = parallel_layout(flags.parallel) if flags.parallel else None
    profiled = sorted(
        (read_profiled_step(path, flags.measured_tokens, layout) for path in paths),
        key=lambda one: one.devices,
    )
    last = profiled[-1]
    counts = [one.devices for one in profiled]
    if len(set(counts)) < len(counts):
        raise UsageError("--job: two profiles are of the same number of GPUs: give one of them")
    if not flags.gpus:
        raise UsageError("--gpus is missing: how many GPUs does the job have? --gpus 8,64,512")
    numbers = [one for one in flags.gpus if one != last.devices]
    if not numbers or numbers[0] < last.devices:
        raise UsageError(
            f"--gpus {flags.gpus[0]}: the program was profiled on {last.devices} GPUs: predictions "
            "are for more"
        )
    network, assumptions = planned_network(flags)

    def job(measured: ProfiledStep, devices: int, purpose: str) -> ScaledJob:
        grown = check_growth(measured, devices, flags.per_node)
        grown = replaced(grown, same_batch=purpose == STRONG)
        if grown.nodes > 1 and not network.bps:
            raise UsageError(_NO_NETWORK)
        spread = ONE_STEP_SPREAD if grown.divisor > 1 else LEAST_SPREAD
        own = (_replica_groups(measured), *assumptions)
        return ScaledJob(None, purpose, spread, program=ScaledProgram(grown, network, own))

    results = []
    for place, one in enumerate(profiled):
        if not place:
            found = ScaledResult(0, job(one, one.devices, MEASURED), "ok", measured_s=one.step_s)
        else:
            found = result_of(job(profiled[place - 1], one.devices, MEASURED))
            found.measured_s, found.baseline_s = one.step_s, profiled[place - 1].step_s
        results.append(found)
    for purpose in (WEAK, STRONG):
        results += [result_of(job(last, one, purpose)) for one in (last.devices, *numbers)]
    for index, result in enumerate(results):
        result.index = index
    return results


def _replica_groups(measured: ProfiledStep) -> Assumption:
    """What is taken to grow with the number of replicas, and what compute hides."""
    groups = sorted({(one.ranks, one.stride) for one in measured.messages if one.grows})
    words = " and ".join(
        f"{size} ranks{f', each {stride} apart' if stride > 1 else ''}" for size, stride in groups
    )
    hidden = (
        "compute hides between the same share and the same seconds of them"
        if measured.knows_compute
        else "what compute hides of them is not part of the profile: between all and nothing"
    )
    return Assumption("replicas", f"groups of {words}; {hidden}", "or as --parallel states")


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
        check_job(job.of_model.job)
    except UsageError as error:
        return ScaledResult(0, job, "skipped", plain(str(error)))
    needed = most_memory_bytes(job.of_model.job)
    if job.memory_bytes and needed > job.memory_bytes:
        reason = (
            f"it takes at least {needed / 1e9:,.0f} GB of a GPU, which has "
            f"{job.memory_bytes / 1e9:.0f} GB"
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
    """The layouts of a job on as many GPUs with the same batch: tp that divides a node, pp the GPUs
    and ep the experts, zero if it asks for none, and micro-batches; what else it asks for stays."""
    need = base.of_model
    job = need.job
    tensors = _divisors(job.per_node)
    stages = [one for one in _divisors(job.devices) if one <= min(_MOST_STAGES, job.model.layers)]
    experts = _divisors(max(1, job.model.experts))
    shared = [job.layout.zero] if job.layout.zero else [0, 1, *[3] * (job.framework == TORCH)]
    for tp, pp, ep, zero, micro in product(tensors, stages, experts, shared, _MICRO_BATCHES):
        changed = _with(job, micro, tp=tp, pp=pp, ep=ep, zero=zero)
        if changed is not None:
            yield replaced(base, need=replaced(need, job=changed))


def _divisors(number: int) -> list[int]:
    low = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
    return sorted({*low, *(number // one for one in low)})


def _with(
    job: TrainingJob, micro_batch: int, *, tp: int, pp: int, ep: int, zero: int
) -> TrainingJob | None:
    sp = tp > 1 and (job.layout.sp or job.layout.tp == 1)
    vp = 1 if pp == 1 else job.layout.vp
    own = replaced(job.layout, dp=0, tp=tp, pp=pp, ep=ep, sp=sp, vp=vp, zero=zero, shard=0)
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
        one
        for one in jobs
        if not memory_bytes or most_memory_bytes(one.of_model.job) <= memory_bytes
    ]
    ordered = sorted(fitting, key=lambda one: step_of(one.of_model).step_s)
    text = f"{amount(len(jobs), 'layout')} are possible"
    if len(fitting) < len(jobs):
        text += f", {len(jobs) - len(fitting)} of which do not fit into {memory_bytes / 1e9:.0f} GB"
    return ordered[:_MOST_LAYOUTS], f"{text}; the fastest {len(ordered[:_MOST_LAYOUTS])} are listed"
