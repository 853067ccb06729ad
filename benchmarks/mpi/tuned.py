"""Does a C program that does not know cclmark gain from the files of `cclmark tune` for an MPI?

    python benchmarks/mpi/tuned.py --prefix DIR [--ranks 2,4] [--operations all_reduce,broadcast]
        [--budget 60s] [--rounds 7] [--out FILE.json]

DIR holds an MPI as a wheel installs it: bin/mpirun, include/mpi.h, lib/libmpi.so.*. For each number
of ranks `cclmark tune` searches on the host and writes its files. Then the program (loop.c) runs
with and without them, each in a new mpirun, in turns; who comes first changes. Printed are the
ratio of times for each size, default over tuned, with its 95 % interval over the rounds, and the
geometric mean over all sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import geometric_mean

from compare import build, environment

from cclmark.analysis.paired import paired_ratio

TIMEOUT_S = 1800.0
Times = dict[tuple[str, int], float]


def tuned(prefix: Path, ranks: int, args: argparse.Namespace, directory: Path) -> tuple[Path, str]:
    """Tunes; returns the file with variables, and the command's output."""
    files, journal = directory / f"tuned-{ranks}", directory / f"tune-{ranks}.jsonl"
    command = [
        *(sys.executable, "-m", "cclmark", "tune", args.operations, "--ccl", "mpi"),
        *("--devices", f"host:{ranks}", "-b", str(args.sizes[0]), "-e", str(args.sizes[-1])),
        *("-f", "4", "--budget", args.budget, "-O", str(files), "--journal", str(journal)),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment(prefix)
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return files / "environment.sh", done.stdout


def variables_of(file: Path) -> dict[str, str]:
    """The variables that the file exports."""
    if not file.exists():
        return {}
    names = re.findall(r"(?m)^export (\w+)=", file.read_text())
    script = f'. "$1"; for name in {" ".join(names)}; do eval "echo \\$$name"; done'
    shown = subprocess.run(
        ["sh", "-c", script, "sh", file],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(names, shown.stdout.splitlines(), strict=True))


def of_loop(
    program: Path, prefix: Path, ranks: int, args: argparse.Namespace, more: dict[str, str]
) -> Times:
    """Microseconds of the program's middle batch by operation and size in bytes."""
    processors = sorted(os.sched_getaffinity(0))
    command = [str(prefix / "bin" / "mpirun")]
    if (prefix / "bin" / "ompi_info").exists():
        command += ["--oversubscribe", "--bind-to", "none"]
    for rank in range(ranks):
        command += [":"] if rank else []
        command += ["-n", "1", "taskset", "-c", str(processors[rank % len(processors)])]
        command += [str(program), args.operations, "0", *map(str, args.sizes)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**environment(prefix), **more},
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines()]
    return {(operation, int(size)): float(time_us) for operation, size, time_us in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, required=True)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--operations", default="all_reduce,all_gather,broadcast")
    parser.add_argument("--sizes", default="1024,4096,16384,65536,262144,1048576,4194304")
    parser.add_argument("--budget", default="60s", help="of each search [60s]")
    parser.add_argument("--rounds", type=int, default=7, help="at least 3 [7]")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.sizes = [int(text) for text in args.sizes.split(",")]
    entries = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        program = build(args.prefix, name)
        for ranks in map(int, args.ranks.split(",")):
            file, text = tuned(args.prefix, ranks, args, directory)
            print(text, flush=True)
            more = variables_of(file)
            print(f"{ranks} ranks: the program with {more or 'nothing: no files were written'}")
            if not more:
                continue
            rounds: list[tuple[Times, Times]] = []
            for number in range(args.rounds):
                sides = [{}, more] if number % 2 else [more, {}]
                found = [of_loop(program, args.prefix, ranks, args, one) for one in sides]
                rounds.append((found[0], found[1]) if number % 2 else (found[1], found[0]))
            ratios = []
            for key in rounds[0][0]:
                logs = [math.log(usual[key] / own[key]) for usual, own in rounds]
                one = paired_ratio([logs])
                ratios.append(one.ratio)
                print(
                    f"{ranks} ranks {key[0]:>12} {key[1]:>9}  "
                    f"{geometric_mean(usual[key] for usual, _ in rounds):10.3f} "
                    f"{geometric_mean(own[key] for _, own in rounds):10.3f} us  "
                    f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})",
                    flush=True,
                )
                entries.append(
                    {
                        "ranks": ranks,
                        "operation": key[0],
                        "size_bytes": key[1],
                        "default_us": [usual[key] for usual, _ in rounds],
                        "tuned_us": [own[key] for _, own in rounds],
                        "ratio": one.ratio,
                        "interval": [one.low, one.high],
                    }
                )
            print(f"{ranks} ranks: geometric mean of all sizes {geometric_mean(ratios):.3f}")
    if args.out:
        args.out.write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
