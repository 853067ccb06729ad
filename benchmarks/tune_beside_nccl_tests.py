#!/usr/bin/env python3
"""Does nccl-tests gain as much from the files of `cclmark tune` as cclmark reports?

    python benchmarks/tune_beside_nccl_tests.py --nccl-tests DIR --tuned DIR [--journal FILE]
        [--rounds 5] [--graphs N] [--tuned-flags="-R 2"] [--out FILE.json]

--tuned is the directory that `cclmark tune` wrote, on this machine. nccl-tests' programs (DIR,
built with MPI=1) run in turn with and without its environment file. Per operation and size: the
median of the ratios of both times in each round, and their geometric mean over all sizes. With
--journal, the journal of `cclmark tune`, the same from its proof. --tuned-flags are options that
nccl-tests gets beside the files only, such as the program change "-R 2" (symmetric windows) that
`tune --app-changes yes` may select. nccl-tests must load the library
that was tuned, for example by LD_LIBRARY_PATH: the files do not apply to another version.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from fidelity import mpirun

from cclmark.plan.variants import Variant
from cclmark.recording.trial_measuring import compared_time
from cclmark.results.journal import read_journal


def variables_of(path: Path) -> dict[str, str]:
    """The variables that a shell has after reading the file."""
    script = f'. "{path}"; env -0'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    pairs = (line.partition("=") for line in done.stdout.split("\0") if line)
    return {name: value for name, _, value in pairs if os.environ.get(name) != value}


def library_of(path: Path) -> str:
    """The version that the files were proven for, X.Y.Z. Raises SystemExit if none is given."""
    found = re.search(r"^# nccl (\d+\.\d+\.\d+)", path.read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"{path} has no line '# nccl VERSION'")
    return found[1]


def check_library(output: str, expected: str) -> None:
    """Raises SystemExit if the output of nccl-tests names another version of the library."""
    found = re.search(r"nccl-library=(\d+)", output)
    if found is None:
        return  # of a version of nccl-tests that does not print it
    code = int(found[1])  # as ncclGetVersion gives it
    version = f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    if version != expected:
        sys.exit(f"nccl-tests loads NCCL {version}, the files are for {expected}: LD_LIBRARY_PATH?")


def times(
    args: argparse.Namespace,
    operation: str,
    more: dict[str, str],
    library: str,
    tuned_flags: str = "",
) -> dict[int, float]:
    """Out-of-place microseconds by size."""
    flags = f"-b {args.begin} -e {args.end} -f {args.factor} -n 20 -w 5 -c 0 -a 3".split()
    flags += tuned_flags.split()
    if args.graphs:
        flags += ["-G", str(args.graphs)]
    command = mpirun(args.ranks, args.nccl_tests / f"{operation}_perf", flags)
    done = subprocess.run(
        command, env={**os.environ, **more}, capture_output=True, text=True, timeout=120, check=True
    )
    check_library(done.stdout, library)
    rows = (line.split() for line in done.stdout.splitlines() if re.match(r"\s+\d+\s+\d+\s", line))
    return {int(row[0]): float(row[5]) for row in rows}


def proven(path: Path) -> dict[tuple[str, int], float]:
    """The median over the rounds of the proof of the default's time over the tuned one.

    Of a proof that was repeated without some rules only the rounds with the last files count, at
    each size the last that were measured.
    """
    rounds: dict[tuple[str, int, int], dict[str, float]] = defaultdict(dict)
    files: dict[tuple[str, int, int], Variant] = {}
    for one in read_journal(path).trials:
        time_s = compared_time(one)
        if one.trial.stage == "proof" and time_s is not None and not one.trial.variant.control:
            name = "default" if one.trial.variant.is_default else "tuned"
            key = (one.trial.case.operation, one.trial.case.size_bytes, one.trial.round)
            rounds[key][name] = time_s
            if name == "tuned":
                files[key] = one.trial.variant
    last: dict[tuple[str, int], Variant] = {}
    for operation, size, number in sorted(files):
        last[operation, size] = files[operation, size, number]
    ratios: dict[tuple[str, int], list[float]] = defaultdict(list)
    for (operation, size, number), pair in rounds.items():
        if len(pair) == 2 and files[operation, size, number] == last[operation, size]:
            ratios[operation, size].append(pair["default"] / pair["tuned"])
    return {key: median(values) for key, values in ratios.items()}


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nccl-tests", type=Path, required=True)
    parser.add_argument("--tuned", type=Path, required=True)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--operations", default="all_reduce,all_gather,reduce_scatter")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--begin", default="1M")
    parser.add_argument("--end", default="1G")
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--tuned-flags", default="", help="of nccl-tests, beside the files only")
    parser.add_argument("--graphs", type=int, default=0, help="nccl-tests' -G: replays of a graph")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    more = variables_of(args.tuned / "environment.sh")
    library = library_of(args.tuned / "environment.sh")
    if not more:
        sys.exit(f"{args.tuned / 'environment.sh'} sets nothing")
    found: dict[str, dict[int, list[float]]] = {}
    for _ in range(args.rounds):
        for operation in args.operations.split(","):
            usual = times(args, operation, {}, library)
            tuned = times(args, operation, more, library, args.tuned_flags)
            for size, time_us in usual.items():
                own = found.setdefault(operation, {}).setdefault(size, [])
                own.append(time_us / tuned[size])
    ours = proven(args.journal) if args.journal else {}
    for operation, by_size in found.items():
        both = [size for size in by_size if (operation, size) in ours]
        for size, values in by_size.items():
            own = ours.get((operation, size))
            text = f"{operation:16}{size:12}  nccl-tests {median(values):.3f}"
            print(text + ("" if own is None else f"  cclmark {own:.3f}"))
        line = f"{operation}: geometric mean {mean([median(v) for v in by_size.values()]):.3f}"
        if both:
            line += (
                f"; of {len(both)} sizes that cclmark measured: nccl-tests "
                f"{mean([median(by_size[size]) for size in both]):.3f}, cclmark "
                f"{mean([ours[operation, size] for size in both]):.3f}"
            )
        print(line)
    if args.out is not None:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
