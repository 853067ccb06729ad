#!/usr/bin/env python3
"""Trains a GPT-2-like transformer with 254,053,376 parameters under DDP, and times the steps.

    torchrun --standalone --nproc-per-node 2 benchmarks/torch/train_plain.py --out FILE.json

A training loop as users write it: bfloat16 parameters, fused AdamW, DDP with its defaults, random
tokens. The same steps follow under ``no_sync``, which skips the all-reduce of gradients. Times are
medians of CUDA events around each step; FILE.json holds those of the slowest rank.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, CONTEXT = 50257, 1024


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attn = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.attn(x).split(width, dim=2)
        q, k, v = (
            one.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for one in (q, k, v)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Perceptron(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(functional.gelu(self.fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Perceptron(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, 0.0, 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(1)
    model = Gpt(args.width, args.layers, args.heads).to(device, torch.bfloat16)
    parameters = sum(one.numel() for one in model.parameters())
    model = DistributedDataParallel(model, device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
    data = torch.randint(VOCABULARY, (args.batch, args.sequence + 1), device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = model(data[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), data[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    def timed() -> float:
        for _ in range(args.warmup):
            step()
        torch.cuda.synchronize()
        dist.barrier()
        step()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
        marks[0].record()
        for mark in marks[1:]:
            step()
            mark.record()
        torch.cuda.synchronize()
        times = [one.elapsed_time(two) for one, two in itertools.pairwise(marks)]
        slowest = torch.tensor(times, device=device)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        return median(slowest.tolist())

    step_ms = timed()
    with model.no_sync():
        alone_ms = timed()
    if dist.get_rank() == 0:
        found = {"parameters": parameters, "step_ms": step_ms, "alone_ms": alone_ms}
        args.out.write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
