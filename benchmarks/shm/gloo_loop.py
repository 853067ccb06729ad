#!/usr/bin/env python3
"""Times torch.distributed's gloo as mpi_loop.c times MPI, for benchmarks/shm/compare.py.

    python gloo_loop.py RANKS OPERATION SPARE_BYTES BATCHES SIZE...

Needs torch only. Prints the median and the least of the batches as JSON. gloo reduces
in place, so where MPI has two buffers all_reduce and reduce rotate through one here.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ALIGNMENT = 512
MOST_OPERATIONS = 1000
WARM_UP_BATCHES = 2
LEAST_BATCHES = 3
MOST_S = 1.0
WIDTH = 4
SPANS_RANKS = ("all_gather", "reduce_scatter", "alltoall")

Run = Callable[[torch.Tensor, torch.Tensor], object]


def operation(name: str) -> Run:
    """The operation on an input and an output."""
    return {
        "all_reduce": lambda _, output: dist.all_reduce(output),
        "all_gather": lambda source, output: dist.all_gather_into_tensor(output, source),
        "reduce_scatter": lambda source, output: dist.reduce_scatter_tensor(output, source),
        "broadcast": lambda _, output: dist.broadcast(output, 0),
        "reduce": lambda _, output: dist.reduce(output, 0),
        "alltoall": lambda source, output: dist.all_to_all_single(output, source),
    }[name]


def aligned(size: int) -> int:
    """``size`` rounded up as cclmark rounds what a message takes up in a buffer."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def operations_per_batch(time_s: float) -> int:
    """As cclmark.analysis.stopping has it."""
    return min(max(20, math.ceil(100e-6 / time_s)), math.ceil(10e-3 / time_s), MOST_OPERATIONS)


def slots(buffer: torch.Tensor, count: int, stride: int, number: int) -> list[torch.Tensor]:
    """The first ``number`` messages of ``count`` elements in a buffer."""
    step = stride // WIDTH
    return [buffer[i * step : i * step + count] for i in range(number)]


def batch(run: Run, inputs: list[torch.Tensor], outputs: list[torch.Tensor], length: int) -> float:
    """Seconds an operation, on the slowest rank."""
    number = len(inputs)
    dist.barrier()
    begin_s = time.perf_counter()
    for i in range(length):  # each batch from the start, as cclmark's
        run(inputs[i % number], outputs[i % number])
    slowest = torch.tensor([(time.perf_counter() - begin_s) / length], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def rank_main(
    rank: int, ranks: int, meeting: str, name: str, spare: int, batches: int, sizes: list[int]
) -> None:
    """One rank: measures every size; rank 0 prints."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    capacity = aligned(max([spare, *sizes]))
    source, output = (torch.ones(capacity // WIDTH) for _ in range(2))
    run = operation(name)
    times_s = {}
    for size in sizes:
        count = size // WIDTH // (ranks if name in SPANS_RANKS else 1)
        in_count = count * ranks if name in ("reduce_scatter", "alltoall") else count
        out_count = count * ranks if name in ("all_gather", "alltoall") else count
        in_stride, out_stride = aligned(in_count * WIDTH), aligned(out_count * WIDTH)
        number = min(MOST_OPERATIONS, capacity // max(in_stride, out_stride))
        inputs = slots(source, in_count, in_stride, number)
        outputs = slots(output, out_count, out_stride, number)
        length = 1
        for _ in range(WARM_UP_BATCHES):
            time_s = batch(run, inputs, outputs, length)
            length = operations_per_batch(time_s)
        measured: list[float] = []
        while len(measured) < batches:
            if len(measured) >= LEAST_BATCHES and sum(measured) * length > MOST_S:
                break
            measured.append(batch(run, inputs, outputs, length))
        times_s[size] = [median(measured), min(measured)]
        output.fill_(1)  # sums in place would overflow
    if rank == 0:
        print(json.dumps({"library": f"gloo of torch {torch.__version__}", "times_s": times_s}))
    dist.destroy_process_group()


def main() -> None:
    """Starts the ranks."""
    ranks, name, spare, batches, *sizes = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        arguments = (
            int(ranks), f"{directory}/meeting", name, int(spare), int(batches),
            [int(size) for size in sizes],
        )  # fmt: skip
        mp.spawn(rank_main, arguments, nprocs=int(ranks))


if __name__ == "__main__":
    main()
