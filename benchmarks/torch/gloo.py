#!/usr/bin/env python3
"""Is cclmark's torch:gloo as fast as a plain loop of torch.distributed, and what differs?

    python benchmarks/torch/gloo.py [--rounds 100] [--ranks 2] [--sizes 65536,1048576] [--out FILE]

All variants of all_reduce in place run in the same processes, over the same process group, batch by
batch in turn, so that other load of the machine meets all of them alike: a plain loop over one
buffer, over buffers that rotate through as much memory as cclmark's, and in one batch of ten times
as many operations; cclmark's timed loop with warm and with cold buffers; the plain loop with each
rank's calling thread, or all of its threads, kept on one processor, as `mpirun --bind-to core`,
`taskset` or a rank of another library would. Ratios are to the plain loop over one buffer.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import quantiles
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from cclmark import _engine as engine
from cclmark.rank.torch_ccl import TorchCommunicator

OPERATIONS = 20  # of a batch
SPARE_BYTES = 24 << 20  # of a buffer; cclmark's own depends on the processor's cache
TIMEOUT_S = 120.0
BASE = "plain"


def plain(buffers: Sequence[torch.Tensor], operations: int) -> float:
    """Seconds for each operation of a batch, on the slowest rank."""
    dist.barrier()
    begin_s = time.perf_counter()
    for number in range(operations):
        dist.all_reduce(buffers[number % len(buffers)])
    slowest = torch.tensor([(time.perf_counter() - begin_s) / operations], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def pinned(all_threads: bool, run: Callable[[], float], processor: int) -> float:
    """``run`` with the calling thread, or all threads of this process, on one processor."""
    allowed = os.sched_getaffinity(0)
    tasks = [int(task.name) for task in Path("/proc/self/task").iterdir()] if all_threads else [0]
    for task in tasks:
        os.sched_setaffinity(task, {processor})
    try:
        return run()
    finally:
        for task in tasks:
            os.sched_setaffinity(task, allowed)


class Ours:
    """cclmark's timed loop over the process group that exists already."""

    def __init__(self, rank: int, ranks: int, file: str) -> None:
        self._device = engine.open_device("host", rank)
        self._rank_group = engine.RankGroup(
            engine.RankGroupOptions(
                fd=os.open(file, os.O_RDWR), rank=rank, size=ranks, oversubscribed=False
            )
        )
        job = SimpleNamespace(settings=SimpleNamespace(timing="throughput"), rank=rank, ranks=ranks)
        group: Any = SimpleNamespace(close=lambda: None)
        of_rank: Any = SimpleNamespace(job=job)
        adapter = TorchCommunicator(of_rank, torch, group, self._device)
        self._communicator = engine.adapt(adapter, self._device)
        self._session = engine.Session(self._device, self._rank_group, self._communicator, None)
        self._rank_group.expect_within(TIMEOUT_S, "allocating buffers")
        self._session.reserve(SPARE_BYTES, SPARE_BYTES, engine.Registration.none)

    def prepare(self, count: int) -> None:
        """The next batches are of so many elements."""
        self._rank_group.expect_within(TIMEOUT_S, "preparing")
        operation = engine.Operation(collective="all_reduce", dtype="float32", count=count)
        self._session.prepare(operation, True, 0)

    def run(self, warm: bool) -> float:
        """Seconds for each operation of a batch, on the slowest rank."""
        self._rank_group.expect_within(TIMEOUT_S, "timing")
        found = self._session.run(
            engine.Batch(timing=engine.Timing.throughput, iterations=OPERATIONS, warm=warm)
        )
        return max(max(sample) for sample in found.host_s)


def rank_main(rank: int, ranks: int, directory: str, rounds: int, sizes: list[int]) -> None:
    """One rank: measures every size; rank 0 writes the result."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{directory}/meeting",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    ours = Ours(rank, ranks, f"{directory}/rank_group")
    memory = torch.ones(SPARE_BYTES // 4)
    processors = sorted(os.sched_getaffinity(0))
    own = processors[rank % len(processors)]
    entries = {}
    for size_bytes in sizes:
        count = size_bytes // 4
        one = [memory[:count]]
        many = [memory[at : at + count] for at in range(0, len(memory) - count + 1, count)]
        ours.prepare(count)
        variants: dict[str, Callable[[], float]] = {
            BASE: lambda one=one: plain(one, OPERATIONS),
            "cclmark --cache warm": lambda: ours.run(warm=True),
            "cclmark": lambda: ours.run(warm=False),
            "plain, rotating buffers": lambda many=many: plain(many, OPERATIONS),
            "plain, ten times as long": lambda one=one: plain(one, 10 * OPERATIONS),
            "plain, calling thread pinned": lambda one=one: pinned(
                False, lambda: plain(one, OPERATIONS), own
            ),
            "plain, all threads pinned": lambda one=one: pinned(
                True, lambda: plain(one, OPERATIONS), own
            ),
        }
        times_s: dict[str, list[float]] = {name: [] for name in variants}
        names = list(variants)
        for number in range(rounds):
            for place in range(len(names)):
                name = names[(number + place) % len(names)]
                times_s[name].append(variants[name]())
            memory.fill_(1)  # sums in place would overflow
        entries[size_bytes] = times_s
    if rank == 0:
        Path(directory, "result.json").write_text(json.dumps(entries))
    dist.barrier()
    os._exit(0)  # the session's memory outlives torch's process group


def report(entries: dict[str, dict[str, list[float]]]) -> None:
    """Quartiles of each variant, and their ratios to the plain loop's."""
    for size, times_s in entries.items():
        base = quantiles(times_s[BASE], n=4)
        for name, values in times_s.items():
            found = quantiles(values, n=4)
            ratios = ", ".join(f"{a / b:.2f}" for a, b in zip(found, base, strict=True))
            shown = ", ".join(f"{value * 1e6:.0f}" for value in found)
            print(f"{size:>8} B  {name:<29} quartiles {shown} us; ratios {ratios}")


def main() -> None:
    """Starts the ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="65536,1048576")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "rank_group").touch()
        mp.spawn(rank_main, (args.ranks, directory, args.rounds, sizes), nprocs=args.ranks)
        text = Path(directory, "result.json").read_text()
    entries = json.loads(text)
    report(entries)
    if args.out:
        args.out.write_text(json.dumps(entries) + "\n")


if __name__ == "__main__":
    main()
