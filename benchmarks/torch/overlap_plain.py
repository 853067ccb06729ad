#!/usr/bin/env python3
"""A plain torch script: an all-reduce and a product alone and at once, for several numbers of CTAs.

    torchrun --nproc-per-node 2 benchmarks/torch/overlap_plain.py --out FILE.json
        [--ctas 4,8,16,32,64] [--matrix 8192] [--size-bytes 1073741824] [--rounds 5]

It records an event after every operation. The rule of cclmark selects the operations that ran
entirely beside the other work, so that only the measurement itself is compared.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from cclmark.kinds.overlap.figures import figures_of, lengths_for
from cclmark.kinds.overlap.result import OverlapFigures, OverlapTimes

_LARGEST = 4  # of the numbers in the matrices, either sign: as cclmark's
_DURATION_S = 0.04
_WARMUP = 5
_FLOAT_BYTES = 4

Calls = tuple[Callable[[], Any], Callable[[], Any]]


class Beside:
    """Runs two calls on two streams."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._streams = torch.cuda.Stream(), torch.cuda.Stream()

    def figures(self) -> OverlapFigures | None:
        """Each alone, then both at once."""
        self._times(_WARMUP, _WARMUP)
        sent, computed = self._times(_WARMUP, 0), self._times(0, _WARMUP)
        sent_s = max(one[-1] - one[0] for one in sent.communication_s) / _WARMUP
        computed_s = max(one[-1] - one[0] for one in computed.compute_s) / _WARMUP
        lengths = lengths_for(sent_s, computed_s, _DURATION_S)
        first = lengths.communication[0] * lengths.communication[1]
        second = lengths.compute[0] * lengths.compute[1]
        return figures_of(self._times(first, 0), self._times(0, second), self._times(first, second))

    def _times(self, *counts: int) -> OverlapTimes:
        reference = torch.cuda.Event(enable_timing=True)
        reference.record()
        dist.barrier()
        torch.cuda.synchronize()
        events: tuple[list[Any], list[Any]] = ([], [])
        # In turns: the stream with the smaller share of its operations enqueued is next.
        order = sorted(
            (number / count, place)
            for place, count in enumerate(counts)
            for number in range(count + 1 if count else 0)
        )
        for _, place in order:
            with torch.cuda.stream(self._streams[place]):
                if events[place]:
                    self._calls[place]()
                events[place].append(torch.cuda.Event(enable_timing=True))
                events[place][-1].record()
        torch.cuda.synchronize()
        own = [[reference.elapsed_time(one) * 1e-3 for one in many] for many in events]
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, own)
        return OverlapTimes([one[0] for one in everyone], [one[1] for one in everyone], [], 1, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ctas", default="4,8,16,32,64")
    parser.add_argument("--matrix", type=int, default=8192)
    parser.add_argument("--size-bytes", type=int, default=1 << 30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    shape = (args.matrix, args.matrix)
    first, second = (
        torch.randint(-_LARGEST, _LARGEST + 1, shape, device="cuda").to(torch.bfloat16)
        for _ in range(2)
    )
    product = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
    data = torch.zeros(args.size_bytes // _FLOAT_BYTES, device="cuda")
    measured: dict[str, Beside] = {}
    for ctas in args.ctas.split(","):
        options = dist.ProcessGroupNCCL.Options()
        options.config.min_ctas = options.config.max_ctas = int(ctas)
        group = dist.new_group(pg_options=options)
        measured[ctas] = Beside(
            (
                lambda group=group: dist.all_reduce(data, group=group),  # type: ignore[misc]
                lambda: torch.mm(first, second, out=product),
            )
        )
    found: dict[str, list[dict[str, float]]] = {ctas: [] for ctas in measured}
    for _ in range(args.rounds):
        for ctas, beside in measured.items():
            figures = beside.figures()
            if figures is not None:
                names = figures.__struct_fields__
                found[ctas].append({name: getattr(figures, name) for name in names})
    if dist.get_rank() == 0:
        args.out.write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
