#!/usr/bin/env python3
"""Do graph rows agree with nccl-tests -G, and what does the memory of the buffers change?

    python benchmarks/graphs.py --nccl-tests DIR [--rounds 3] [--out FILE.txt]

DIR holds nccl-tests' programs built with MPI=1. In each round, nccl-tests (-G 20 -n 20 -w 5, a
process per device, its slowest rank) and `cclmark collectives -G 20` run in turn, ours
once for each kind of memory; the first kind is cclmark's default. Out of place. Printed are the
medians over the rounds and their ratios to nccl-tests'.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from fidelity import mpirun, run, times_in

OPERATIONS = "all_gather,all_reduce,reduce_scatter,broadcast,alltoall,sendrecv"
Key = tuple[str, int]


def theirs(args: argparse.Namespace) -> dict[Key, float]:
    """Microseconds by operation and size, as nccl-tests prints them out of place."""
    flags = ["-b", args.begin, "-e", args.end, "-f", args.factor, "-n", "20", "-w", "5", "-c", "0"]
    flags += ["-a", "3", "-G", str(args.launches)]
    times: dict[Key, float] = {}
    for operation in args.operations.split(","):
        text, _ = run(mpirun(args.ranks, args.nccl_tests / f"{operation}_perf", flags))
        for (size, in_place), time_us in times_in(text).items():
            if size > 0 and not in_place:
                times[operation, size] = time_us
    return times


def ours(args: argparse.Namespace, memory: str) -> dict[Key, float]:
    """The same as cclmark measures them with a kind of memory, empty for its default."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "cclmark", "collectives", "--only", args.operations]
        command += ["-b", args.begin, "-e", args.end, "-f", args.factor, "-g", str(args.ranks)]
        command += ["--placement", "out-of-place", "-G", str(args.launches), "--format", "json"]
        command += ["--journal", f"{directory}/run.jsonl"]
        text, _ = run([*command, *(["--memory", memory] if memory else [])])
    return {
        (entry["case"]["operation"], entry["case"]["size_bytes"]): entry["summary"]["time_s"] * 1e6
        for entry in json.loads(text)["cases"]
        if entry["summary"] is not None
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nccl-tests", type=Path, required=True, help="directory of its programs")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--launches", type=int, default=20, help="graph launches")
    parser.add_argument("--operations", default=OPERATIONS)
    parser.add_argument("--memory", default="plain", help="kinds of memory besides the default")
    parser.add_argument("--begin", default="8")
    parser.add_argument("--end", default="1G")
    parser.add_argument("--factor", default="8")
    parser.add_argument("--out", type=Path, help="file for the figures, besides the output")
    args = parser.parse_args()
    kinds = ["", *filter(None, args.memory.split(","))]
    found: dict[str, dict[Key, list[float]]] = {name: {} for name in ("nccl-tests", *kinds)}
    for _ in range(args.rounds):
        for name, own in found.items():
            for key, time_us in (
                theirs(args) if name == "nccl-tests" else ours(args, name)
            ).items():
                own.setdefault(key, []).append(time_us)
    names = ["nccl-tests us", *(f"{kind or 'default'} us  ratio" for kind in kinds)]
    lines = [f"{'operation':>14} {'size':>12}  " + "  ".join(f"{name:>18}" for name in names)]
    for (operation, size), peers in sorted(found["nccl-tests"].items()):
        peer_us = median(peers)
        cells = [f"{peer_us:18.2f}"]
        for kind in kinds:
            own = found[kind].get((operation, size))
            cells.append(
                f"{median(own):10.2f}  {median(own) / peer_us:6.3f}" if own else f"{'-':>18}"
            )
        lines.append(f"{operation:>14} {size:>12}  " + "  ".join(cells))
    print("\n".join(lines))
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
