"""What the links between devices and host memory give when several are used at once, by torch.

    python benchmarks/host_links.py [--chunk 4M] [--span 512M]

Every device copies 512 MiB out of pinned memory, into it, or both at once, in chunks; GB/s of each
device in each direction. What goes through the host between islands has this limit, not that of a
link alone. With a small span the copies use the same few MiB of host memory again and again, as the
slots of islands do, so that the processors may keep it in caches. The copies of a device and way
are one CUDA graph: enqueued one by one by one thread, small chunks would measure that thread.
"""

from __future__ import annotations

import argparse
import time

import torch

SIZE = 512 << 20
ROUNDS = 5


def mebibytes(text: str) -> int:
    return int(text.rstrip("M")) << 20


class Copies:
    """Those of one device in one direction, ready to be started."""

    def __init__(self, index: int, to_host: bool, chunk: int, span: int) -> None:
        host = torch.empty(span, dtype=torch.uint8, pin_memory=True)
        device = torch.empty(SIZE, dtype=torch.uint8, device=f"cuda:{index}")
        self._memory = host, device
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(index):
            self._stream = torch.cuda.Stream()
            with torch.cuda.graph(self._graph, stream=self._stream):
                for at in range(0, SIZE, chunk):
                    there = at % span
                    ends = host[there : there + chunk], device[at : at + chunk]
                    target, source = ends if to_host else ends[::-1]
                    target.copy_(source, non_blocking=True)

    def start(self) -> None:
        with torch.cuda.stream(self._stream):
            self._graph.replay()

    def wait(self) -> None:
        self._stream.synchronize()


def rate_of(copies: list[Copies]) -> float:
    """GB/s of each where all go at once: as slow as the slowest."""
    for rounds in (1, ROUNDS):
        begin_s = time.perf_counter()
        for _ in range(rounds):
            for one in copies:
                one.start()
        for one in copies:
            one.wait()
        time_s = time.perf_counter() - begin_s
    return SIZE * ROUNDS / time_s / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunk", type=mebibytes, default="4M", help="of one copy [4M]")
    parser.add_argument(
        "--span", type=mebibytes, default="512M", help="host memory of a copy [512M]"
    )
    args = parser.parse_args()
    chunk, span = args.chunk, min(SIZE, max(args.chunk, args.span))
    count = torch.cuda.device_count()
    out = [Copies(index, True, chunk, span) for index in range(count)]
    back = [Copies(index, False, chunk, span) for index in range(count)]
    for several in sorted({number for number in (1, 2, count) if number <= count}):
        to_host, from_host = out[:several], back[:several]
        for name, copies in (
            ("to the host", to_host),
            ("from the host", from_host),
            ("both ways at once", [*to_host, *from_host]),
        ):
            print(f"{several} devices, {name}: {rate_of(copies):.1f} GB/s each", flush=True)


if __name__ == "__main__":
    main()
