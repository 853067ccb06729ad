"""What the links between devices and host memory give when several are used at once, by torch.

    python benchmarks/host_links.py [--chunk 4M]

Every device copies 512 MiB out of pinned memory, into it, or both at once, in chunks; GB/s of each
device in each direction. What goes through the host between islands has this limit, not that of a
link alone.
"""

from __future__ import annotations

import argparse
import time

import torch

SIZE = 512 << 20
ROUNDS = 3


def pinned() -> torch.Tensor:
    return torch.empty(SIZE, dtype=torch.uint8, pin_memory=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunk", default="4M", help="MiB of one copy [4M]")
    chunk = int(parser.parse_args().chunk.rstrip("M")) << 20
    count = torch.cuda.device_count()
    host = [(pinned(), pinned()) for _ in range(count)]
    device = [
        tuple(torch.empty(SIZE, dtype=torch.uint8, device=f"cuda:{i}") for _ in range(2))
        for i in range(count)
    ]
    streams = [(torch.cuda.Stream(i), torch.cuda.Stream(i)) for i in range(count)]

    def copy_all(devices: list[int], directions: list[int]) -> None:
        for at in range(0, SIZE, chunk):
            for i in devices:
                for direction in directions:
                    ends = device[i][direction], host[i][direction]
                    source, target = ends if direction == 0 else ends[::-1]
                    with torch.cuda.stream(streams[i][direction]):
                        target[at : at + chunk].copy_(source[at : at + chunk], non_blocking=True)
        for i in devices:
            torch.cuda.synchronize(i)

    names = {(0,): "to the host", (1,): "from the host", (0, 1): "both ways at once"}
    for devices in ([0], [0, 1], list(range(count))):
        if len(devices) > count:
            continue
        for directions, name in names.items():
            copy_all(devices, list(directions))
            begin_s = time.perf_counter()
            for _ in range(ROUNDS):
                copy_all(devices, list(directions))
            rate = SIZE * ROUNDS / (time.perf_counter() - begin_s) / 1e9
            print(f"{len(devices)} devices, {name}: {rate:.1f} GB/s each", flush=True)


if __name__ == "__main__":
    main()
