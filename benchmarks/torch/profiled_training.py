"""A small training program for benchmarks/profiling.py, started by torchrun.

    torchrun --nproc-per-node 2 profiled_training.py ddp|fsdp2|tp|pp --steps 40 --result FILE

It trains a stack of MLP blocks on made-up data, with DistributedDataParallel, FSDP2 (a group for
each block), tensor parallelism (column- and row-wise) or a pipeline (1F1B, a stage for each rank,
four micro-batches for each stage). Rank 0 writes the seconds of each block of
steps to FILE. With --trace DIR, torch.profiler records all of it, from before the first collective.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

BLOCK_STEPS = 10  # of one time
MICRO_BATCHES = 4  # for each stage of a pipeline


class Block(nn.Module):
    """A residual MLP block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """Adds the block's output to its input."""
        return data + self.down(nn.functional.gelu(self.up(self.norm(data))))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["ddp", "fsdp2", "tp", "pp"])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--result", type=Path)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--cpu", action="store_true", help="gloo on the host, to try the script")
    return parser.parse_args()


def parallel(model: nn.Module, given: argparse.Namespace, device: torch.device) -> nn.Module:
    """The model as the mode distributes it."""
    if given.mode == "ddp":
        own = [device.index] if device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=own)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    if given.mode == "fsdp2":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        return fully_shard(model, mesh=mesh, mp_policy=policy)
    for block in model:
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        # All ranks have the same weights already: nothing is scattered.
        parallelize_module(block, mesh, plan, src_data_rank=None)
    return model


def mean_square(output: torch.Tensor, _target: torch.Tensor | None = None) -> torch.Tensor:
    """The loss."""
    return output.float().square().mean()


def pipeline(
    model: nn.Sequential, data: torch.Tensor, device: torch.device
) -> tuple[nn.Module, Callable[[], None]]:
    """The blocks of this rank's stage, and what runs their forward and backward passes."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = model[len(model) * rank // ranks : len(model) * (rank + 1) // ranks]
    stage = PipelineStage(own, rank, ranks, device)
    schedule = Schedule1F1B(stage, MICRO_BATCHES * ranks, loss_fn=mean_square)
    inputs = [data] if rank == 0 else []
    targets = {"target": data} if rank == ranks - 1 else {}
    return own, lambda: schedule.step(*inputs, **targets)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def train(
    given: argparse.Namespace, device: torch.device, end_of_step: Callable[[], None]
) -> list[float]:
    """Trains and returns the seconds per step of each block of steps."""
    torch.manual_seed(1)
    model = nn.Sequential(*(Block(given.width) for _ in range(given.blocks))).to(device)
    data = torch.randn(given.tokens, given.width, device=device)
    if given.mode == "pp":
        model, run = pipeline(model, data, device)
    else:
        model = parallel(model, given, device)
    # On a device, AdamW works on lists of tensors, which have to be of one kind.
    parameters = list(model.parameters())
    groups = [
        {"params": [one for one in parameters if isinstance(one, DTensor) == distributed]}
        for distributed in (True, False)
    ]
    optimizer = torch.optim.AdamW([one for one in groups if one["params"]], lr=1e-4)
    times_s = []

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=given.mode != "fsdp2"):
            if given.mode == "pp":
                run()
            else:
                loss = mean_square(model(data))
        if given.mode != "pp":
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end_of_step()

    for _ in range(given.warmup):
        step()
    for begin in range(0, given.steps, BLOCK_STEPS):
        number = min(BLOCK_STEPS, given.steps - begin)
        synchronize(device)
        began_s = time.perf_counter()
        for _ in range(number):
            step()
        synchronize(device)
        times_s.append((time.perf_counter() - began_s) / number)
    return times_s


def main() -> None:
    given = options()
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cpu") if given.cpu else torch.device("cuda", local_rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    profiler: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if given.trace is not None:
        kinds = [torch.profiler.ProfilerActivity.CPU]
        kinds += [torch.profiler.ProfilerActivity.CUDA] if device.type == "cuda" else []
        # Only a schedule marks steps. All are recorded, also what comes before and after them.
        active = torch.profiler.schedule(wait=0, warmup=0, active=given.warmup + given.steps + 1)
        profiler = torch.profiler.profile(
            activities=kinds, schedule=active, record_shapes=given.cpu
        )
    with profiler as recorded:
        dist.init_process_group(
            "gloo" if given.cpu else "nccl", **({} if given.cpu else {"device_id": device})
        )
        times_s = train(given, device, recorded.step if recorded is not None else lambda: None)
    if given.trace is not None:
        recorded.export_chrome_trace(str(given.trace / f"{given.mode}-{rank}.json"))
    if given.result is not None and rank == 0:
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if device.type == "cuda" else ""
        given.result.write_text(
            json.dumps({"times_s": times_s, "torch": torch.__version__, "nccl": nccl})
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
