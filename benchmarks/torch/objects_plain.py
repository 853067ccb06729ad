"""What a plain torch script sees of objects and of pieces; started by torchrun, see ../objects.py.

As ml-engineering's scripts (all_gather_object_vs_all_reduce.py, all_reduce_latency_comp.py) do:

- the time of 1000 calls of all_gather_object of an int and of all_reduce of a tensor with one
  element, on the host's clock without a wait at the end, and once more with a wait,
- one all_reduce of a large tensor against as many bytes in 10, 100 and 1000 calls that reduce the
  same small tensor, between two events, after two warm-ups. The median of three repetitions.

Rank 0 writes a JSON document to --out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from timeit import Timer

import torch
import torch.distributed as dist

_CALLS = 1000
_REPETITIONS = 3
_WARM_UPS = 2


def flags(device: torch.device) -> dict[str, float]:
    """Seconds for 1000 calls."""
    world = dist.get_world_size()
    tensor = torch.tensor(1.0, device=device)

    def synchronize() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    def objects() -> int:
        output: list[int] = [0] * world
        dist.all_gather_object(output, 1)
        return sum(output)

    def tensors() -> None:
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)

    def timed(call: Callable[[], object], *, waits: bool) -> float:
        call()
        synchronize()
        dist.barrier()

        def run() -> None:
            for _ in range(_CALLS):
                call()
            if waits:
                synchronize()

        time_s = Timer(run).timeit(number=1)
        synchronize()
        return time_s

    found = {}
    for name, call in (("all_gather_object", objects), ("all_reduce", tensors)):
        found[f"{name}_s"] = timed(call, waits=False)
        found[f"{name}_waited_s"] = timed(call, waits=True)
    return found


def pieces(size_bytes: int, numbers: list[int]) -> dict[str, float]:
    """Seconds of all calls together by their number, of the slowest rank."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    found = {}
    for number in numbers:
        tensor = torch.zeros(size_bytes // number // 4, device="cuda")
        times_s = []
        for repetition in range(_WARM_UPS + _REPETITIONS):
            dist.barrier()
            torch.cuda.synchronize()
            begin.record()
            for _ in range(number):
                dist.all_reduce(tensor)
            end.record()
            torch.cuda.synchronize()
            slowest = torch.tensor(begin.elapsed_time(end) / 1000, device="cuda")
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            if repetition >= _WARM_UPS:
                times_s.append(slowest.item())
        found[str(number)] = median(times_s)
        del tensor
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--size-bytes", type=int, default=0)
    parser.add_argument("--pieces", default="1,10,100,1000")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    device = torch.device("cpu")
    if args.backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(args.backend, timeout=datetime.timedelta(seconds=60))
    found: dict[str, object] = {"flags": flags(device)}
    if args.size_bytes:
        found["pieces_s"] = pieces(args.size_bytes, [int(one) for one in args.pieces.split(",")])
    if dist.get_rank() == 0:
        args.out.write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
