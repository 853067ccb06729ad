"""A program of matrix products and collectives for benchmarks/replay.py, started by torchrun.

    torchrun --nproc-per-node 2 profiled_products.py --steps 40

Each step has three all_reduces of 16 MiB, each beside products of matrices, and after them two
all_gathers of 8 MiB, a reduce_scatter of 4 MiB and an exchange of 1 MiB with the next rank, with a
product between them. The host waits at the end of all steps only.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist

ROWS = 4096
PRODUCTS = 4  # beside each all_reduce
MIB = 1 << 20


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10)
    return parser.parse_args()


def main() -> None:
    given = options()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    matrix = torch.randn(ROWS, ROWS, device=device, dtype=torch.bfloat16)
    product = torch.empty_like(matrix)

    def floats(size_bytes: int) -> torch.Tensor:
        return torch.zeros(size_bytes // 4, device=device)

    gradients = [floats(16 * MIB) for _ in range(3)]
    part, whole = floats(8 * MIB // ranks), floats(8 * MIB)
    scattered, reduced = floats(4 * MIB), floats(4 * MIB // ranks)
    sent, received = floats(MIB), floats(MIB)

    def multiply(times: int) -> None:
        for _ in range(times):
            torch.matmul(matrix, matrix, out=product)

    def step() -> None:
        pending = []
        for gradient in gradients:
            pending.append(dist.all_reduce(gradient, async_op=True))
            multiply(PRODUCTS)
        for one in pending:
            one.wait()
        for _ in range(2):
            dist.all_gather_into_tensor(whole, part)
            multiply(1)
        dist.reduce_scatter_tensor(reduced, scattered)
        multiply(1)
        messages = [
            dist.P2POp(dist.isend, sent, (rank + 1) % ranks),
            dist.P2POp(dist.irecv, received, (rank - 1) % ranks),
        ]
        for one in dist.batch_isend_irecv(messages):
            one.wait()
        multiply(1)

    for _ in range(given.warmup + given.steps):
        step()
    torch.cuda.synchronize(device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
