#!/usr/bin/env python3
"""How long is it from the shell to the prompt? cclmark against nccl-tests, in turn.

    python benchmarks/time_to_answer.py --nccl-tests DIR [--rounds 3] [--out FILE.json]

DIR holds nccl-tests' programs built with MPI=1. First one operation, then all of them: cclmark
measures them in one launch, nccl-tests is one program after another, as a process per device and
as one process with all devices (-g), which opens the driver once. All check every size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from fidelity import mpirun, run

ALL = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "alltoallv",
    "gather", "scatter", "sendrecv",
)  # fmt: skip
SIZES = ["-b", "8", "-e", "1G", "-f", "4"]
VENDOR_PHASES = ("opening the device", "communicator creation", "shutdown")


def ours(command: str, ranks: int) -> tuple[float, dict[str, object]]:
    """Seconds of a whole cclmark command, and its journal's last line."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "run.jsonl"
        flags = ["-g", str(ranks), "--journal", str(journal)]
        _, wall_s = run([sys.executable, "-m", "cclmark", command, *SIZES, *flags])
        return wall_s, json.loads(journal.read_text().splitlines()[-1])


def theirs(operations: tuple[str, ...], directory: Path, ranks: int, *, single: bool) -> float:
    """Seconds of nccl-tests' programs, one after another. ``single``: each as one process."""
    flags = [*SIZES, "-c", "1", "-n", "20", "-w", "5"]
    programs = [directory / f"{name}_perf" for name in operations]
    if single:
        return sum(run([str(one), *flags, "-g", str(ranks)])[1] for one in programs)
    return sum(run(mpirun(ranks, one, flags))[1] for one in programs)


def main() -> None:
    """Runs both comparisons and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--commands", default="all_reduce,collectives")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    results = []
    for command in args.commands.split(","):
        operations = ALL if command == "collectives" else (command,)
        walls, peers, singles, footers = [], [], [], []
        for _ in range(args.rounds):
            wall_s, footer = ours(command, args.ranks)
            walls.append(wall_s)
            footers.append(footer)
            peers.append(theirs(operations, args.nccl_tests, args.ranks, single=False))
            singles.append(theirs(operations, args.nccl_tests, args.ranks, single=True))
        phases = footers[-1]["phases_s"]
        vendor_s = sum(phases[name] for name in VENDOR_PHASES)
        print(
            f"{command}: cclmark {median(walls):.2f} s, nccl-tests {median(peers):.2f} s, ratio "
            f"{median(walls) / median(peers):.3f}, as one process {median(singles):.2f} s, ratio "
            f"{median(walls) / median(singles):.3f}; of ours {vendor_s:.2f} s are the vendor's "
            f"start-up and shutdown, {median(walls) - vendor_s:.2f} s everything else",
            flush=True,
        )
        results.append(
            {
                "command": command,
                "cclmark_s": walls,
                "nccl_tests_s": peers,
                "nccl_tests_one_process_s": singles,
                "footers": footers,
            }
        )
    if args.out:
        args.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    try:
        main()
    except subprocess.TimeoutExpired as error:
        sys.exit(f"{error}: raise TIMEOUT_S in fidelity.py if that was to be expected")
