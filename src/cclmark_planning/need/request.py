"""Runs ``cclmark need``: options and journals to jobs, their figures to journal and screen."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from cclmark.analysis.steps import StepRun
from cclmark.base.errors import EXIT_OK, EXIT_WRONG, UsageError
from cclmark.base.printable import plain
from cclmark.document.blocks import RunContent
from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal, report_kind
from cclmark.recording.recorder import Recorded
from cclmark.recording.whole_run import record_whole
from cclmark.work.accelerators import (
    ACCELERATORS,
    GBIT,
    LINK_SHARE,
    MEMORY_SHARE,
    Accelerator,
    find_accelerator,
)
from cclmark.work.models import Model
from cclmark_planning.job_options import USUAL_MFU, JobOptions
from cclmark_planning.need.command import NeedFlags
from cclmark_planning.need.figures import is_enough, needed_by
from cclmark_planning.need.kind import KIND
from cclmark_planning.need.plan import Assumption, Need
from cclmark_planning.scale.frameworks import GRADIENTS, MEGATRON, PRECISIONS, TORCH
from cclmark_planning.scale.layout import JobLayout, parse_job_layout
from cclmark_planning.scale.planned_models import planned_model
from cclmark_planning.scale.step import HiddenShares, Network, usual_shares
from cclmark_planning.scale.traffic import GROUPS
from cclmark_planning.scale.training_job import TrainingJob, check_job

_USUAL_SEQUENCE = 8192
_USUAL_ACCELERATOR = "H100"
#: By which a step may take longer than on an ideal network between nodes.
USUAL_SHARE = 0.1
# The types that `cclmark train` computes with.
_TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "mixed": "mixed"}
_TERA, _GIGA = 1e12, 1e9
_FP8, _FP32 = "fp8", "fp32"
# accumulate_allreduce_grads_in_fp32 in megatron/training/arguments.py.
_REDUCED_IN_FP32 = ("bf16", "fp8")
_OVERLAP, _OVERLAP_FINDING = "overlap", "overlap-of-largest"
_LATENCIES = "latencies of protocol Simple in NCCL 2.28, graph/tuning.cc"
_ACHIEVED = (
    "assumed: rings of NCCL achieved 365 of 400 GB/s between 4 nodes of 8 H200, and 22.9 of 25 "
    "GB/s between 2 GH200"
)
_OVERLAPPED = {
    TORCH: "assumed: what torch overlaps by default",
    MEGATRON: "assumed: what Megatron-LM overlaps by default; with --overlap-grad-reduce and "
    "--overlap-param-gather dp=100%",
}


def plan_network(flags: NeedFlags) -> Recorded:
    """Computes what the job of ``flags`` needs."""
    began_s = time.monotonic()
    needs = planned_needs(flags, flags.share_percent / 100)
    every = [*needs, *_variants(needs[-1])]
    results = [needed_by(need, index) for index, need in enumerate(every)]
    fails = flags.fail_if_not_enough and not all(map(is_enough, results[: len(needs)]))
    code = EXIT_WRONG if fails else EXIT_OK
    return record_whole(KIND, results, flags, "need", began_s, code=code)


def planned_needs(flags: JobOptions, share: float = USUAL_SHARE) -> list[Need]:
    """The jobs that were asked for, by the number of GPUs. Raises UsageError.

    ``share``: by which a step may take longer than on an ideal network.
    """
    if not flags.model:
        raise UsageError("--model is missing: cclmark need --model llama3-8b --gpus 512")
    model = planned_model(flags.model)
    layout = parallel_layout(flags.parallel)
    jobs = [_job(flags, model, layout.on(number)) for number in _numbers(flags, layout)]
    if flags.hold_gradients and layout.zero < 2:
        raise UsageError("--hold-gradients is about shards of gradients: choose zero=3 or zero=2")
    for job in jobs:
        check_job(job)
    journal = None if flags.measured is None else read_journal(flags.measured)
    accelerator = _accelerator(flags.accelerator, journal)
    flops, compute = _compute(flags, journal, accelerator, jobs[-1])
    hidden, overlapped = _hidden(flags, jobs[-1])
    network, links = _network(flags, accelerator)
    base = Need(
        *(jobs[-1], network, flops, accelerator.memory_bps * MEMORY_SHARE),
        *(share, hidden),
        memory_bytes=accelerator.memory_bytes,
        assumptions=(compute, _memory(accelerator), *links, overlapped),
    )
    return [replace(base, job=job) for job in jobs]


def planned_accelerator(flags: JobOptions) -> Accelerator:
    """The accelerator of the job: of --accelerator, else of --measured. Raises UsageError."""
    journal = None if flags.measured is None else read_journal(flags.measured)
    return _accelerator(flags.accelerator, journal)


def _accelerator(name: str, journal: Journal | None) -> Accelerator:
    """The named accelerator, or that of a journal. Raises UsageError for an unknown name."""
    if not name and journal is not None and journal.header.devices:
        found = find_accelerator(journal.header.devices[0].name)
        if found is not None:
            return found
    found = find_accelerator(name or _USUAL_ACCELERATOR)
    if found is None:
        known = ", ".join(one.name for one in ACCELERATORS)
        raise UsageError(f"--accelerator {name}: choose from {known}")
    return found


def parallel_layout(text: str) -> JobLayout:
    """The layout of --parallel. Raises UsageError."""
    try:
        return parse_job_layout(text)
    except UsageError as error:
        raise UsageError(f"--parallel {text}: {error}") from None


def _numbers(flags: JobOptions, layout: JobLayout) -> Sequence[int]:
    if flags.gpus:
        return flags.gpus
    if not layout.dp:
        raise UsageError("--gpus is missing: how many GPUs does the job have? --gpus 8,64,512")
    return [layout.devices]


def _job(flags: JobOptions, model: Model, layout: JobLayout) -> TrainingJob:
    usual = layout.dp * flags.micro_batch * layout.pp
    gradients = PRECISIONS[flags.precision][1]
    if flags.framework == MEGATRON and flags.precision in _REDUCED_IN_FP32:
        gradients = GRADIENTS["fp32"]
    if flags.gradients:
        gradients = GRADIENTS[flags.gradients]
    return TrainingJob(
        model=model,
        layout=layout,
        batch=flags.batch or usual,
        micro_batch=flags.micro_batch,
        sequence=flags.sequence or min(model.context, _USUAL_SEQUENCE),
        per_node=flags.per_node,
        framework=flags.framework,
        precision=flags.precision,
        gradient_bytes=gradients,
        recompute=flags.recompute,
        holds=flags.hold_gradients,
        scatters=flags.scatter_gather,
    )


def _compute(
    flags: JobOptions, journal: Journal | None, accelerator: Accelerator, job: TrainingJob
) -> tuple[float, Assumption]:
    """The operations of a device in a second. Raises UsageError."""
    if flags.measured is not None and journal is not None:
        flops, source = _measured_flops(flags.measured, journal, flags.measured_tokens, job)
        figure = f"{flops / _TERA:.4g} TFLOP/s of a GPU"
        return flops, Assumption("compute", figure, source, measured=True)
    peak = flags.peak_tflops * _TERA if flags.peak_tflops else accelerator.peak_flops
    source = "--peak" if flags.peak_tflops else accelerator.source
    if not flags.peak_tflops and job.precision == _FP8:
        if not accelerator.has_fp8:
            raise UsageError(f"{accelerator.name} has no peak rate for fp8: give it with --peak")
        peak, source = 2 * peak, f"{source}, twice that of bfloat16"
    elif not flags.peak_tflops and job.precision == _FP32:
        raise UsageError("the peak rate for fp32 is not known: give it with --peak")
    mfu = USUAL_MFU if flags.mfu_percent is None else flags.mfu_percent
    stated = (
        "--mfu"
        if flags.mfu_percent is not None
        else ("assumed: without communication, `cclmark train` reached 44 to 61 % on one H200")
    )
    flops = peak * mfu / 100
    figure = (
        f"{flops / _TERA:.4g} TFLOP/s of a GPU: {mfu:g} % of {peak / _TERA:.4g} "
        f"({accelerator.name}: {source})"
    )
    return flops, Assumption("compute", figure, stated)


def _memory(accelerator: Accelerator) -> Assumption:
    figure = (
        f"{accelerator.memory_bps * MEMORY_SHARE / _TERA:.4g} TB/s of a GPU: "
        f"{MEMORY_SHARE * 100:g} % of the memory of {accelerator.name}, for what tp does not divide"
    )
    return Assumption("memory", figure, "assumed; see the methodology")


def _measured_flops(
    path: Path, journal: Journal, tokens: int | None, job: TrainingJob
) -> tuple[float, str]:
    """The operations of a device in a second of compute in a run. Raises UsageError."""
    model = job.model
    step_runs = report_kind(journal.kind).step_runs
    if step_runs is None:
        raise UsageError(
            f"--measured {path}: the journal has no steps: give one of cclmark train or cclmark "
            "profile"
        )
    runs = step_runs(journal)
    found, compute_s = next(
        ((one, seconds) for one in runs if (seconds := _compute_of(one)) and one.ranks), (None, 0.0)
    )
    if found is None or not compute_s:
        reasons = "; ".join(dict.fromkeys(one.figures.reason for one in runs if one.figures.reason))
        raise UsageError(
            f"--measured {path}: the time of compute in a step is unknown"
            f"{f': {reasons}' if reasons else ''}"
        )
    if found.dtype and found.dtype != _TYPES.get(job.precision, found.dtype):
        raise UsageError(
            f"--measured {path}: the run computed in {found.dtype}, not in {job.precision}: choose "
            "--precision, or another journal"
        )
    operations = found.operations
    if tokens is not None:
        operations = tokens * model.operations_per_token(job.sequence)
    if not operations:
        raise UsageError(
            f"--measured {path}: how many tokens a step of this program has is unknown: give them "
            "with --measured-tokens"
        )
    flops = operations / (found.ranks * compute_s)
    other = (
        ""
        if tokens is not None or found.work.split()[:1] == [model.name]
        else " with another model"
    )
    return flops, f"measured{other}: {plain(found.work)} on {found.ranks} ranks, {plain(path.name)}"


def _compute_of(run: StepRun) -> float | None:
    """The compute of a step in seconds; one rank communicates nothing."""
    return run.figures.step_s if run.ranks == 1 else run.figures.compute_s


def _hidden(flags: JobOptions, job: TrainingJob) -> tuple[HiddenShares, Assumption]:
    """The shares of messages beside compute. Raises UsageError."""
    if flags.overlap is None:
        shares = usual_shares(job)
        return shares, Assumption("overlap", shares.describe(), _OVERLAPPED[job.framework])
    if "=" in flags.overlap:
        shares = _stated_shares(flags.overlap, usual_shares(job))
        return shares, Assumption("overlap", shares.describe(), "--overlap")
    share, source = _measured_overlap(Path(flags.overlap))
    shares = replace(usual_shares(job), dp=share, cp=share)
    return shares, Assumption("overlap", shares.describe(), source, measured=True)


def _stated_shares(text: str, usual: HiddenShares) -> HiddenShares:
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (word.strip().lower() for word in part.partition("="))
        number = value.removesuffix("%").strip()
        is_number = number.replace(".", "", 1).isdecimal() and number.isascii() and len(number) < 9
        is_share = is_number and value.endswith("%") and 0 <= float(number) <= 100
        if name not in GROUPS or name in found or not is_share:
            raise UsageError(
                f"--overlap {text}: write shares from 0% to 100% of {', '.join(GROUPS)}, each "
                "once: dp=100%,tp=50%"
            )
        found[name] = float(number) / 100
    return replace(usual, **found)


def _measured_overlap(path: Path) -> tuple[float, str]:
    """The share of a message that costs compute nothing, from both slow-downs beside each other.

    While a message that takes t alone takes c t, compute that is k times as slow advances c t / k,
    so that t costs c t (1 - 1/k): the share 1 - c (1 - 1/k) of it is hidden.
    """
    journal = read_journal(path)
    if journal.kind != _OVERLAP:
        raise UsageError(
            f"--overlap {path}: the file is not a journal of cclmark overlap; shares are written "
            "dp=100%,tp=50%"
        )
    content = RunContent(journal.header, journal.results, journal.footer)
    findings = report_kind(_OVERLAP).document(content).findings
    for one in findings:
        figures = {figure.name: figure.value for figure in one.evidence}
        if one.id == _OVERLAP_FINDING and {"slow_down", "compute_slow_down"} <= figures.keys():
            slower = max(1.0, figures["compute_slow_down"])
            share = 1 - max(1.0, figures["slow_down"]) * (1 - 1 / slower)
            return min(1.0, max(0.0, share)), f"measured: largest message in {plain(path.name)}"
    raise UsageError(f"--overlap {path}: the journal has no slow-down of a message and compute")


def planned_network(flags: JobOptions) -> tuple[Network, list[Assumption]]:
    """The network of the job. Raises UsageError."""
    return _network(flags, planned_accelerator(flags))


def _network(flags: JobOptions, accelerator: Accelerator) -> tuple[Network, list[Assumption]]:
    bps = 0.0
    if flags.network is not None:
        rate = flags.network
        bps = rate.gbit * GBIT * (rate.interfaces / flags.per_node if rate.interfaces else 1)
    source = "--node-bandwidth, "
    if flags.node_gbps is not None:
        node_bps = flags.node_gbps * _GIGA
        figure = f"{node_bps / _GIGA:.4g} GB/s of a GPU"
    elif accelerator.link_bps:
        node_bps = accelerator.link_bps * LINK_SHARE
        figure = (
            f"{node_bps / _GIGA:.4g} GB/s of a GPU: {LINK_SHARE * 100:g} % of the links of "
            f"{accelerator.name}, {accelerator.link_bps / _GIGA:.4g} GB/s"
        )
        source = "assumed: a ring of 8 H200 has 367 of 450 GB/s; "
    elif flags.per_node == 1:
        node_bps, figure, source = accelerator.memory_bps, "no other GPU", ""
    else:
        raise UsageError(
            f"{accelerator.name} has no links between GPUs of a node whose rate is known: give "
            "what a GPU achieves within its node with --node-bandwidth GB/S"
        )
    if flags.per_node > 1:
        figure += f", {flags.node_latency_us:g} µs for a transfer"
    between = (
        f"{flags.efficiency_percent:g} % of the line rate, {flags.latency_us:g} µs for a transfer"
    )
    network = Network(
        node_bps=node_bps,
        latency_s=flags.latency_us * 1e-6,
        node_latency_s=flags.node_latency_us * 1e-6,
        efficiency=flags.efficiency_percent / 100,
        bps=bps,
    )
    return network, [
        Assumption("in nodes", figure, f"{source}{_LATENCIES}"),
        Assumption("between", between, f"{_ACHIEVED}; {_LATENCIES}"),
    ]


def _variants(base: Need) -> Iterator[Need]:
    """What changes if an assumption or a choice is another one, as far as the job allows it."""
    job, layout = base.job, base.job.layout
    jobs: list[tuple[str, TrainingJob]] = []
    for name, word in (
        ("batch", "batch"),
        ("micro_batch", "micro-batch"),
        ("sequence", "sequence"),
    ):
        value = getattr(job, name)
        jobs.append((f"twice the {word}", replace(job, **{name: 2 * value})))
        if value % 2 == 0:
            jobs.append((f"half the {word}", replace(job, **{name: value // 2})))
    jobs.append(("recomputation", replace(job, recompute=True)))
    for zero in (0, 1, 3):
        jobs.append((f"zero={zero}", _with(job, zero=zero, shard=0)))
    for name in ("tp", "pp", "ep", "cp"):
        for size in (getattr(layout, name) * 2, getattr(layout, name) // 2):
            changes = {name: size}
            if name == "tp" and (size == 1 or layout.tp == 1):
                changes["sp"] = size > 1 and bool(job.model.experts)
            jobs.append((f"{name}={size}", _with(job, **changes)))
    seen = {job}
    for variant, other in jobs:
        if other not in seen and _is_possible(other):
            seen.add(other)
            yield replace(base, job=other, variant=variant)
    for factor in (1.25, 0.75):
        yield replace(base, flops=base.flops * factor, variant=f"compute {factor:g} times as fast")
    for shares, variant in ((HiddenShares(0, 0), "no overlap"), (HiddenShares(), "overlap of dp")):
        if shares != base.hidden:
            yield replace(base, hidden=shares, variant=variant)


def _with(job: TrainingJob, **changes: int) -> TrainingJob:
    """The job on as many devices with another layout."""
    layout = replace(job.layout, dp=0, **changes)
    try:
        return replace(job, layout=layout.on(job.devices))
    except (UsageError, ZeroDivisionError):
        return job


def _is_possible(job: TrainingJob) -> bool:
    if not job.batch or not job.micro_batch or not job.sequence:
        return False
    try:
        check_job(job)
    except UsageError:
        return False
    return True
