"""Published step times beside the formulas of ``cclmark need``, calibrated once for each table.

    python benchmarks/scale/steps.py [--rows]

``steps.csv``: step times that others measured on A100 with Megatron-LM and Megatron-DeepSpeed, by
layout (Megatron-DeepSpeed on 800 Gb/s for a node; arXiv 2205.05198, table 5, where selective
recomputation counts as none). The first row of a model in a table determines the rate of compute;
the others are predicted. The baseline: all have the model FLOPs utilization of that row.
``--rows``: every row too.
"""

import csv
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from cclmark.work.accelerators import (
    ACCELERATORS,
    EFFICIENCY,
    LATENCY_S,
    LINK_SHARE,
    MEMORY_SHARE,
    NODE_LATENCY_S,
)
from cclmark_planning.scale.layout import parse_job_layout
from cclmark_planning.scale.planned_models import planned_model
from cclmark_planning.scale.step import Network, compute_seconds, step_time, usual_shares
from cclmark_planning.scale.traffic import busiest_stage, traffic_of
from cclmark_planning.scale.training_job import TrainingJob, check_job
from cclmark_planning.scaling.figures import rank_correlation

Row = Mapping[str, str]
TABLE = Path(__file__).with_name("steps.csv")
# As `cclmark need --accelerator A100` assumes.
A100 = next(one for one in ACCELERATORS if one.name == "A100")
NODE_BPS, MEMORY_BPS = LINK_SHARE * A100.link_bps, MEMORY_SHARE * A100.memory_bps
PER_NODE = 8


def job_of(row: Row) -> tuple[TrainingJob, Network]:
    """The job of a row, and the network between its nodes."""
    layout = parse_job_layout(row["layout"].replace(";", ",")).on(int(row["gpus"]))
    job = TrainingJob(
        planned_model(row["model"].replace(";", ",")),
        layout,
        *(int(row[name]) for name in ("batch", "micro_batch", "sequence")),
        PER_NODE,
        framework="megatron",
        precision=row["precision"],
        recompute=row["recompute"] == "yes",
        scatters=True,  # the default of Megatron-LM then, and of Megatron-DeepSpeed
    )
    check_job(job)
    interfaces, rate = row["network"].split("x")
    bps = int(interfaces) * int(rate) * 1e9 / 8 / PER_NODE
    return job, Network(NODE_BPS, LATENCY_S, NODE_LATENCY_S, EFFICIENCY, bps)


def predicted_s(row: Row, flops: float) -> float:
    """The step of a row at a rate of compute."""
    job, network = job_of(row)
    traffic = traffic_of(job, busiest_stage(job))
    compute_s = compute_seconds(job, flops, MEMORY_BPS)
    return step_time(job, traffic, compute_s, network, usual_shares(job)).step_s


def calibrated_flops(row: Row) -> float:
    """The rate of compute with which the step of a row is the measured one."""
    low, high = 1e12, 10 * A100.peak_flops
    for _ in range(60):
        middle = (low * high) ** 0.5
        is_slow = predicted_s(row, middle) > float(row["step_s"])
        low, high = (middle, high) if is_slow else (low, middle)
    return high


def utilization(row: Row) -> float:
    """The share of the peak that model FLOPs have in the measured step."""
    job, _ = job_of(row)
    return job.operations / float(row["step_s"]) / job.devices / A100.peak_flops


def judged(rows: Iterable[Row]) -> Iterator[tuple[Row, float, float]]:
    """The rows of a model but the first one, with their predicted and naive steps in seconds."""
    first, *rest = rows
    flops, usual = calibrated_flops(first), utilization(first)
    for row in rest:
        job, _ = job_of(row)
        naive_s = job.operations / job.devices / A100.peak_flops / usual
        yield row, predicted_s(row, flops), naive_s


def main() -> None:
    with TABLE.open() as file:
        rows = [*csv.DictReader(file)]
    print(f"{'table':22} rows  median error  baseline  rank correlation")
    for table, group in groupby(rows, key=lambda row: row["table"]):
        found = [
            one for _, own in groupby(group, key=lambda row: row["model"]) for one in judged(own)
        ]
        measured = [float(row["step_s"]) for row, *_ in found]
        errors, others = (
            statistics.median(
                abs(one[place] / true - 1) for one, true in zip(found, measured, strict=True)
            )
            for place in (1, 2)
        )
        correlation = rank_correlation(measured, [one for _, one, _ in found])
        print(f"{table:22} {len(found):4}  {errors:12.1%}  {others:8.1%}  {correlation:16.3f}")
        if "--rows" in sys.argv:
            for row, one, _ in found:
                error = one / float(row["step_s"]) - 1
                name = f"{row['layout']} micro-batch {row['micro_batch']}".ljust(42)
                print(
                    f"    {row['gpus']:>4} GPUs {name} {row['step_s']:>8} {one:8.3f} {error:+.1%}"
                )


if __name__ == "__main__":
    main()
