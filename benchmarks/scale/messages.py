"""Messages and steps of trainings beside the formulas of ``cclmark need``.

    cclmark train --model llama3.2-1b -g 1 --journal one.jsonl
    cclmark train --model llama3.2-1b --parallel fsdp -g 2 --journal fsdp.jsonl
    python benchmarks/scale/messages.py one.jsonl fsdp.jsonl...

The first journal, of one rank, determines the rate of compute. For each other one: calls and bytes
of a step by operation, of all ranks, as recorded and by formula; and the step.
"""

import sys
from collections import defaultdict
from pathlib import Path

from cclmark.journal.journal_file import Journal
from cclmark.kinds.registry import read_journal
from cclmark.work.accelerators import (
    EFFICIENCY,
    LATENCY_S,
    LINK_SHARE,
    MEMORY_SHARE,
    NODE_LATENCY_S,
    find_accelerator,
)
from cclmark_planning.scale.layout import parse_job_layout
from cclmark_planning.scale.step import HiddenShares, Network, compute_seconds, step_time
from cclmark_planning.scale.traffic import busiest_stage, traffic_of
from cclmark_planning.scale.training_job import TrainingJob, check_job
from cclmark_training.figures import summaries_of
from cclmark_training.result import TrainingResult

LAYOUTS = {"ddp": "dp={}", "zero1": "dp={},zero=1", "fsdp": "fsdp={}", "tp": "tp={}", "pp": "pp={}"}
PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def job_of(result: TrainingResult) -> TrainingJob:
    """The job of a training."""
    training = result.training
    ranks = training.ranks
    by_sequence = ",sp=1" if training.by_sequence else ""
    layout = parse_job_layout(LAYOUTS[training.parallel].format(ranks) + by_sequence).on(ranks)
    precision = PRECISIONS[training.dtype]
    job = TrainingJob(
        training.model,
        layout,
        training.batch * layout.dp,
        training.batch // max(1, training.microbatches),
        training.sequence,
        ranks,
        precision=precision,
        gradient_bytes=4 if precision == "fp32" else 2,
        holds=True,
    )
    check_job(job)
    return job


def compare(name: str, journal: Journal, flops: float) -> None:
    """Prints what was recorded beside the formulas."""
    results = journal.of(TrainingResult)
    result = next(one for one in results if one.is_measured)
    job = job_of(result)
    recorded: dict[str, list[float]] = defaultdict(lambda: [0, 0])
    for calls in result.groups:
        recorded[calls.operation][0] += sum(calls.calls)
        recorded[calls.operation][1] += sum(calls.size_bytes)
    formula: dict[str, list[float]] = defaultdict(lambda: [0, 0])
    layout = job.layout
    for rank in range(job.devices):
        for one in traffic_of(job, rank // (layout.tp * layout.replicas)):
            formula[one.operation][0] += one.messages
            formula[one.operation][1] += one.total_bytes
    print(f"{name}: {job.describe()}")
    for operation in sorted({*recorded, *formula}):
        (calls, size), (own_calls, own_size) = recorded[operation], formula[operation]
        print(
            f"  {operation:15} {calls:5.0f} calls {size:15,.0f} bytes, "
            f"formula {own_calls:5.0f} {own_size:15,.0f}"
        )
    device = find_accelerator(journal.header.devices[0].name)
    if device is None:
        return
    network = Network(LINK_SHARE * device.link_bps, LATENCY_S, NODE_LATENCY_S, EFFICIENCY, bps=1.0)
    compute_s = compute_seconds(job, flops, MEMORY_SHARE * device.memory_bps)
    step = step_time(job, traffic_of(job, busiest_stage(job)), compute_s, network, HiddenShares())
    figures = summaries_of(results, journal.header.devices)[0].figures
    measured = (figures.step_s or 0.0, figures.exposed_s or 0.0, figures.communication_s or 0.0)
    print(
        "  step {:.1f} ms, exposed {:.1f}, all messages {:.1f}; ".format(
            *(1e3 * one for one in measured)
        )
        + f"formula {step.step_s * 1e3:.1f} ({step.step_s / measured[0] - 1:+.1%}), "
        f"{step.exposed_s * 1e3:.1f}, {step.communication_s * 1e3:.1f}"
    )


def main() -> None:
    first, *others = map(Path, sys.argv[1:])
    alone = read_journal(first)
    training = next(one for one in alone.of(TrainingResult) if one.is_measured).training
    figures = summaries_of(alone.of(TrainingResult), alone.header.devices)[0].figures
    assert training.ranks == 1 and figures.step_s, f"{first} is no training on one rank"
    flops = training.operations / figures.step_s
    print(f"compute {flops / 1e12:.1f} TFLOP/s, {first.name}")
    for path in others:
        compare(path.name, read_journal(path), flops)


if __name__ == "__main__":
    main()
