#!/usr/bin/env python3
"""Do our times agree with nccl-tests'? Both measure the same libnccl in turn, several times.

    python benchmarks/fidelity.py --nccl-tests DIR [--rounds 5] [--same-flags] [--out FILE.json]

DIR holds nccl-tests' programs built with MPI=1. Each round runs, for each operation, nccl-tests
(one process per device under mpirun, -n 20 -w 5) and cclmark on the same sizes: by its own method,
the median over samples until that is known well, or with --same-flags 20 operations after 5, once.
What counts is the ratio of the medians over the rounds, per size and placement: ours over theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "sendrecv")
# nccl-tests overwrites these operations' input in place while it is read; cclmark puts it aside
# first: another thing to measure. Not measured here either, since what ran before a case decides
# which of its levels NCCL's alltoall takes (benchmarks/README.md).
OUT_OF_PLACE_ONLY = ("alltoall", "sendrecv")
TIMEOUT_S = 300


def nccl_environment() -> dict[str, str]:
    """The environment for both, with the directory of the libnccl that cclmark picks in front."""
    environment = dict(os.environ)
    library = os.environ.get("CCLMARK_NCCL_LIBRARY")
    if library:
        paths = [str(Path(library).parent), environment.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    return environment


def run(command: list[str]) -> tuple[str, float]:
    """Standard output of a command and the seconds it took. Ends the program when it fails."""
    begin_s = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=nccl_environment()
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout, time.monotonic() - begin_s


def mpirun(ranks: int, program: Path, flags: list[str]) -> list[str]:
    """The command line that runs one of nccl-tests' programs with a process per device."""
    return [
        "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), str(program),
        *flags, "-g", "1",
    ]  # fmt: skip


def times_in(text: str) -> dict[tuple[int, bool], float]:
    """Microseconds by size and placement (in place or not) in the output of nccl-tests."""
    times: dict[tuple[int, bool], float] = {}
    for line in text.splitlines():
        cells = line.split()
        if len(cells) == 13 and cells[0].isdigit():
            times.setdefault((int(cells[0]), False), float(cells[5]))
            times.setdefault((int(cells[0]), True), float(cells[9]))
    return times


def theirs(args: argparse.Namespace, operation: str) -> dict[tuple[int, bool], float]:
    """Microseconds by size and placement, as nccl-tests prints them."""
    flags = ["-b", args.begin, "-e", args.end, "-f", args.factor, "-n", "20", "-w", "5", "-c", "0"]
    flags += ["-a", "3"]  # the slowest rank's time, as cclmark reports
    text, _ = run(mpirun(args.ranks, args.nccl_tests / f"{operation}_perf", flags))
    return times_in(text)


def ours(args: argparse.Namespace, operation: str) -> dict[tuple[int, bool], float]:
    """Microseconds by size and placement, as cclmark measures them."""
    with tempfile.TemporaryDirectory() as directory:
        text, _ = run(
            [
                sys.executable, "-m", "cclmark", operation, "-b", args.begin, "-e", args.end,
                "-f", args.factor, "-g", str(args.ranks), "-c", "0", "--format", "json",
                "--placement", "out-of-place" if operation in OUT_OF_PLACE_ONLY else "both",
                "--journal", f"{directory}/run.jsonl",
                *(["-n", "20", "-w", "5"] if args.same_flags else []),
            ]
        )  # fmt: skip
    return {
        (entry["case"]["size_bytes"], entry["case"]["in_place"]): entry["summary"]["time_s"] * 1e6
        for entry in json.loads(text)["cases"]
        if entry["summary"] is not None
    }


def compare(args: argparse.Namespace, operation: str) -> list[dict[str, object]]:
    """One entry per size and placement that both measured."""
    rounds = []
    for _ in range(args.rounds):
        rounds.append((ours(args, operation), theirs(args, operation)))
    keys = set.intersection(*(set(mine) & set(peer) for mine, peer in rounds))
    entries = []
    for size, in_place in sorted(keys):
        mine = [pair[0][size, in_place] for pair in rounds]
        peer = [pair[1][size, in_place] for pair in rounds]
        entries.append(
            {
                "operation": operation,
                "size_bytes": size,
                "in_place": in_place,
                "cclmark_us": mine,
                "nccl_tests_us": peer,
                "ratio": median(mine) / median(peer),
            }
        )
    return entries


def main() -> None:
    """Runs the comparison and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--same-flags", action="store_true")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("-b", dest="begin", default="8")
    parser.add_argument("-e", dest="end", default="4G")
    parser.add_argument("-f", dest="factor", default="4")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    entries = []
    print(
        f"{'operation':>16} {'size':>12} {'placement':>12} {'ours us':>10} {'theirs us':>10} ratio"
    )
    for operation in args.operations.split(","):
        for entry in compare(args, operation):
            entries.append(entry)
            print(
                f"{operation:>16} {entry['size_bytes']:>12} "
                f"{'in-place' if entry['in_place'] else 'out-of-place':>12} "
                f"{median(entry['cclmark_us']):>10.2f} {median(entry['nccl_tests_us']):>10.2f} "
                f"{entry['ratio']:.3f}",
                flush=True,
            )
            if args.out:
                args.out.write_text(json.dumps(entries, indent=1))


if __name__ == "__main__":
    main()
